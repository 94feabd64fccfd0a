"""Running folds of a few long lines in one pass: blocks of a line wait for those before them."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule import scan, scan_shape
from didyma.codegen.schedule.recipes import by_thread
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.scan import Links
from didyma.codegen.schedule.scan_shape import Shape
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    CHAIN_OPS,
    Buffer,
    Const,
    For,
    LoopKind,
    PrimFunc,
    Store,
    Var,
)
from didyma.refimpl.ir.types import DType

LANES = 512  # threads of a block, at most
LEAST = 64  # likewise, at least
HELD = 128  # bytes of floats that a thread folds; of integers half as many
TURNS = 8  # vectors that it holds, at most
FEW = 32  # lines from which on each has threads enough
WINDOW = 128  # blocks whose numbers one keeps in shared memory, of those before it


def _fit(work: Work) -> Fit | None:
    facts, run = work.facts, work.running
    if run is None or scan_shape.is_across(facts, run):
        return None
    if not (facts.options.kernels.waits and facts.target.waits):
        return None
    if run.fold.op not in CHAIN_OPS or not all(isinstance(e, Const) for e in facts.nest.extents):
        return None
    lines = _lines(work)
    if lines > facts.target.most("blockIdx.y"):
        return None
    long = facts.largest(run.size) >= facts.options.graph.long_run
    return Fit.TILED if long and lines < FEW else Fit.POOR


def _lines(work: Work) -> int:
    assert work.running is not None
    return work.results // max(1, work.facts.largest(work.running.size))


def _blocks(work: Work, values: Values) -> int:
    """Return the blocks of a line."""
    assert work.running is not None
    width, _ = scan_shape.width(work.facts, work.running)
    return -(-work.facts.largest(work.running.size) // (values["lanes"] * values["turns"] * width))


def _default(work: Work) -> Values:
    """Return blocks that read much at once, and of which few stand between two that are done."""
    assert work.running is not None
    facts, (width, _) = work.facts, scan_shape.width(work.facts, work.running)
    dtype = work.running.start.dtype
    held = HELD if dtype.is_float else HELD // 2
    turns = max(1, min(TURNS, held // (width * dtype.nbytes)))
    values = {"lanes": min(LANES, facts.target.threads), "turns": turns}
    while _lines(work) * _blocks(work, values) < facts.target.processors:
        if values["turns"] > 1:
            values["turns"] //= 2
        elif values["lanes"] > LEAST:
            values["lanes"] //= 2
        else:
            break
    return values


def _space(work: Work) -> Space:
    """Return the numbers of threads of a block, and of vectors of a thread."""
    target = work.facts.target
    return {"lanes": powers(target.warp, target.threads), "turns": powers(1, TURNS)}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: what warps and blocks have."""
    assert work.running is not None
    lanes = values["lanes"]
    parts = lanes // work.facts.target.warp + WINDOW + 2
    return lanes, parts * work.running.start.dtype.nbytes


def _legal(work: Work, values: Values) -> bool:
    return values["lanes"] >= work.facts.target.warp


def _build(work: Work, values: Values) -> tuple[PrimFunc, PrimFunc]:
    """Clear the states of blocks of ``lanes`` threads with ``turns`` vectors each; then scan."""
    facts, run = work.facts, work.running
    assert run is not None
    width, wide = scan_shape.width(facts, run)
    count = _lines(work) * _blocks(work, values)
    to = facts.func.outputs[0]
    states = Buffer(facts.names.fresh(f"{to}_states"), DType.I32, (count + 1,))
    totals = Buffer(facts.names.fresh(f"{to}_totals"), run.start.dtype, (2 * count,))
    at = Var(facts.names.fresh("block"))
    body = For(
        at, ix.index(count + 1), Store(states.name, (at,), Const(0, DType.I32)),
        LoopKind.PARALLEL,
    )  # fmt: skip
    clear = replace(facts.func, params=(states,), outputs=(states.name,), body=body)
    (left,) = Work.all_of(clear, facts.options)
    shape = Shape(values["lanes"], 1, values["turns"], width, wide, across=False)
    last = scan.chained(facts, run, shape, Links(states, totals))
    return by_thread.build(left, by_thread.default(left)), last


RECIPE = Recipe("chain", _fit, _default, _space, _block, _build, _legal)
