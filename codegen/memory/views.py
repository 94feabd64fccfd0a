"""Replace concatenations and slices by views where they only move one run of bytes.

A concatenation whose operands lie one after another in its result needs no kernel if each operand
is computed into its place there; a slice that is one run of bytes is a view of its operand.  The
operand then lives as long as the result, so this may cost memory: it is done only where the lower
bound of the peak does not rise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from didyma.codegen.memory.fewer import Cost, fewer, wide
from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import binds, rewrite, walk, writes
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Carry, Extern, Launch, Line, Program, View
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.ranges import Ranges
from didyma.refimpl.verify.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Mover:
    """A kernel that only moves runs of bytes between ``whole`` and ``parts`` of it.

    Each part is a parameter and its offset in the whole, in bytes.  ``joins`` is true for a
    concatenation and false for a slice, which has one part.
    """

    joins: bool
    whole: str
    parts: tuple[tuple[str, Dim], ...]


def movers(
    m: Module,
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, Sequence[Kernel]],
    target: Target = PORTABLE,
) -> dict[str, Mover]:
    """Return by name the kernels of a fused module that only move runs of bytes.

    Each run starts where a kernel of the target may be given a buffer.
    """
    found: dict[str, Mover] = {}
    ranges = Ranges(Sizes(m.dims, m.entry.name), {})
    for f in m.functions:
        ks = kernels.get(f.name, ())
        if (
            len(ks) != 1
            or not isinstance(ks[0], PrimFunc)
            or len(f.nodes) != 1
            or f.nodes[0].op not in ("concat", "slice")
            or any(p.type.strides is not None for p in f.params)
        ):
            continue
        types = f.types()
        names = [b.name for b in loops[f.name].params]
        param = dict(zip((*(p.name for p in f.params), *f.results), names, strict=True))
        mover = _concat(f, types, param) if f.nodes[0].op == "concat" else _slice(f, types, param)
        if mover is None or not all(wide(at, target.access) for _, at in mover.parts):
            continue
        if _within(mover, loops[f.name], ranges):
            found[ks[0].name] = mover
    return found


def _concat(f: Function, types: Mapping[str, TensorType], param: Mapping[str, str]) -> Mover | None:
    (n,) = f.nodes
    axis = n.attr["axis"]
    assert isinstance(axis, int)
    one_run = all(d == 1 for d in types[n.results[0]].shape[:axis])
    if not one_run or len(set(n.args)) < len(n.args):
        return None
    parts: list[tuple[str, Dim]] = []
    at: Dim = 0
    for a in n.args:
        parts.append((param[a], at))
        at = dims.add(at, types[a].nbytes)
    return Mover(True, param[n.results[0]], tuple(parts))


def _slice(f: Function, types: Mapping[str, TensorType], param: Mapping[str, str]) -> Mover | None:
    (n,) = f.nodes
    whole = types[n.args[0]]
    source, part = whole.shape, types[n.results[0]].shape
    starts, steps = n.attr["starts"], n.attr["steps"]
    assert isinstance(starts, tuple)
    assert isinstance(steps, tuple)
    cut = [k for k, (a, b) in enumerate(zip(source, part, strict=True)) if not dims.equal(a, b)]
    if 0 in part or not cut or any(d != 1 for d in part[: cut[-1]]):
        return None
    if any(step != 1 for step, size in zip(steps, part, strict=True) if size != 1):
        return None
    at: Dim = 0
    for start, step, size in zip(starts, steps, source, strict=True):
        assert isinstance(start, (int, sympy.Expr))
        assert isinstance(step, int)
        first = start if step > 0 else dims.minimum(start, dims.sub(size, 1))
        at = dims.add(dims.mul(at, size), first)
    bits = dims.mul(at, whole.dtype.bits)
    if isinstance(bits, int) and bits % 8:
        return None
    return Mover(False, param[n.args[0]], ((param[n.results[0]], dims.floordiv(bits, 8)),))


def _within(mover: Mover, f: PrimFunc, ranges: Ranges) -> bool:
    """Return whether parts lie in the whole: an empty slice may begin behind its end."""
    nbytes = {b.name: TensorType(b.dtype, b.shape).nbytes for b in f.params}
    return all(
        ranges.at_least(at, 0)
        and ranges.at_least(nbytes[mover.whole], dims.add(at, nbytes.get(name, 0)))
        for name, at in mover.parts
    )


def moves_as_views(bare: Program, by_kernel: Mapping[str, Mover], cost: Cost) -> Program:
    """Return the program with views in place of movers, where no cost is higher."""
    work = [x for x in walk(bare.lines) if isinstance(x, Launch) and x.kernel in by_kernel]
    if not work:
        return bare

    def without(p: Program, lives: Lives, line: Line) -> Program | None:
        assert isinstance(line, Launch)
        return _without(p, lives, line, by_kernel[line.kernel])

    return fewer(bare, work, without, cost)


def _without(p: Program, lives: Lives, line: Launch, mover: Mover) -> Program | None:
    """Return the program with views in place of one launch; None where that is not correct."""
    names = (b.name for b in p.kernel[line.kernel].params)
    arg = dict(zip(names, line.args, strict=True))
    if any(name not in arg for name, _ in mover.parts):
        return None  # a part without elements is no parameter of the kernel
    parts = [(arg[name], at) for name, at in mover.parts]
    return (_join if mover.joins else _cut)(p, lives, line, arg[mover.whole], parts)


def _join(
    p: Program, lives: Lives, line: Launch, whole: str, parts: Sequence[tuple[str, Dim]]
) -> Program | None:
    if not _plain(lives, whole) or not _first(lives, whole, line):
        return None
    block = lives.of[whole].block
    returned = {lives.root.get(v, v) for v in p.results}
    views: dict[int, list[Line]] = {}
    for part, at in parts:
        fine = _plain(lives, part) and part not in returned
        if not fine or lives.of[part].block != block or p.type[part].device != p.type[whole].device:
            return None
        views.setdefault(lives.of[part].first, []).append(View(part, whole, at))
    exchanged = {v for x in walk(p.lines) for v in _exchanged(x)}
    bound = {s for x in walk(p.lines) for s in binds(x)}
    late = bound.intersection(dims.free((*p.type[whole].shape, *dict(parts).values())))
    if exchanged & {whole, *dict(parts)} or late:
        return None
    ends = [lives.of[v].live.end for v in (whole, *(part for part, _ in parts))]
    later = range(lives.of[whole].live.start + 1, max(ends) + 1)
    kernels = p.kernel
    if any(_owners(kernels, lives, lives.line(k)) & {whole, *dict(parts)} for k in later):
        return None

    def change(x: Line, b: int, i: int) -> Sequence[Line]:
        rest = () if x is line else (x,)
        return (*views.get(i, ()), *rest) if b == block else rest

    return replace(p, lines=rewrite(p.lines, change))


def _cut(
    p: Program, lives: Lives, line: Launch, source: str, parts: Sequence[tuple[str, Dim]]
) -> Program | None:
    ((part, at),) = parts
    root = lives.root.get(source, source)
    returned = {lives.root.get(v, v) for v in p.results}
    if not _plain(lives, part) or not _first(lives, part, line) or part in returned:
        return None
    kernels = p.kernel
    written = [_owners(kernels, lives, x) for x in walk(p.lines) if x is not line]
    once = root in lives.borrowed or (_plain(lives, root) and sum(root in w for w in written) == 1)
    if not once or p.type[part].device != p.type[source].device:
        return None
    carried = {v for x in walk(p.lines) if isinstance(x, Carry) for v in _exchanged(x)}
    if any(part in w for w in written) or root in carried:
        return None
    if part in {v for x in walk(p.lines) for v in _exchanged(x)}:
        return None

    def change(x: Line, b: int, i: int) -> Line:
        del b, i
        return View(part, source, at) if x is line else x

    return replace(p, lines=rewrite(p.lines, change))


def _owners(kernels: Mapping[str, Kernel], lives: Lives, x: Line) -> set[str]:
    """Return the owners of the bytes that a line writes."""
    return {lives.root.get(v, v) for v in writes(x, kernels)}


def _plain(lives: Lives, value: str) -> bool:
    """Return whether a value owns its bytes, so that views of it may be given to others."""
    return value in lives.of and lives.root.get(value, value) == value


def _first(lives: Lives, value: str, line: Launch) -> bool:
    return lives.line(lives.of[value].live.start) is line


def _exchanged(x: Line) -> tuple[str, ...]:
    """Return the values that a routine is given, or that exchange their allocations."""
    match x:
        case Extern(_, outputs, inputs):
            return (*outputs, *inputs)
        case Carry(pairs):
            return tuple(v for pair in pairs for v in pair)
        case _:
            return ()
