"""Slips in wrappers and in what runs beside them: whose bytes, which sizes, which files."""

from __future__ import annotations

from tests.mutants.faults import Fault


def _slip(name: str, file: str, old: str, new: str, *levels: str) -> Fault:
    return Fault(name, f"codegen/{file}", old, new, levels)


FAULTS: tuple[Fault, ...] = (
    _slip(
        "sizes handed to a function in another order", "emit/program_lines.py",
        "args = \", \".join((*(self.sizes[d] for d in sizes), *values))",
        "args = \", \".join((*(self.sizes[d] for d in [*sizes][::-1]), *values))",
        "host",
    ),
    _slip(
        "a part of a buffer taken for all of it", "emit/program_lines.py",
        "if isinstance(s.offset, int) and s.offset == 0 and same:",
        "if isinstance(s.offset, int) and s.offset == 0:", "host",
    ),
    _slip(
        "each constant read from the start of the weights", "emit/wrapper.py",
        "{name: start + at for name, at in offsets.items()}", "dict.fromkeys(offsets, start)",
        "host",
    ),
    _slip(
        "carried values moved one after another", "emit/program_lines.py",
        "moved = [(v, source, self._holders.holder(source)) for v, source in s.values]",
        "moved = [(v, source, self.python[source]) for v, source in s.values]", "host",
    ),
    _slip(
        "use after free: an input freed before its last use", "emit/program_lines.py",
        "for v in last.get(i, ()):", "for v in last.get(i + 1, ()):",
        "host", "simt", "wrapper",
    ),
    _slip(
        "an input freed while a view of it is in use", "emit/holders.py",
        "if isinstance(s, View) and s.of in of:",
        "if isinstance(s, View) and s.of in of and not of:",
        "host", "simt", "wrapper",
    ),
    _slip(
        "a symbol bound from the wrong axis", "emit/binding.py",
        "yield Told(d.name, (Place(v, axis, 1, 0),))",
        "yield Told(d.name, (Place(v, max(0, axis - 1), 1, 0),))",
        "host", "simt", "wrapper",
    ),
    _slip(
        "a part of a buffer taken from its start", "emit/program_lines.py",
        'view = f"{py[of]}, {code(s.offset, self.sizes)}, {self._bytes(v)}"',
        'view = f"{py[of]}, 0, {self._bytes(v)}"',
        "host", "simt", "wrapper",
    ),
    _slip(
        "an output freed through an alias", "memory/liveness.py",
        "if isinstance(line, View | Strided):", "if isinstance(line, View):", "plan", "program",
    ),
    _slip(
        "a view with a wrong stride", "emit/program_lines.py",
        "at = shape(self._types[line.value].shape, sizes), shape(line.strides, sizes)",
        "at = shape(self._types[line.value].shape, sizes), shape(line.strides[::-1], sizes)",
        "program", "host", "simt", "wrapper",
    ),
    _slip(
        "a symbol bound from the stride of the wrong axis", "emit/binding.py",
        'f"strides[{index[x.input]}][{x.axis}], ', 'f"strides[{index[x.input]}][{x.axis - 1}], ',
        "host", "simt", "module",
    ),
    _slip(
        "an input with strides that is read from the start of its memory", "lower/build.py",
        "return ix.add(*steps, ix.of_dim(offset))", "return ix.add(*steps)", "loop", "kernel",
    ),
    _slip(
        "an input read by its strides in another order", "lower/build.py",
        "zip(index, strides, strict=True))", "zip(index, strides[::-1], strict=True))",
        "loop", "kernel",
    ),
    _slip(
        "the memory of an input with strides from its first element on",
        "runtime/didyma_runtime/rows.py",
        "_address(array) - offset * array.itemsize", "_address(array)", "host", "simt", "module",
    ),
    _slip(
        "a stride asked of an axis that moves nowhere", "runtime/didyma_runtime/rows.py",
        "if got is not None and got != want:", "if got != want:", "host", "simt", "module",
    ),
    _slip(
        "use after free: a buffer freed at the line before", "memory/insert.py",
        "self.after.setdefault((life.block, life.last), []).extend(lines)",
        "self.before.setdefault((life.block, life.last), []).extend(lines)",
        "plan", "program",
    ),
    _slip(
        "workspace not zeroed: the states of a chain of blocks", "schedule/recipes/chain.py",
        "at, ix.index(count + 1), Store(", "at, ix.index(count), Store(", "kernel",
    ),
    _slip(
        "stale shape between calls: a replay that compares ranks alone", "emit/prelude/replay.c",
        "if (a->shape[k] != wanted->shape[k]) return 0;", "if (!a->shape) return 0;", "module",
    ),
    _slip(
        "stale shape between calls: a launch of the first sizes again",
        "runtime/didyma_runtime/host.py",
        "known = e.known.get(values)", "known = next(iter(e.known.values()), None)",
        "host", "calls", "module",
    ),
    _slip(
        "a constant of another hash", "runtime/didyma_runtime/dtypes.py",
        "    if got != digest:", "    if len(got) != len(digest):", "module",
    ),
    _slip(
        "an input that a replay keeps", "emit/prelude/replay.c",
        "if (t->held[input]) python__.drop(t->held[input]);", "", "module",
    ),
    _slip(
        "inputs repeated whatever their strides", "emit/prelude/replay.c",
        "a->strides[k] != wanted->strides[k]", "!a->strides", "module",
    ),
    _slip(
        "an input with strides repeated from its first element on", "emit/prelude/replay.c",
        "->data - t->input[i].before;", "->data;", "module",
    ),
    _slip(
        "a view from the start of its value", "emit/program_lines.py",
        "{', '.join(at)}, {code(line.offset, sizes)})", "{', '.join(at)}, 0)",
        "program", "host", "simt", "wrapper",
    ),
    _slip(
        "a base read without its steps", "layouts/module.py",
        "tuple(max(1, s.step) for s in layout)", "tuple(1 for s in layout)", "layouts",
    ),
    _slip(
        "a download in the order of columns", "runtime/host.py",
        "return from_memory(buffer.array[:nbytes], dtype, shape).copy()",
        'return from_memory(buffer.array[:nbytes], dtype, shape).copy("F").reshape('
        'shape, order="A" if len(shape) < 4 else "F")', "host",
    ),
)  # fmt: skip
