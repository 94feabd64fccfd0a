"""Rows that are folded along and across, by kernels of their own for each: they are read again."""

from __future__ import annotations

from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, best
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def of(among: tuple[Recipe, ...]) -> Recipe:
    """Return the recipe that takes, for each of the two nests, the best of some."""

    def fit(work: Work) -> Fit | None:
        return None if work.sweep is None else Fit.SHORT

    def none(work: Work) -> Values:
        del work
        return {}

    def space(work: Work) -> Space:
        del work
        return {}

    def block(work: Work, values: Values) -> tuple[int, int]:
        del work, values
        return 1, 0

    def build(work: Work, values: Values) -> tuple[PrimFunc, ...]:
        del values
        found = [(x, *best(x, among)) for x in work.apart]
        return tuple(k for x, recipe, usual in found for k in recipe.kernels(x, usual))

    return Recipe("apart", fit, none, space, block, build)
