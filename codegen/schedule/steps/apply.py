"""Apply schedule steps to functions: each step is decided, taken, and its result verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from didyma.codegen.schedule.nest import same
from didyma.codegen.schedule.steps.across import reduce_across
from didyma.codegen.schedule.steps.blockize import blockize
from didyma.codegen.schedule.steps.buffers import pipeline, swizzle
from didyma.codegen.schedule.steps.compute_at import compute_at
from didyma.codegen.schedule.steps.folds import rfactor
from didyma.codegen.schedule.steps.fuse import fuse, join
from didyma.codegen.schedule.steps.inline import inline
from didyma.codegen.schedule.steps.kernels import nests
from didyma.codegen.schedule.steps.kinds import bind, parallel, unroll, vectorize
from didyma.codegen.schedule.steps.loops import loops_of, sequence
from didyma.codegen.schedule.steps.merges import fold_over, kept, rfactor_axis, split_axis
from didyma.codegen.schedule.steps.records import (
    Bind,
    Blockize,
    ComputeAt,
    Fuse,
    Inline,
    Join,
    Parallel,
    Pipeline,
    ReduceAcross,
    Reorder,
    Rfactor,
    Schedule,
    Split,
    Stage,
    Step,
    Swizzle,
    Tensorize,
    Tile,
    Unroll,
    Vectorize,
    Vectors,
)
from didyma.codegen.schedule.steps.reorder import reorder, tile
from didyma.codegen.schedule.steps.split import split
from didyma.codegen.schedule.steps.stage import stage
from didyma.codegen.schedule.steps.tensorize import tensorize
from didyma.codegen.schedule.steps.text import show_step
from didyma.codegen.schedule.steps.vectors import vectors
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import Block, PrimFunc, Stmt
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.walk import map_stmt
from didyma.refimpl.verify import loop as laws


def apply(
    step: Step, f: PrimFunc, target: Target = PORTABLE, *, unchecked: bool = False
) -> PrimFunc:
    """Return a function after one step, which does the same.

    To the bit, or where the step declares that it reassociates, but for the order of sums and
    products of floats.  Folds are written out as serial loops first, but those that say how their
    parts merge, where the step splits one or takes it apart.  DidymaError ``dependence``
    names two accesses that forbid the step; ``bad-step`` and others say what the step needs, and a
    law of loops what the result would break.  An ``unchecked`` step is taken in spite of a
    dependence, to see whether the result differs.
    """
    g = _on_merging_fold(step, f, target) or _taken(step, written_out(f), target, unchecked)
    if isinstance(step, Bind | Parallel):
        g = kept(step, f, g) or g
    g = replace(g, body=flattened(g.body))
    for nest in nests(g):
        if isinstance(nest, PrimFunc):
            laws.verify(nest, target)
    return g


def _on_merging_fold(step: Step, f: PrimFunc, target: Target) -> PrimFunc | None:
    match step:
        case Split():
            return split_axis(step, f)
        case Rfactor():
            return rfactor_axis(step, f)
        case ReduceAcross() if fold_over(f, step.loop) is not None:
            return reduce_across(step, f, target)
        case _:
            return None


def _taken(step: Step, f: PrimFunc, target: Target, unchecked: bool) -> PrimFunc:
    match step:
        case Split():
            return split(step, f, unchecked=unchecked)
        case Fuse():
            return fuse(step, f)
        case Join():
            return join(step, f, unchecked=unchecked)
        case Reorder():
            return reorder(step, f, unchecked=unchecked)
        case Tile():
            return tile(step, f, unchecked=unchecked)
        case Unroll():
            return unroll(step, f)
        case Vectorize():
            return vectorize(step, f, unchecked=unchecked)
        case Parallel():
            return parallel(step, f, unchecked=unchecked)
        case Bind():
            return bind(step, f, target, unchecked=unchecked)
        case Inline():
            return inline(step, f, unchecked=unchecked)
        case Stage():
            return stage(step, f, target)
        case ComputeAt():
            return compute_at(step, f, unchecked=unchecked)
        case Rfactor():
            return rfactor(step, f)
        case ReduceAcross():
            return reduce_across(step, f, target)
        case Swizzle():
            return swizzle(step, f)
        case Pipeline():
            return pipeline(step, f, unchecked=unchecked)
        case Tensorize():
            return tensorize(step, f)
        case Vectors():
            return vectors(step, f, unchecked=unchecked)
        case Blockize():
            return blockize(step, f, target)
        case _:
            assert_never(step)


def flattened(s: Stmt) -> Stmt:
    """Return a statement without blocks that stand directly in blocks."""
    s = map_stmt(s, same, flattened)
    return sequence(s.body) if isinstance(s, Block) else s


@dataclass(frozen=True, slots=True)
class Applied:
    """A step of a schedule, and the function after it."""

    step: Step
    func: PrimFunc


OnError = Callable[[int, DidymaError], DidymaError]


def run(
    schedule: Schedule,
    f: PrimFunc,
    target: Target = PORTABLE,
    on_error: OnError | None = None,
) -> Iterator[Applied]:
    """Yield each step of a schedule with the function after it.

    A loop that an earlier step replaced is refused with that step's name (``no-such-loop``).
    ``on_error`` may add to the error of the step at a position, from 0.
    """
    consumed: dict[str, Step] = {}
    for n, step in enumerate(schedule):
        try:
            _require_noalias(f)
            g = apply(step, f, target)
        except DidymaError as e:
            e = _explained(e, consumed)
            raise (e if on_error is None else on_error(n, e)) from None
        left = {x.var.name for x in loops_of(g.body)}
        gone = {x.var.name for x in loops_of(f.body)} - left
        consumed = {k: s for k, s in consumed.items() if k not in left} | dict.fromkeys(gone, step)
        f = g
        yield Applied(step, f)


def _require_noalias(f: PrimFunc) -> None:
    """Check that buffers have bytes of their own, by which dependences are decided."""
    if not f.noalias:
        raise DidymaError(
            "bad-step", f"@{f.name}", got="noalias=false: its parameters may be one buffer",
            want="a function whose buffers have bytes of their own",
            help="leave noalias=false out if nobody gives one buffer twice",
        )  # fmt: skip


def _explained(e: DidymaError, consumed: dict[str, Step]) -> DidymaError:
    if e.code != "no-such-loop" or e.got not in consumed:
        return e
    got = f"{e.got}, which the step `{show_step(consumed[e.got])}` replaced"
    return DidymaError(e.code, e.where, got=got, want=e.want, help=e.help)


def scheduled(schedule: Schedule, f: PrimFunc, target: Target = PORTABLE) -> PrimFunc:
    """Return a function after all steps of a schedule; errors as of ``run``."""
    for applied in run(schedule, f, target):
        f = applied.func
    return f
