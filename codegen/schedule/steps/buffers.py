"""The steps ``swizzle`` and ``pipeline``: where staged elements lie, and when they are filled."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.nest import guarded
from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.dependence import Dependence, refuse, unsteady
from didyma.codegen.schedule.steps.loops import (
    claim,
    find,
    names_of,
    names_of_all,
    replaced,
    sequence,
)
from didyma.codegen.schedule.steps.records import Pipeline, Swizzle
from didyma.codegen.schedule.steps.regions import redirected
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import Inliner, declared
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Expr,
    For,
    LoopKind,
    PrimFunc,
    Stmt,
    Var,
)
from didyma.refimpl.ir.walk import items, stmts, substitute

MOST_DEPTH = 8


def swizzle(step: Swizzle, f: PrimFunc) -> PrimFunc:
    """Return a function that keeps the elements of a buffer's rows in another order.

    DidymaError ``no-such-value``, ``bad-step``.
    """
    declared_here = [s for s in stmts(f.body) if isinstance(s, Allocate)]
    made = next((s for s in declared_here if s.buffer.name == step.buffer), None)
    if made is None:
        names = ", ".join(s.buffer.name for s in declared_here)
        raise DidymaError(
            "no-such-value", f"@{f.name}", got=step.buffer,
            want=f"a buffer made inside: {names or 'none'}",
        )  # fmt: skip
    shape, by = made.buffer.shape, step.factor
    columns = shape[-1] if len(shape) > 1 else 0
    if by < 2 or by & (by - 1) or not isinstance(columns, int) or not columns or columns % by:
        raise wrong(
            f, f"rows of {columns} elements and a factor of {by}",
            "two axes or more, and a power of two that divides the length of a row",
        )  # fmt: skip
    if any(a.index is None for a in scan(f).accesses if a.buffer == step.buffer):
        raise wrong(f, f"{step.buffer} in a call", "loads and stores of elements")

    def move(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*at[:-1], Binary("xor", at[-1], ix.mod(at[-2], ix.index(by))))

    body = redirected(f, made.body, step.buffer, step.buffer, move)
    return replace(f, body=replaced(f.body, made, replace(made, body=body)))


def pipeline(step: Pipeline, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function that fills a staged buffer iterations ahead, in turn in several copies.

    The buffer is made in the loop, filled by its first statement, and only read by the rest.
    Before the loop ``depth - 1`` copies are filled, by a loop called ``k_ahead``.
    DidymaError ``no-such-loop``, ``bad-step``, ``dependence``, ``name-taken``.
    """
    loop = find(f, step.loop).loop
    if not 2 <= step.depth <= MOST_DEPTH:
        raise wrong(f, f"a depth of {step.depth}", f"2 to {MOST_DEPTH}")
    made, fill, rest = _staged(step, f, loop)
    known = scan(f)
    if not unchecked and (found := unsteady(known, loop)):
        raise refuse(f"pipeline {step.loop}", found, "an extent that stays the same in the loop")
    read = [a for a in known.within(fill) if not a.writes]
    for b in known.within(loop.body):
        same = (a for a in read if known.roots[a.buffer] == known.roots[b.buffer])
        clash = next(same, None) if b.writes else None
        if clash is not None and not unchecked:
            raise refuse(
                f"pipeline {step.loop}", Dependence(b, clash, step.loop),
                "a copy of what the loop does not write",
            )  # fmt: skip
    ahead = Var(f"{step.loop}_ahead")
    claim(f, [ahead.name])
    buffer = replace(made.buffer, shape=(step.depth, *made.buffer.shape))
    depth, later = ix.index(step.depth), ix.add(loop.var, ix.index(step.depth - 1))

    def into(s: Stmt, slot: Expr) -> Stmt:
        return redirected(f, s, buffer.name, buffer.name, lambda at: (slot, *at))

    supply = names_of(f)
    supply.take([ahead.name])
    unchanged = {n: n for n in names_of_all(f)}
    renamed = {n: supply.fresh(f"{n}_ahead") for n in declared(fill)}
    first = Inliner(f.function, supply, {**unchanged, **renamed}).stmt(fill)
    first = substitute(into(first, ahead), {loop.var.name: ahead})
    first = guarded([ix.compare("lt", ahead, loop.extent)], first)
    head = For(ahead, ix.index(step.depth - 1), first)
    next_ = substitute(fill, {loop.var.name: later})
    next_ = guarded([ix.compare("lt", later, loop.extent)], into(next_, ix.mod(later, depth)))
    used = [into(s, ix.mod(loop.var, depth)) for s in rest]
    turned = replace(loop, body=sequence([next_, *used]))
    return replace(f, body=replaced(f.body, loop, Allocate(buffer, Block((head, turned)))))


def _staged(step: Pipeline, f: PrimFunc, loop: For) -> tuple[Allocate, Stmt, tuple[Stmt, ...]]:
    made = loop.body
    if isinstance(made, Allocate) and made.buffer.name == step.buffer:
        fill, *rest = items(made.body)
        known = scan(f)
        writes = {a.buffer for a in known.within(fill) if a.writes}
        reads = {a.buffer for a in known.within(fill) if not a.writes}
        later = {a.buffer for s in rest for a in known.within(s) if a.writes}
        name = step.buffer
        alone = [*known.roots.values()].count(name) == 1
        only_read = writes == {name} and name not in reads | later
        if only_read and alone and loop.kind is LoopKind.SERIAL:
            return made, fill, tuple(rest)
    raise wrong(
        f, f"{step.buffer} in {step.loop}, a {loop.kind} loop",
        "a serial loop whose body makes the buffer, with memory of its own, fills it first, and "
        "then only reads it",
        help=f"`stage` makes such a buffer: stage a at {step.loop} into {step.buffer}",
    )  # fmt: skip
