"""Scatters that replace elements: each finds the last of its updates by atomic maxima."""

from __future__ import annotations

from didyma.codegen.schedule import marks, segments
from didyma.codegen.schedule.recipes import by_thread, seek
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    if work.meeting is None or not marks.suit(work.facts, work.meeting):
        return None
    return Fit.POOR if seek.is_short(work) else Fit.SHORT


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    assert work.meeting is not None
    table, *first = marks.functions(work.facts, work.meeting)
    made = list[PrimFunc]()
    for f in first:
        (left,) = Work.all_of(f, work.facts.options)
        made.append(by_thread.build(left, by_thread.default(left)))
    work.facts.block = values["block"]
    wide = bool(values["wide"])
    return (*made, segments.taken(work.facts, work.meeting, table, wide=wide))


RECIPE = Recipe("marks", _fit, seek.default, seek.space, seek.block, _build)
