"""Few long rows that are folded in one pass: blocks share a row, and read it twice."""

from __future__ import annotations

from didyma.codegen.schedule import parted, split
from didyma.codegen.schedule.inverse import by_inverse
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.parted import Shape
from didyma.codegen.schedule.recipes import looped, rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, at_least, powers
from didyma.codegen.schedule.recipes.split import at_most
from didyma.codegen.schedule.recipes.work import Work
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
DEEP = 1 << 12  # elements of neighbouring rows, of which many blocks are to have some
WAVE = 2  # blocks of all threads that a multiprocessor runs at once
MOST_READ = 2 * looped.CACHE  # bytes of all rows that are worth reading twice


def _fit(work: Work) -> Fit | None:
    if work.rows is None or work.row_online is None or work.rows.sums:
        return None
    if not work.facts.target.processors or (work.row_across and work.rows.each is not None):
        return None
    if sum(isinstance(s, Fold) for s in work.rows.stages) > FOLDS:
        return None
    if not split.may_part(work.facts, work.rows.nest.extents):
        return None
    if not isinstance(work.rows.length, Const):
        return Fit.POOR
    count, length = (work.facts.largest(e) for e in (work.rows.nest.numel, work.rows.length))
    nbytes, target = length * work.row_nbytes, work.facts.target
    if work.row_across:
        return Fit.TILED if length >= DEEP and -(-count // target.warp) < MANY else Fit.POOR
    if count * nbytes > MOST_READ and work.rows.each is not None:
        return Fit.POOR
    if are_few(target, count):
        return Fit.TILED if length > LONG or nbytes > HELD else Fit.POOR
    each = FEW if work.row_online.scale else SIMPLE
    enough = each * count <= target.processors <= default(work)["parts"] * count
    return Fit.TILED if enough and length > LONG else Fit.POOR


def are_few(target: Target, count: int) -> bool:
    """Return whether blocks of a cluster for each row would leave most multiprocessors idle."""
    return count * target.cluster < MANY


def default(work: Work) -> Values:
    """Return as many parts of a row as give each block enough to read, or all multiprocessors some.

    Where they are as many as there may be, a block has more threads for a larger part.
    """
    assert work.rows is not None
    if work.rows.each is None:
        return _folded(work)
    count, length = (work.facts.largest(e) for e in (work.rows.nest.numel, work.rows.length))
    nbytes, wide = length * max(1, work.row_nbytes), work.row_widths[0]
    lanes = LANES[2] if nbytes > MOST * BROAD else LANES[1]
    parts = 2
    while parts < MOST and parts * PART < nbytes:
        parts *= 2
    while parts < MOST and parts * count < work.facts.target.processors:
        if 2 * parts * lanes * wide > length:
            break
        parts *= 2
    turns = looped.LITTLE // (max(1, work.row_nbytes) * wide)
    turns = min(turns, at_most(max(1, -(-length // (parts * lanes * wide)))))
    return {"lanes": lanes, "wide": wide, "parts": parts, "online": max(1, turns)}


def _folded(work: Work) -> Values:
    """Return as many blocks for rows that are only folded as multiprocessors run at once.

    They are larger where there may be no more of them.  Of rows side by side, a block has those of
    a warp's threads, and as many threads as leave each the registers that it asks for.
    """
    assert work.rows is not None
    count, length = (work.facts.largest(e) for e in (work.rows.nest.numel, work.rows.length))
    target, wide, across = work.facts.target, work.row_widths[0], work.row_across
    each = work.row_each
    count //= each
    groups = max(2, min(target.warp, at_least(count))) if across else 1
    turns = min(looped.TURNS[-1], looped.LITTLE // (max(1, work.row_nbytes) * wide))
    lanes, blocks = LANES[2 if across else 1] // groups, max(1, -(-count // groups))
    full = target.processors * WAVE * target.threads
    parts = max(2, min(MOST, at_most(max(1, full // (groups * lanes * blocks)))))
    while parts > 2 and parts * lanes * wide > length:
        parts //= 2

    def suit(lanes: int) -> bool:
        few = lanes <= target.threads and lanes * blocks * parts <= full
        return few and lanes * parts * wide * turns <= length

    while not across and suit(2 * lanes):
        lanes *= 2
    turns = min(turns, at_most(max(1, length // (parts * lanes * wide))))
    found = {"lanes": lanes, "wide": wide, "parts": parts, "online": max(1, turns)}
    found |= {"groups": groups} if across else {}
    return found | ({"each": each} if len(work.row_counts) > 1 else {})


def space(work: Work) -> Space:
    """Return the numbers of threads, of elements at once, of turns, and of parts of a row."""
    found = {
        "lanes": (*LANES, 2 * LANES[2]), "wide": work.row_widths, "online": looped.TURNS[1:],
        "parts": powers(2, MOST),
    }  # fmt: skip
    if not work.row_across:
        return found
    found |= {"groups": powers(2, work.facts.target.warp), "lanes": powers(1, LANES[1])}
    return found | ({"each": work.row_counts} if len(work.row_counts) > 1 else {})


def _legal(work: Work, values: Values) -> bool:
    """Return whether each thread of each block has something, and in the end a part at most."""
    assert work.rows is not None
    taken = values["parts"] * values["lanes"] * values["wide"]
    joins = work.rows.each is None or values["parts"] <= values["lanes"]
    enough = values.get("groups", 1) * values["lanes"] >= work.facts.target.warp
    return joins and enough and taken <= work.facts.largest(work.rows.length)


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: those of the larger kernel."""
    assert work.rows is not None
    groups, lanes = values.get("groups", 1), values["lanes"]
    if work.rows.each is None:
        lanes = max(lanes, min(values["parts"], work.facts.target.threads // groups))
    return rows.block(work, {**values, "groups": groups, "lanes": lanes})


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    """Schedule ``parts`` blocks for each row, of ``lanes`` threads each, in two kernels."""
    assert work.rows is not None
    assert work.row_online is not None
    groups, each = values.get("groups", 1), values.get("each", 1)
    shape = Shape(values["lanes"], values["wide"], values["online"], values["parts"], groups, each)
    once, nest = OnePass(work.row_online, values["online"]), by_inverse(work.facts, work.rows)
    return parted.scheduled(work.facts, nest, once, shape)


RECIPE = Recipe("parted", _fit, default, space, _block, _build, _legal)
