"""Scatters that replace elements: each finds the last of its updates by atomic maxima."""

from __future__ import annotations

from didyma.codegen.schedule import marks
from didyma.codegen.schedule.recipes import by_thread, gather, pointwise, seek, transpose
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, best
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    if work.meeting is None or not marks.suit(work.facts, work.meeting):
        return None
    return Fit.POOR if seek.is_short(work) else Fit.SHORT


def _default(work: Work) -> Values:
    return {"block": work.facts.block}


def _space(work: Work) -> Space:
    return {"block": by_thread.space(work)["block"]}


def _build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
    assert work.meeting is not None
    *first, end = marks.functions(work.facts, work.meeting)
    made = list[PrimFunc]()
    for f in first:
        (left,) = Work.all_of(f, work.facts.options)
        made.append(by_thread.build(left, {**by_thread.default(left), "block": values["block"]}))
    (left,) = Work.all_of(end, work.facts.options)
    recipe, usual = best(left, (transpose.RECIPE, pointwise.RECIPE, gather.RECIPE))
    return (*made, *recipe.kernels(left, usual))


RECIPE = Recipe("marks", _fit, _default, _space, seek.block, _build)
