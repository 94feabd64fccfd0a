"""Running folds, such as cumulative sums, by threads that share a line: read and written once."""

from __future__ import annotations

from didyma.codegen.schedule import scan, scan_shape
from didyma.codegen.schedule.recipes.recipe import (
    Fit,
    Recipe,
    Space,
    Values,
    at_least,
    fills_warp,
    powers,
)
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.scan_shape import Shape
from didyma.refimpl.ir.loop import PrimFunc

HELD = 16  # elements that a thread holds along a line, if they lie together in memory
BESIDE = 32  # elements that it holds of lines beside each other
TURNS = 8  # vectors that it holds at most
LONG = 512  # threads of a line that is longer than they hold
SEGMENT = 128  # bytes of lines beside each other that neighbouring threads read at once


def _fit(work: Work) -> Fit | None:
    return None if work.running is None else Fit.TILED


def _shape(work: Work, values: Values) -> Shape:
    assert work.running is not None
    width, wide = scan_shape.width(work.facts, work.running)
    across = scan_shape.is_across(work.facts, work.running)
    return Shape(values["lanes"], values["groups"], values["turns"], width, wide, across)


def _default(work: Work) -> Values:
    """Return as many threads a line as its length asks for, and lines that fill a block."""
    facts, run = work.facts, work.running
    assert run is not None
    width, _ = scan_shape.width(facts, run)
    across = scan_shape.is_across(facts, run)
    length, count = (facts.largest(e) for e in (run.size, facts.nest.numel))
    order = facts.target.order
    beside, vectors = (width, length) if across else (1, -(-length // width))
    lines = max(1, count // max(1, length) // beside)
    if order.index(Fit.ALONE) < order.index(Fit.TILED):  # threads of a block run one by one
        return {"lanes": 1, "turns": 1, "groups": min(facts.block, at_least(lines))}
    turns = max(1, min(TURNS, (BESIDE if across else HELD) // width))
    if not across:
        turns = min(turns, at_least(-(-vectors // facts.target.warp)))
    lanes = min(at_least(-(-vectors // turns)), facts.block)
    groups = 1
    if across:
        nbytes = width * run.start.dtype.nbytes
        groups = min(max(1, SEGMENT // nbytes), facts.target.warp, at_least(lines))
    most = min(LONG, facts.target.threads)
    if lanes * turns < vectors:
        lanes = most
    lanes = max(1, min(lanes, most // groups))
    groups = max(groups, min(facts.block // lanes, at_least(lines)))
    return {"lanes": lanes, "turns": turns, "groups": groups}


def _space(work: Work) -> Space:
    """Return the numbers of threads of a line, of lines in a block, and of vectors of a thread."""
    assert work.running is not None
    facts = work.facts
    length, count = (facts.largest(e) for e in (work.running.size, facts.nest.numel))
    threads = facts.target.threads
    return {
        "lanes": powers(1, min(threads, at_least(length))),
        "groups": powers(1, min(threads, at_least(count))),
        "turns": powers(1, TURNS),
    }


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: results of warps, twice."""
    assert work.running is not None
    beside = scan_shape.width(work.facts, work.running)[0] if _across(work) else 1
    threads = values["lanes"] * values["groups"]
    return threads, 2 * threads * beside * work.running.start.dtype.nbytes


def _across(work: Work) -> bool:
    assert work.running is not None
    return scan_shape.is_across(work.facts, work.running)


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.running is not None
    return scan.scheduled(work.facts, work.running, _shape(work, values))


RECIPE = Recipe("scan", _fit, _default, _space, _block, _build, fills_warp)
