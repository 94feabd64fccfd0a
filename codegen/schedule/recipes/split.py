"""Folds of much memory, with wide loads; several blocks share a result where results are few."""

from __future__ import annotations

from didyma.codegen.schedule import lanes, split
from didyma.codegen.schedule.recipes import column, full, row, serial
from didyma.codegen.schedule.recipes.recipe import (
    Fit,
    Recipe,
    Space,
    Values,
    at_least,
    best,
    powers,
)
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.split import Shape
from didyma.refimpl.ir.loop import Load, PrimFunc
from didyma.refimpl.ir.walk import exprs

WORTH = 8  # least parts of a result that pay for a second kernel
SIDE = 32  # threads side by side, each with the results of one load
BROAD = 256  # likewise, at most, where a load has one result
BYTES = 64  # of a thread on their way
LOADS = 16  # likewise, at most
NARROW = 4  # loads of single elements for each byte of one, at most
PARTS = 4096  # blocks that share a result, at most
BLOCKS = 16  # to a multiprocessor: short ones, so that none is without work for long
WAVE = 4  # likewise, of those that share many results, whose parts a second kernel reads
TALL = 4  # threads for each result where more than SIDE stand side by side
PROCESSORS = 128  # of a device of which nothing is known
SECOND = (column.RECIPE, row.RECIPE, full.RECIPE)  # may fold the parts, if they are many


def _fit(work: Work) -> Fit | None:
    if work.fold is None or not (work.reads_along or work.reads_across):
        return None
    least, most = WORTH * work.facts.options.kernels.split, SIDE * lanes.MOST
    if work.length * (1 if work.reads_along else most) < least:
        return None
    values = _default(work)
    own = _own(work, values)
    if own.length * _held(own, values["side"]) < least:
        return None
    better = _count(values) > 1 or (work.reads_along and _width(work) > 1)
    return Fit.SPLIT if better else None


def _own(work: Work, values: Values) -> Work:
    """Return the work, or that with lines of its parameters as one."""
    return work if values.get("lines", 1) == 1 or work.lined is None else work.lined[1]


def _count(values: Values) -> int:
    """Return how many parts a result has."""
    return values["parts"] * values.get("lines", 1)


def _may_part(work: Work) -> bool:
    assert work.fold is not None
    return split.may_part(work.facts, work.fold.nest.extents)


def _held(work: Work, side: int) -> int:
    """Return how many results a block has."""
    return 1 if work.reads_along else side * _width(work)


def _width(work: Work) -> int:
    """Return how many neighbours a thread loads at once."""
    return 1 if work.fold_groups is None else work.fold_groups.size


def _shape(work: Work, values: Values) -> Shape:
    along = work.reads_along
    side = 1 if along else values["side"]
    several = values.get("lines", 1)
    return Shape(along, side, values["lanes"], values["loads"], values["parts"], several)


def _default(work: Work) -> Values:
    """Return as many parts as give every multiprocessor blocks, with work for each of them."""
    if work.lined is not None and _may_part(work):
        count, own = work.lined
        return {**_default(own), "lines": count}
    assert work.fold is not None
    width, options = _width(work), work.facts.options.kernels
    threads = work.facts.block
    side = 1 if work.reads_along else _side(-(-work.results // width), width, threads)
    held, tall = _held(work, side), side > SIDE
    blocks = max(1, -(-work.results // held))
    wanted = BLOCKS if work.reads_along else max(1, WAVE // _nbytes(work)) if tall else WAVE
    wanted *= work.facts.target.processors or PROCESSORS
    most = min(PARTS, work.length * held // options.split)
    parts = max(1, min(wanted // blocks, most)) if _may_part(work) else 1
    terms = work.length // width if work.reads_along else work.length  # or groups of them
    each = max(1, terms // parts)
    most = min(LOADS, NARROW * _nbytes(work)) if tall else LOADS
    loads = at_most(min(most, max(1, BYTES // (width * _nbytes(work))), each))
    lanes = at_most(min(TALL if tall else max(1, threads // side), each // loads))
    step = lanes * loads
    turns = -(-terms // (parts * step)) or 1
    parts = max(1, -(-terms // (turns * step)))  # none of which is without terms
    return {"lanes": lanes, "side": side, "loads": loads, "parts": parts}


def _side(units: int, width: int, threads: int) -> int:
    """Return how many threads stand side by side, for ``units`` of ``width`` results each.

    Rows of single results begin between sectors of memory, which threads farther to the side read
    again: more threads share more of them, where few are then without results.
    """
    side = min(SIDE, at_least(units), threads)
    while width == 1 and 2 * side <= min(BROAD, threads) and -units % (2 * side) * 8 <= units:
        side *= 2
    return side


def at_most(n: int) -> int:
    """Return the greatest power of two that is at most ``n``, which is at least 1.

    >>> at_most(1), at_most(7), at_most(8)
    (1, 4, 8)
    """
    return 1 << n.bit_length() - 1


def _nbytes(work: Work) -> int:
    """Return the size of the largest element that a term loads."""
    assert work.fold is not None
    return max(e.dtype.nbytes for e in exprs(work.fold.fold.step) if isinstance(e, Load))


def _space(work: Work) -> Space:
    assert work.fold is not None
    if work.lined is not None and _may_part(work):
        count, own = work.lined
        return {**_space(own), "lines": (1, count)}
    threads = work.facts.target.threads
    most = at_least(work.length) if _may_part(work) else 1
    return {
        "lanes": powers(1, threads),
        "side": (1,) if work.reads_along else powers(1, min(threads, at_least(work.results))),
        "loads": (1, 2, 4, 8, 16),
        "parts": powers(1, min(PARTS, most)),
    }


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: a part of each result."""
    assert work.fold is not None
    threads = values["lanes"] * values["side"]
    width = 1 if work.reads_along else _width(_own(work, values))
    return threads, threads * width * sum(b.dtype.nbytes for b in work.fold.scalars)


def _legal(work: Work, values: Values) -> bool:
    return values["lanes"] * values["side"] >= work.facts.target.warp


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    """Schedule ``lanes`` threads for each result of a block, and ``parts`` blocks."""
    assert work.fold is not None
    own = _own(work, values)
    assert own.fold is not None
    shape, whole = _shape(work, values), (work.facts, work.fold)
    first, rest = split.parts(own.facts, own.fold, shape, whole)
    if rest is None:
        return (first,)
    (left,) = Work.all_of(rest, work.facts.options)
    short = left.length <= work.facts.options.kernels.short
    recipe, usual = best(left, (serial.RECIPE,) if short else SECOND)
    return (first, *recipe.kernels(left, usual))


RECIPE = Recipe("split", _fit, _default, _space, _block, _build, _legal)
