"""Scatters of few updates: a thread for neighbouring results looks for those that meet them."""

from __future__ import annotations

from didyma.codegen.schedule import segments
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc

FEW = 32  # terms that a thread looks at rather than let them be sorted


def _fit(work: Work) -> Fit | None:
    if work.meeting is None:
        return None
    return Fit.SHORT if is_short(work) else Fit.POOR


def is_short(work: Work) -> bool:
    """Return whether there are too few terms to sort."""
    assert work.meeting is not None
    return work.facts.largest(work.meeting.count) <= FEW


def default(work: Work) -> Values:
    """Return the usual block, with wide accesses if the elements of results allow them."""
    assert work.meeting is not None
    wide = work.facts.wide and segments.width(work.facts, work.meeting) > 1
    return {"block": work.facts.block, "wide": int(wide)}


def space(work: Work) -> Space:
    """Return block sizes, and wide accesses or not."""
    return {
        "block": powers(32, work.facts.target.threads),
        "wide": tuple(range(default(work)["wide"] + 1)),
    }


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, which shares no memory."""
    del work
    return values["block"], 0


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.meeting is not None
    work.facts.block = values["block"]
    return segments.seek(work.facts, work.meeting, wide=bool(values["wide"]))


RECIPE = Recipe("seek", _fit, default, space, block, _build)
