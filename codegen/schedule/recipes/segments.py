"""Scatters whose updates are sorted by their targets, so that each element folds its own alone."""

from __future__ import annotations

from didyma.codegen.schedule import segments, sorting
from didyma.codegen.schedule.recipes import by_thread, scan, seek
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
from didyma.refimpl.ir.loop import PrimFunc

LEAST = 64  # terms that a block sorts
CHUNK = 256  # likewise, where there are more of them
CHUNKS = 256  # of a line, beyond which they are longer
LONGEST = 1 << 14  # terms of a chunk


def _fit(work: Work) -> Fit | None:
    if work.meeting is None or not sorting.fits(work.facts, work.meeting):
        return None
    return Fit.POOR if seek.is_short(work) else Fit.SHORT


def _default(work: Work) -> Values:
    assert work.meeting is not None
    count = work.facts.largest(work.meeting.count)
    chunk = max(CHUNK, at_least(-(-count // CHUNKS)))
    return {**seek.default(work), "chunk": min(chunk, LONGEST, max(LEAST, at_least(count)))}


def _space(work: Work) -> Space:
    return {**seek.space(work), "chunk": powers(LEAST, 4096)}


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    """Sort ``chunk`` terms in each block, then let threads fold what meets their elements."""
    assert work.meeting is not None
    facts, m = work.facts, work.meeting
    found = sorting.by_place(facts, m, values["chunk"])
    made = [kernel for f in found.functions for kernel in _kernels(work, f)]
    facts.block = values["block"]
    last = segments.fold(facts, m, found.starts, found.order, wide=bool(values["wide"]))
    return (*made, last)


def _kernels(work: Work, function: PrimFunc) -> tuple[PrimFunc, ...]:
    (left,) = Work.all_of(function, work.facts.options)
    if left.running is not None:
        recipe, usual = best(left, (scan.RECIPE,))
        return recipe.kernels(left, usual)
    return (by_thread.build(left, by_thread.default(left)),)


RECIPE = Recipe("segments", _fit, _default, _space, seek.block, _build)
