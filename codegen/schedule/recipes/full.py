"""One fold of everything, by the threads of one block; partial results in a tree."""

from __future__ import annotations

from didyma.codegen.schedule.recipes import row
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, fills_warp
from didyma.codegen.schedule.recipes.work import Work


def _fit(work: Work) -> Fit | None:
    return row.along(work) if work.fold is not None and not work.facts.nest.index else None


RECIPE = Recipe("full", _fit, row.default, row.space, row.block, row.build, fills_warp)
