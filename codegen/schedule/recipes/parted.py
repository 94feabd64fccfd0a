"""Few long rows that are folded in one pass: blocks share a row, and read it twice."""

from __future__ import annotations

from didyma.codegen.schedule import parted, split
from didyma.codegen.schedule.inverse import by_inverse
from didyma.codegen.schedule.parted import Shape
from didyma.codegen.schedule.recipes import looped, rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.split import at_most
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_stages import OnePass
from didyma.refimpl.ir.loop import Const, Fold, PrimFunc
from didyma.refimpl.ir.target import Target

PART = 16 << 10  # bytes of a row that a block takes
LANES = (128, 256, 512)
MOST = 128  # parts of a row
LONG = 1 << 17  # elements of a row that blocks of a cluster hold as fast
HELD = 512 << 10  # bytes of a row that such blocks hold
MANY = 64  # such blocks that are not too few for a device
FOLDS = 2  # that blocks share: of any other they would know their own part
BROAD = 64 << 10  # bytes of a part that is worth more threads
FEW, SIMPLE = 2, 3  # multiprocessors to a row, at least, else one block for each is as fast
MOST_READ = 2 * looped.CACHE  # bytes of all rows that are worth reading twice


def _fit(work: Work) -> Fit | None:
    if work.rows is None or work.row_across or work.row_online is None or work.rows.sums:
        return None
    if work.rows.each is None or not work.facts.target.processors:
        return None
    if sum(isinstance(s, Fold) for s in work.rows.stages) > FOLDS:
        return None
    if not split.may_part(work.facts, work.rows.nest.extents):
        return None
    if not isinstance(work.rows.length, Const):
        return Fit.POOR
    count, length = (work.facts.largest(e) for e in (work.rows.nest.numel, work.rows.length))
    nbytes, target = length * _nbytes(work), work.facts.target
    if count * nbytes > MOST_READ:
        return Fit.POOR
    if are_few(target, count):
        return Fit.TILED if length > LONG or nbytes > HELD else Fit.POOR
    each = FEW if work.row_online.scale else SIMPLE
    enough = each * count <= target.processors <= default(work)["parts"] * count
    return Fit.TILED if enough and length > LONG else Fit.POOR


def are_few(target: Target, count: int) -> bool:
    """Return whether blocks of a cluster for each row would leave most multiprocessors idle."""
    return count * target.cluster < MANY


def _nbytes(work: Work) -> int:
    """Return the bytes of an element that both passes load."""
    return sum(x.dtype.nbytes for x, stages in work.row_loads.items() if len(stages) > 1)


def default(work: Work) -> Values:
    """Return as many parts of a row as give each block enough to read, or all multiprocessors some.

    Where they are as many as there may be, a block has more threads for a larger part.
    """
    assert work.rows is not None
    count, length = (work.facts.largest(e) for e in (work.rows.nest.numel, work.rows.length))
    nbytes, wide = length * max(1, _nbytes(work)), work.row_widths[0]
    lanes = LANES[2] if nbytes > MOST * BROAD else LANES[1]
    parts = 2
    while parts < MOST and parts * PART < nbytes:
        parts *= 2
    while parts < MOST and parts * count < work.facts.target.processors:
        if 2 * parts * lanes * wide > length:
            break
        parts *= 2
    turns = looped.LITTLE // (max(1, _nbytes(work)) * wide)
    turns = min(turns, at_most(-(-length // (parts * lanes * wide))))
    return {"lanes": lanes, "wide": wide, "parts": parts, "online": max(1, turns)}


def space(work: Work) -> Space:
    """Return the numbers of threads, of elements at once, of turns, and of parts of a row."""
    return {
        "lanes": LANES, "wide": work.row_widths, "online": looped.TURNS[1:],
        "parts": powers(2, MOST),
    }  # fmt: skip


def _legal(work: Work, values: Values) -> bool:
    assert work.rows is not None
    taken = values["parts"] * values["lanes"] * values["wide"]
    return values["parts"] <= values["lanes"] and taken <= work.facts.largest(work.rows.length)


def _block(work: Work, values: Values) -> tuple[int, int]:
    return rows.block(work, {"groups": 1, "lanes": values["lanes"], "wide": values["wide"]})


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    """Schedule ``parts`` blocks for each row, of ``lanes`` threads each, in two kernels."""
    assert work.rows is not None
    assert work.row_online is not None
    shape = Shape(values["lanes"], values["wide"], values["online"], values["parts"])
    once, nest = OnePass(work.row_online, values["online"]), by_inverse(work.facts, work.rows)
    return parted.scheduled(work.facts, nest, once, shape)


RECIPE = Recipe("parted", _fit, default, space, _block, _build, _legal)
