"""Programs as Python modules that stand alone: the text of the kernels, and each line as a line.

A module imports NumPy and ``didyma_runtime``, a package that is copied beside it.  It has
``call(args)``, which runs the program and empties the list of its arguments, and ``load()``, which
loads kernels and constants once.  Both stand on ``run(engine, inputs, kernels)``, whose lines are
those of the program, and ``upload(engine)`` for the constants, by which Didyma runs the module on
any engine.  ``python MODULE --help`` tells how it is called as a script, on random inputs.

Kernels are in ``OBJECTS``, files of machine code beside the module.  Constants of at most
``embedded`` bytes in all stand in the module as base64.  Beyond that they are in a file beside the
module, ``<program>.safetensors``, as ``weights`` returns it.  The module knows the hash of each.
"""

from __future__ import annotations

import hashlib
import json
import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from didyma.codegen.devices import named
from didyma.codegen.emit import line_map
from didyma.codegen.emit.binding import bind, given_dims
from didyma.codegen.emit.buckets import Buckets, own_inputs
from didyma.codegen.emit.buckets import table as bucket_table
from didyma.codegen.emit.dynamic import placed
from didyma.codegen.emit.externs import Entry, table
from didyma.codegen.emit.holders import shared
from didyma.codegen.emit.integers import of_sizes, quoted, tuple_of
from didyma.codegen.emit.names import c_names, sanitise
from didyma.codegen.emit.program_lines import LineWriter, constant
from didyma.codegen.emit.shapes import result_shape
from didyma.codegen.options import EMBEDDED
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.aliases import aliases
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import Kernel, KernelText, Signature
from didyma.refimpl.ir.lines import most_variants, walk
from didyma.refimpl.ir.program import Arena, Program
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.streams import several

_BETWEEN = "\n\n\n"  # sections of a module
_APART = 64  # the data of the weights starts at a multiple of it, after the length
RUNTIME = "didyma_runtime"  # the package beside a module
_OWN = (
    "rt partial cache bind call constants load loaded run shapes upload engine inputs arrays"
    " strides kernels weights externs sizes results buffer finite args traced tapes min max by_line"
    " whole BUCKETS DIMS EXTERNS INPUTS KERNELS LINES OBJECTS SOURCE TOLD"
)
_CALL = '''\
traced = rt.traced(run, LINES)
tapes = rt.Tapes(run, traced, LINES{laid})


@cache
def load():
    """Load the kernels and the constants, once."""
    return rt.load(partial(rt.beside, __file__), OBJECTS, KERNELS, {constants}, SOURCE{more})


def {name}(args, **asked):
    """Return the results of the program for a list of arrays, which is emptied.

    No input is kept after its last use.  A call whose inputs have shapes that an earlier one had
    repeats what that one did, unless something is `asked` of it by name, as of `by_line`.
    """
    if not asked and (results := tapes.replay(args)) is not None:
        return results
    return by_line(args, **asked)


def by_line(
    args, *, finite=False, strict=False, watch=None, around=None, synchronous=False, externs=None
):
    """Return the results as `call` does, line by line if something is asked.

    Where `finite` is true, inputs and what each kernel computes must be finite numbers; where
    `strict` is, no input may need a copy to be read.  `watch` is called with an `rt.Launch` after
    each launch, and `around` with the kernel's name for a context in which it is launched.  Where
    `synchronous` is true, each launch has ended before the next line, so that an error is that of
    its launch.  `externs` are library routines, as of `run`, beside those that the program carries.
    """
    plain = not (finite or strict or watch or around or synchronous or externs)
    engine, kernels, weights, carried = load()
    externs = {{**carried, **(externs or {{}})}}
    if finite:
        rt.finite(args, INPUTS)
    if strict:
        rt.strict({strict}, INPUTS)
    asked = {{"finite": finite, "watch": watch, "around": around, "synchronous": synchronous}}
    kernels = rt.watched(kernels, run, LINES, **asked)
    try:
        with engine.current():
            how = tapes.run if plain else traced
            return how(engine, rt.taken(args), kernels, weights, externs)
    except Exception as e:
        rt.locate(e, run, LINES)
        raise
{flat}{bucketed}

if __name__ == "__main__":
    rt.main(call, INPUTS, shapes, DIMS)
'''
_FLAT = '''

def call_with_numel(args, numel, **asked):
    """Return the results of `call` for the first `numel` elements of arrays of any shape.

    Elements are taken in row-major order, and results have one axis.
    """
    return call(rt.flat(args, INPUTS, numel), **asked)
'''
_BUCKETED = '''

def call(args, **asked):
    """Return the results of the program for a list of arrays, which is emptied.

    They are padded to `BUCKETS`, and results are cut.  What may be `asked` is as of `by_line`.
    """
    return BUCKETS.call(whole, args, len(INPUTS), lambda inputs: bind(inputs)[1], **asked)
'''
_SAFETENSORS = {
    DType.F64: "F64", DType.F32: "F32", DType.F16: "F16", DType.BF16: "BF16", DType.BOOL: "BOOL",
    DType.I8: "I8", DType.I16: "I16", DType.I32: "I32", DType.I64: "I64",
    DType.U8: "U8", DType.U16: "U16", DType.U32: "U32", DType.U64: "U64",
    DType.F8E4M3: "F8_E4M3", DType.F8E5M2: "F8_E5M2",
}  # fmt: skip


def emit(
    p: Program,
    text: KernelText,
    embedded: int = EMBEDDED,
    objects: Mapping[str, tuple[str, str]] | None = None,
    externs: Mapping[str, Entry] | None = None,
    buckets: Buckets | None = None,
) -> str:
    """Return the source of a module that runs a program, whose kernels are ``text``.

    ``objects`` are file and SHA-256 of the kernels' machine code, by the kind of machine, and
    ``externs`` the external functions beside it.  With ``buckets`` the module pads its inputs.
    Error: ``unbound-dim`` if no input tells a size.
    """
    called = {k.name: s.name for k, s in zip(p.kernels, text.kernels, strict=True)}

    dispatches = most_variants(p) > 1
    own = [*keyword.kwlist, *_OWN.split(), *(["dispatch"] if dispatches else [])]
    names = c_names(own)
    functions = {f.name: names.fresh(f.name) for f in p.functions}

    def writer(f: Program) -> LineWriter:
        arenas = (s.name for s in walk(f.lines) if isinstance(s, Arena))
        mine = c_names([*own, *functions.values()])
        sizes = {d.name: mine.fresh(d.name) for d in f.dims}
        python = {v: mine.fresh(v) for v in (*f.type, *arenas)}
        streams = several(f.lines)
        arrays = {v: mine.fresh(f"{v}_array") for v in (shared(p) if f is p else ())}
        return LineWriter(
            f, python, sizes, called, functions, arrays, streams, f is not p, dispatches
        )

    entry = writer(p)
    made = "constants()" if p.constants else "[]"
    imports = f"from functools import cache, partial\n\nimport {RUNTIME} as rt"
    sections: list[list[str]] = [
        [f'"""{_title(p)}"""\n\n{imports}\n\nSOURCE = r"""{text.source}"""'],
        list(_tables(p, text, objects or {}, own_inputs(p, buckets))),
        list(table(externs or {})),
        list(_constants(p, embedded)),
        list(bind(p, entry.python, entry.sizes, own_inputs(p, buckets))),
        list(bucket_table(buckets, [d.name for d in given_dims(p)]) if buckets else ()),
        *(list(writer(f).function()) for f in p.function.values()),
        list(entry.call()),
    ]
    starts = _placed([s for s in sections if s])
    more = f"{', externs=EXTERNS' if externs else ''}{_devices(p)}"
    lie = tuple(i for i, v in enumerate(p.inputs) if p.type[v].strides is not None)
    strict = "bind(args)[0]" if lie else "args"  # what is read, as it lies
    laid = f", laid={lie!r}" if lie else ""
    called_by = {
        "name": "whole" if buckets else "call",
        "flat": _FLAT if is_flat(p, buckets) else "",
        "bucketed": _BUCKETED if buckets else "",
    }
    call = _CALL.format(constants=made, more=more, strict=strict, laid=laid, **called_by)
    last = [*line_map.table(starts), "", "", call]
    return _BETWEEN.join("\n".join(rows) for rows in (*(rows for _, rows in starts), last))


def is_flat(p: Program, buckets: Buckets | None = None) -> bool:
    """Return whether all inputs are of one size that a call tells, or single elements."""
    own = own_inputs(p, buckets)
    found = {p.type[v].shape for v in own} - {()}
    lie = any(p.type[v].strides is not None for v in own)
    return not lie and len(found) == 1 and found == {(dims.symbol(d.name),) for d in given_dims(p)}


def _placed(sections: Sequence[list[str]]) -> list[tuple[int, list[str]]]:
    """Return runs of lines, two empty lines apart, each with the number of its first."""
    starts = accumulate((_lines(rows) + 2 for rows in sections), initial=1)
    return list(zip(starts, sections, strict=False))


def _lines(rows: Iterable[str]) -> int:
    return sum(row.count("\n") + 1 for row in rows)


def weights(p: Program) -> bytes:
    """Return the contents of the file of weights: constants in the format of safetensors.

    Those of dtypes that it has not are bytes there.
    """
    offsets, data = _laid_out(p)
    entries: dict[str, Any] = {}
    for name, t in p.constants:
        kind = _SAFETENSORS.get(t.dtype)
        shape = [len(t.data)] if kind is None else list(t.shape)
        at = offsets[name]
        ends = [at, at + len(t.data)]
        entries[name] = {"dtype": kind or "U8", "shape": shape, "data_offsets": ends}
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _APART)
    return len(head).to_bytes(8, "little") + head + data


def _laid_out(p: Program) -> tuple[dict[str, int], bytes]:
    """Return where each constant starts in the data of the weights, and the data.

    The format has no gaps; wider elements come first, so that each is aligned.
    """
    offsets: dict[str, int] = {}
    data = bytearray()
    for name, t in sorted(p.constants, key=lambda pair: -pair[1].dtype.bits):
        offsets[name] = len(data)
        data += t.data
    return offsets, bytes(data)


def _title(p: Program) -> str:
    types = p.type
    lines = [f"Program {sanitise(p.name)}, written by Didyma.", ""]
    lines += [f"in   {sanitise(v)}: {types[v]}" for v in p.inputs]
    lines += [f"out  {sanitise(v)}: {types[v]}" for v in p.results]
    lines += [str(replace(a, result=sanitise(a.result), of=sanitise(a.of))) for a in aliases(p)]
    return "\n".join([*lines, ""])


def _tables(
    p: Program, text: KernelText, objects: Mapping[str, tuple[str, str]], own: Sequence[str]
) -> Iterator[str]:
    types = p.type
    asked = placed(text.source)[1] if any(name.startswith("sm_") for name in objects) else {}
    yield "KERNELS = {"
    for k, s in zip(p.kernels, text.kernels, strict=True):
        yield from _kernel(k, s, asked.get(s.name, 0))
    yield "}"
    yield "OBJECTS = {"
    for machine, (file, digest) in objects.items():
        yield f"    {quoted(machine)}: ({quoted(file)}, {quoted(digest)}),"
    yield "}"
    for name, values in (("INPUTS", own), ("TOLD", p.inputs[len(own) :])):
        if values or name == "INPUTS":
            yield f"{name} = ("
            for v in values:
                yield f"    ({quoted(sanitise(v))}, {quoted(types[v].dtype)}, {types[v].rank}),"
            yield ")"
    yield f"DIMS = {{{', '.join(f'{quoted(d.name)}: ({d.lo}, {d.hi})' for d in given_dims(p))}}}"


def _kernel(k: Kernel, s: Signature, shared: int) -> Iterator[str]:
    yield f"    {quoted(s.name)}: rt.Kernel("
    buffers = (f"({quoted(b)}, {quoted(d)})" for b, d in s.buffers)
    yield f"        buffers={tuple_of(buffers)},"
    yield f"        outputs={tuple_of(map(quoted, s.outputs))},"
    yield f"        dims={tuple_of(map(quoted, s.dims))},"
    yield f"        grid=lambda s: {tuple_of(map(of_sizes, s.grid))},"
    yield f"        sizes=lambda s: {tuple_of(map(of_sizes, s.sizes))},"
    yield f"        block={s.block},"
    shapes = (tuple_of(map(of_sizes, result_shape(k, s, b))) for b in s.outputs)
    yield f"        shapes=lambda s: {tuple_of(shapes)},"
    if source := dict(k.attrs).get("source"):
        assert isinstance(source, tuple)
        yield f"        nodes={tuple_of(quoted(str(name)) for name in source)},"
    if shared:
        yield f"        shared={shared},"
    if s.maps:
        rows = (", ".join(of_sizes(of_dim(n)) for n in row) for row in s.described)
        yield f"        maps=lambda s: {tuple_of(f'rt.Described({row})' for row in rows)},"
    yield "    ),"


def _constants(p: Program, embedded: int) -> Iterator[str]:
    if not p.constants:
        return
    yield "def constants(weights=None):"
    yield '    """Return the program\'s constants, in order."""'
    beside = sum(len(t.data) for _, t in p.constants) > embedded
    offsets: Mapping[str, int] = {}
    if beside:
        name, digest, offsets = weights_table(p)
        file = quoted(name)
        yield "    if weights is None:"
        yield f'        weights = rt.beside(__file__, {file}, "the program\'s weights")'
        yield f"    weights = rt.checked(weights, {quoted(digest)}, {file})"
    yield "    return ["
    for name, t in p.constants:
        if beside:
            found = f"rt.part(weights, {quoted(t.dtype)}, {t.shape}, {offsets[name]})"
        else:
            found = constant(t)
        yield f"        {found},  # {sanitise(name)}"
    yield "    ]"
    yield ""
    yield ""
    yield "def upload(engine, weights=None):"
    yield '    """Return the constants as buffers of an engine, which `rt.unload` frees."""'
    if named(p):
        yield f"    return rt.placed(engine, constants(weights), {_places(p)})"
    else:
        yield "    return [engine.upload(a) for a in constants(weights)]"


def _places(p: Program) -> str:
    """Return the devices of the constants, in order."""
    return tuple_of(quoted(p.type[name].device) for name, _ in p.constants)


def _devices(p: Program) -> str:
    """Return what ``load`` is told of the devices that values name, if any do."""
    names = named(p)
    told = f"devices={tuple_of(map(quoted, names))}, places={_places(p)}"
    return f", {told}" if names else ""


def weights_table(p: Program) -> tuple[str, str, Mapping[str, int]]:
    """Return name and SHA-256 of the file of weights, and where in it each constant begins."""
    data, (offsets, tail) = weights(p), _laid_out(p)
    start = len(data) - len(tail)
    found = {name: start + at for name, at in offsets.items()}
    return weights_file(p), hashlib.sha256(data).hexdigest(), found


def weights_file(p: Program) -> str:
    """Return the name of the file of weights."""
    return f"{sanitise(p.name)}.safetensors"
