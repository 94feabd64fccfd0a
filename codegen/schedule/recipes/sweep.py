"""Rows that are folded along and across, by blocks that sweep over them: each is read once."""

from __future__ import annotations

from collections.abc import Mapping

from didyma.codegen.schedule import row_threads, row_wide, sweep
from didyma.codegen.schedule.recipes import column, looped, row, rows, serial, split
from didyma.codegen.schedule.recipes.recipe import (
    Fit,
    Recipe,
    Space,
    Values,
    at_least,
    best,
    fills_warp,
)
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir.loop import Fold, Load, PrimFunc

ELEMENTS = 16  # of a row that a thread takes, where a block's threads are enough for that
ROWS = 4  # of a block, at least, or ``kernels.split`` if that is less
RESIDENT = 1024  # threads of a multiprocessor, where each keeps a sum of its elements
MORE = 768  # likewise, where each keeps several, and a block has several rows
MANY, ALONE, WORDS = 32, 128, 80  # elements of a thread, of at least ALONE, if so many words do
SEVERAL, NEAR = 8, 4  # elements of a thread that keeps several sums of each, and those at once
FEW = 64  # words of ELEMENTS with several sums that leave room for three blocks of threads
LANES, SIDE, LOADS = 32, 8, 4  # threads of parts and of places in the second kernel, and loads
PROCESSORS = 128  # of a device of which nothing is known
SECOND = (column.RECIPE, row.RECIPE, rows.RECIPE, looped.RECIPE, serial.RECIPE)


def _fit(work: Work) -> Fit | None:
    if work.sweep is None or work.swept.row_across or not sweep.may_part(work.sweep):
        return None
    values = _default(work)
    if not _holds(work, values):
        return None
    held = -(-_length(work) // values["lanes"])
    return Fit.TILED if held <= row_threads.HELD else Fit.POOR


def _widths(work: Work) -> tuple[int, ...]:
    """Return how many neighbours a thread may take at once: the same ones of every row."""
    found, nest = work.swept, work.swept.rows
    assert nest is not None
    return tuple(n for n in found.row_widths if row_wide.of(found.facts, nest, n).edges is None)


def _length(work: Work) -> int:
    """Return the elements of a row."""
    assert work.swept.rows is not None
    return work.facts.largest(work.swept.rows.length)


def _count(work: Work) -> int:
    """Return the most rows."""
    assert work.swept.rows is not None
    return work.facts.largest(work.swept.rows.nest.numel)


def _holds(work: Work, values: Values) -> bool:
    """Return whether threads have registers for sums of their elements of a row."""
    assert work.sweep is not None
    options = work.facts.options
    turns = row_threads.turns(_length(work), values["lanes"], options, values["wide"])
    if turns is None:
        return False
    held = turns * values["wide"]
    return sum(row_threads.words(b.dtype.nbytes, held) for b in work.sweep.sums) <= row_threads.KEPT


def _lanes(work: Work, most: int) -> int:
    """Return the threads of a row of which each takes at most so many elements."""
    lanes = 1
    while lanes < work.facts.target.threads and most * lanes < _length(work):
        lanes *= 2
    return lanes


def _words(work: Work, elements: int) -> int:
    """Return the registers for what a thread keeps of so many elements, and for their sums."""
    assert work.sweep is not None
    sums = sum(b.dtype.nbytes for b in work.sweep.sums)
    return row_threads.words(sum(work.swept.row_sizes) + sums, elements)


def _default(work: Work) -> Values:
    """Return few elements of a row for each thread, and as many blocks as run at once."""
    assert work.sweep is not None
    length, count, target = _length(work), _count(work), work.facts.target
    several, processors = len(work.sweep.sums) > 1, target.processors or PROCESSORS
    wide = next((n for n in _widths(work) if n <= NEAR or not several), 1)
    threads = work.facts.options.block
    most, resident = ELEMENTS, MORE if several else RESIDENT
    few = ELEMENTS if _words(work, ELEMENTS) <= FEW else SEVERAL
    if several and length > few * threads:
        most, resident = SEVERAL, RESIDENT
    lanes = _lanes(work, max(MANY, wide))
    room = lanes >= ALONE and _words(work, MANY) <= WORDS
    if room and count >= ROWS * processors * RESIDENT // (2 * lanes):
        most, threads, resident = MANY, lanes, RESIDENT // 2
    lanes = _lanes(work, max(most, wide))
    split = work.facts.options.kernels.split
    least = min(ROWS, split)
    groups = max(1, min(threads // lanes, at_least(count // least)))
    wanted = max(1, resident // (lanes * groups)) * processors
    blocks = max(1, min(wanted, count // (least * groups), count * length // split))
    found = {"groups": groups, "lanes": lanes, "wide": wide, "blocks": blocks}
    return found | {"keep": 1} if work.swept.row_values.shared else found


def _space(work: Work) -> Space:
    processors = work.facts.target.processors or PROCESSORS
    most = max(1, _count(work))
    blocks = {min(most, n) for n in (1, 2, *(processors * k for k in (1, 2, 3, 4, 6, 8)))}
    own = {"blocks": tuple(sorted(blocks)), "wide": _widths(work)}
    return {**rows.space(work.swept), **own}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds and sums."""
    assert work.sweep is not None
    threads, parts = rows.shared_of(work.swept, values)
    sums = sum(b.dtype.nbytes for b in work.sweep.sums) if values["groups"] > 1 else 0
    return threads, parts + threads * sums


def _legal(work: Work, values: Values) -> bool:
    return _holds(work, values) and fills_warp(work.swept, values)


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    """Schedule ``blocks`` blocks that sweep over rows, and kernels that fold what they leave."""
    assert work.sweep is not None
    nest, loads = rows.elements(work.swept, values)
    threads = rows.threads(work.swept, values)
    first, rest = sweep.scheduled(
        work.sweep, nest, threads, values["blocks"], _lasting(nest, loads)
    )
    left = [_second(x) for x in Work.all_of(rest, work.facts.options)]
    return (first, *(k for ks in left for k in ks))


def _second(left: Work) -> tuple[PrimFunc, ...]:
    """Return kernels that fold what blocks leave: many threads, as each has few of them."""
    if (
        left.fold is None
        or not left.reads_across
        or left.length <= left.facts.options.kernels.short
    ):
        recipe, usual = best(left, SECOND)
        return recipe.kernels(left, usual)
    lanes = min(LANES, at_least(left.length))
    values = {"lanes": lanes, "side": SIDE, "loads": LOADS, "parts": 1}
    return split.RECIPE.kernels(left, values)


def _lasting(
    nest: RowNest, loads: Mapping[Load, tuple[int, ...]]
) -> Mapping[Load, tuple[int, ...]]:
    """Return loads with their stages; those of all rows alike last through all of them."""
    end = sum(isinstance(s, Fold) for s in nest.stages)
    return {x: (0, end) if sweep.same_in_rows(nest, x) else at for x, at in loads.items()}


RECIPE = Recipe("sweep", _fit, _default, _space, _block, _build, _legal)
