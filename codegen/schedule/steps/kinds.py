"""The steps ``unroll``, ``vectorize``, ``parallel`` and ``bind``: loops of another kind."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile

from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.dependence import AT_ONCE, Dependences, carried, refuse
from didyma.codegen.schedule.steps.loops import LoopSite, find, replaced
from didyma.codegen.schedule.steps.records import Bind, Parallel, Unroll, Vectorize
from didyma.codegen.schedule.steps.split import wrong
from didyma.codegen.schedule.steps.stage import lacks
from didyma.refimpl.ir.loop import (
    AXES,
    RANK,
    Allocate,
    Barrier,
    Block,
    Chain,
    Const,
    Exchange,
    ExternalAllocate,
    For,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
)
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.walk import stmts

FREE = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.PARALLEL)
MOST_LANES = 16


def unroll(step: Unroll, f: PrimFunc) -> PrimFunc:
    """Return a function that writes out the iterations of a loop, in their order.

    DidymaError ``no-such-loop``, ``bad-step``.
    """
    loop = may_change(f, step.loop)
    if not isinstance(loop.extent, Const):
        raise wrong(f, f"`{show_line(loop)}`", "a loop of constant extent")
    return _as(f, loop, LoopKind.UNROLLED)


def vectorize(step: Vectorize, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function that runs the iterations of a loop as lanes.

    DidymaError ``no-such-loop``, ``bad-step``, ``dependence``.
    """
    loop = may_change(f, step.loop)
    if not isinstance(loop.extent, Const) or loop.extent.value > MOST_LANES:
        want = f"a loop of constant extent, {MOST_LANES} at most"
        raise wrong(f, f"`{show_line(loop)}`", want, help="split it first")
    independent(f, loop, "vectorize", unchecked)
    return _as(f, loop, LoopKind.VECTORIZED)


def parallel(step: Parallel, f: PrimFunc, *, unchecked: bool = False) -> PrimFunc:
    """Return a function that may run the iterations of a loop in any order, at once.

    DidymaError ``no-such-loop``, ``bad-step``, ``dependence``.
    """
    loop = may_change(f, step.loop)
    independent(f, loop, "parallel", unchecked)
    return _as(f, loop, LoopKind.PARALLEL)


def bind(
    step: Bind, f: PrimFunc, target: Target = PORTABLE, *, unchecked: bool = False
) -> PrimFunc:
    """Return a function that runs each iteration of a loop as a block or a thread.

    Nothing but bound loops and allocations in shared memory may stand around it.  DidymaError
    ``no-such-loop``, ``bad-step``, ``dependence``; ``target-lacks`` for blocks of a cluster.
    """
    if step.axis not in (*AXES, RANK):
        raise wrong(f, step.axis, f"one of {', '.join((*AXES, RANK))}")
    if step.axis == RANK and target.cluster == 1:
        raise lacks(f, target, "clusters of blocks")
    loop = may_change(f, step.loop)
    place = find(f, step.loop)
    for s in _of_nest(place):
        is_bound = isinstance(s, For) and s.kind is LoopKind.BOUND
        is_shared = isinstance(s, Allocate) and s.buffer.scope is Scope.SHARED
        if not is_bound and not is_shared:
            raise wrong(
                f, f"{step.loop} inside `{show_line(s)}`",
                "a loop with bound loops alone around it", help="reorder the loops first",
            )  # fmt: skip
    independent(f, loop, "bind", unchecked)
    bound = replace(loop, kind=LoopKind.BOUND, axis=step.axis)
    return replace(f, body=replaced(f.body, loop, bound))


def _of_nest(place: LoopSite) -> tuple[Stmt, ...]:
    """Return what stands around a loop, without what divides it from other nests."""
    return tuple(dropwhile(lambda s: isinstance(s, Block | ExternalAllocate), place.around))


def may_change(f: PrimFunc, name: str) -> For:
    """Return a loop whose kind may change; DidymaError ``bad-step``."""
    loop = find(f, name).loop
    if loop.kind not in FREE:
        raise wrong(f, f"{name}, a {loop.kind} loop", "a loop that is not bound or vectorized")
    return loop


def independent(f: PrimFunc, loop: For, step: str, unchecked: bool) -> None:
    """Check that the iterations of a loop may run at once; ``dependence``, ``bad-step``."""
    if any(isinstance(s, Barrier | Chain | Exchange) for s in stmts(loop.body)):
        raise wrong(f, f"a barrier or exchange in {loop.var.name}", "a loop without those")
    if loop.kind in AT_ONCE or unchecked:
        return
    if found := carried(Dependences(scan(f)), loop):
        raise refuse(
            f"{step} {loop.var.name}", found, "iterations that do not depend on one another"
        )


def _as(f: PrimFunc, loop: For, kind: LoopKind) -> PrimFunc:
    return replace(f, body=replaced(f.body, loop, replace(loop, kind=kind)))
