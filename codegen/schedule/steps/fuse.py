"""The steps ``fuse`` and ``join``: two loops become one."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule.steps.accesses import Access, scan
from didyma.codegen.schedule.steps.dependence import (
    Dependence,
    Dependences,
    Direction,
    pairs,
    refuse,
    unsteady,
)
from didyma.codegen.schedule.steps.loops import claim, find, replaced, sequence
from didyma.codegen.schedule.steps.records import Fuse, Join
from didyma.codegen.schedule.steps.reorder import movable, nest, not_nested
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Block, For, If, LoopKind, PrimFunc, Stmt, Var
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.walk import items, stmts, substitute

FUSED = (LoopKind.SERIAL, LoopKind.PARALLEL)


def fuse(step: Fuse, f: PrimFunc) -> PrimFunc:
    """Return a function with two nested loops as one, whose iterations come in the same order.

    It is parallel where both are.  DidymaError ``no-such-loop``, ``bad-step``, ``not-nested``,
    ``name-taken``.
    """
    if len(step.loops) != 2:
        raise wrong(f, f"{len(step.loops)} loops", "two loops")
    outer, inner = find(f, step.loops[0]).loop, find(f, step.loops[1])
    chain, wrappers = nest(f, outer, inner)
    if len(chain) != 2:
        raise not_nested(f, *step.loops, f"{len(chain) - 2} other loops between")
    movable(f, chain, wrappers)
    claim(f, [step.into], step.loops)
    if any(x.kind not in FUSED for x in chain):
        kinds = " and ".join(str(x.kind) for x in chain)
        raise wrong(f, f"{kinds} loops", "serial or parallel loops")
    var = Var(step.into)
    at = ix.floordiv(var, inner.loop.extent), ix.mod(var, inner.loop.extent)
    body: Stmt = inner.loop.body
    for w in reversed(wrappers):
        body = replace(w, then=body) if isinstance(w, If) else replace(w, body=body)
    body = substitute(body, dict(zip(step.loops, at, strict=True)))
    both = {x.kind for x in chain} == {LoopKind.PARALLEL}
    kind = LoopKind.PARALLEL if both else LoopKind.SERIAL
    one = For(var, ix.mul(outer.extent, inner.loop.extent), body, kind)
    return replace(f, body=replaced(f.body, outer, one))


def join(step: Join, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function with two consecutive loops as one, with the body of both.

    It is parallel where both are and neither body sees what the other does in another iteration.
    DidymaError ``no-such-loop``, ``bad-step``, ``not-nested``, ``dependence``.
    """
    if len(step.loops) != 2:
        raise wrong(f, f"{len(step.loops)} loops", "two loops")
    first, second = (find(f, n).loop for n in step.loops)
    block = next((b for b in stmts(f.body) if _follows(b, first, second)), None)
    if block is None:
        raise not_nested(f, *step.loops, "loops that do not follow one another")
    if first.extent != second.extent:
        got = f"extents {show_expr(first.extent)} and {show_expr(second.extent)}"
        raise wrong(f, got, "equal extents")
    if {first.kind, second.kind} - {*FUSED}:
        raise wrong(f, f"{first.kind} and {second.kind} loops", "serial or parallel loops")
    part = substitute(second.body, {second.var.name: first.var})
    kept = items(first.body)
    one = replace(first, body=sequence([*kept, *items(part)]), kind=LoopKind.SERIAL)
    assert isinstance(block, Block)
    rest = [one if s is first else s for s in block.body if s is not second]
    g = replace(f, body=replaced(f.body, block, sequence(rest)))
    if not unchecked and (found := unsteady(scan(f), first)):
        want = "a number of iterations that the first loop leaves as it is"
        raise refuse(f"join {', '.join(step.loops)}", found, want)
    known = Dependences(scan(g))
    before = [a for s in kept for a in known.scan.within(s)]
    after = [a for a in known.scan.within(one.body) if a not in before]
    found = _across(known, first.var.name, before, after, ">")
    if found and not unchecked:
        raise refuse(
            f"join {', '.join(step.loops)}", found,
            "a second loop that needs nothing of later iterations of the first",
        )  # fmt: skip
    if {first.kind, second.kind} != {LoopKind.PARALLEL}:
        return g
    if _across(known, first.var.name, before, after, "<"):
        return g
    return replace(g, body=replaced(g.body, one, replace(one, kind=LoopKind.PARALLEL)))


def _follows(s: Stmt, first: For, second: For) -> bool:
    if not isinstance(s, Block):
        return False
    return any(a is first and b is second for a, b in zip(s.body, s.body[1:], strict=False))


def _across(
    known: Dependences, loop: str, before: list[Access], after: list[Access], sign: Direction
) -> Dependence | None:
    """Return a dependence of two bodies, which have no other loops in common than those around."""
    for a, b in pairs(before, after):
        if known.may(a, b, {loop: sign}):
            return Dependence(a, b, loop)
    return None
