"""The steps ``rfactor`` and ``reduce_across``: a fold by parts, and by the threads of a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.steps.accesses import scan, update_of
from didyma.codegen.schedule.steps.dependence import Dependences, carried_among
from didyma.codegen.schedule.steps.loops import (
    LoopSite,
    claim,
    find,
    path_to,
    replaced,
)
from didyma.codegen.schedule.steps.records import Rfactor
from didyma.codegen.schedule.steps.regions import redirected
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expand import declared
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Const,
    For,
    If,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
    While,
)
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import subexprs

Folding: TypeAlias = Literal["add", "mul", "min", "max", "and", "or"]  # ops with an identity
_OPS: Mapping[str, Folding] = MappingProxyType({op: op for op in get_args(Folding)})
SERIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class FoldLoop:
    """A loop of a fold: its statement ``acc[i] = op(acc[i], term)``, and the nest of the fold.

    ``nest`` is the outermost loop around it in which the accumulator is not touched otherwise and
    its index does not vary.
    """

    place: LoopSite
    update: Store
    op: Folding
    buffer: Buffer
    nest: For


def fold_loop(f: PrimFunc, buffer: str, loop: str) -> FoldLoop:
    """Return the fold into a buffer that a loop runs; DidymaError ``not-a-fold``.

    Also ``no-such-loop``.
    """
    place, known = find(f, loop), scan(f)
    mine = [a for a in known.within(place.loop.body) if a.buffer == buffer]
    stores = [a.stmt for a in mine if a.writes]
    op = _OPS.get(update_of(stores[0])) if len(stores) == 1 else None
    if op is None or not isinstance(stores[0], Store):
        got = f"`{show_line(stores[0])}`" if stores else f"no store to {buffer} in {loop}"
        raise not_a_fold(f, got if len(stores) < 2 else f"{len(stores)} stores to {buffer}")
    update = stores[0]
    if any(a.stmt is not update for a in mine) or buffer not in known.buffers:
        raise not_a_fold(f, f"other uses of {buffer} in {loop}")
    if loop in mine[0].owners:
        raise not_a_fold(f, f"{buffer}, which is made in {loop}")
    index = [e for i in update.index for e in subexprs(i)]
    names = {e.name for e in index if isinstance(e, Var)}
    read = {known.roots[e.buffer] for e in index if isinstance(e, Load)}
    nest: For | None = None
    for x in reversed(place.loops):
        other = [a for a in known.within(x) if a.buffer == buffer and a.stmt is not update]
        inside = {x.var.name, *declared(x.body)}
        changed = {known.roots[a.buffer] for a in known.within(x.body) if a.writes}
        # An element that a condition in the nest keeps inside its buffer cannot be used outside.
        guarded = bool(mine[0].index) and mine[0].guards > _guards(f, x)
        if other or guarded or x.kind not in SERIAL or names & inside or read & changed:
            break
        if x.var.name in mine[0].owners:
            break
        nest = x
    if nest is None:
        raise not_a_fold(f, f"{loop}, a {place.loop.kind} loop or one that {buffer} varies with")
    return FoldLoop(place, update, op, known.buffers[buffer], nest)


def _guards(f: PrimFunc, s: Stmt) -> int:
    return sum(isinstance(x, If | While) for x in path_to(f.body, s))


def neutral(op: Folding, dtype: DType) -> Const:
    """Return what changes no bit of what it is combined with: -0.0 for sums, since -0 + 0 is 0."""
    return Const(-0.0, dtype) if op == "add" and dtype.is_float else identity(op, dtype)


def not_a_fold(f: PrimFunc, got: str) -> DidymaError:
    """Return the error of a loop that runs no fold."""
    return DidymaError(
        "not-a-fold", f"@{f.name}", got=got,
        want=f"one statement `acc = op(acc, term)` with op of {', '.join(_OPS)}",
    )  # fmt: skip


def rfactor(step: Rfactor, f: PrimFunc) -> PrimFunc:
    """Return a function in which one loop of a fold has a partial result for each iteration.

    DidymaError ``no-such-loop``, ``not-a-fold``, ``bad-step``, ``name-taken``.
    """
    found = fold_loop(f, step.buffer, step.loop)
    loop, acc = found.place.loop, found.buffer
    if not isinstance(loop.extent, Const):
        raise wrong(f, f"`{show_line(loop)}`", "a loop of constant extent", help="split it first")
    start, last = Var(f"{step.into}_start"), Var(f"{step.into}_fold")
    claim(f, [step.into, start.name, last.name])
    part = Buffer(step.into, acc.dtype, (int(loop.extent.value),), Scope.LOCAL)
    zero = Store(part.name, (start,), neutral(found.op, acc.dtype))
    old = Load(acc.name, found.update.index, acc.dtype)
    new = Binary(found.op, old, Load(part.name, (last,), part.dtype))
    index = found.update.index
    steps = redirected(f, found.nest, acc.name, part.name, lambda _: (loop.var,))
    body = Block(
        (
            For(start, loop.extent, zero),
            steps,
            For(last, loop.extent, Store(acc.name, index, new)),
        )
    )
    g = replace(f, body=replaced(f.body, found.nest, Allocate(part, body)))
    for x in found.place.loops:
        if x.kind not in SERIAL:
            _require_apart(g, x.var.name, acc.name)
    return g


def _require_apart(f: PrimFunc, loop: str, buffer: str) -> None:
    """Raise ``bad-step`` where iterations that run at once combine parts in one element.

    A condition may have left the update to one of them; the parts are combined in all.
    """
    at_once = find(f, loop).loop
    serial = replace(at_once, kind=LoopKind.SERIAL, axis="")
    known = Dependences(scan(replace(f, body=replaced(f.body, at_once, serial))))
    mine = [a for a in known.scan.within(serial.body) if a.buffer == buffer]
    if carried_among(known, serial, mine):
        got = f"iterations of {loop} at once, all of which combine parts in {buffer}"
        raise wrong(f, got, "loops around whose iterations update elements of their own")
