"""Rows that are folded several times or used after a fold, loaded again at each stage."""

from __future__ import annotations

from didyma.codegen.schedule.recipes import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_stages import scheduled
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    return None if work.rows is None else Fit.ALONG


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block."""
    assert work.rows is not None
    return scheduled(work.facts, work.rows, rows.threads(work, values), None)


def _default(work: Work) -> Values:
    return {k: v for k, v in rows.default(work).items() if k != "keep"}


def _space(work: Work) -> Space:
    return {k: v for k, v in rows.space(work).items() if k != "keep"}


RECIPE = Recipe("looped", _fit, _default, _space, rows.block, _build, rows.is_warp)
