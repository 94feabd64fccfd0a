"""Folds by several threads each, across what lies together in memory; partial results in a tree."""

from __future__ import annotations

from didyma.codegen.schedule import reduction
from didyma.codegen.schedule.recipes import row
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, fills_warp
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    if work.fold is None or not work.facts.nest.index:
        return None
    return Fit.ACROSS if work.reads_across and not work.reads_along else Fit.POOR


def _default(work: Work) -> Values:
    assert work.fold is not None
    side, layers = reduction.column_shape(work.facts, work.fold)
    return {"side": side, "layers": layers}


def _space(work: Work) -> Space:
    rows = row.space(work)
    return {"side": rows["groups"], "layers": rows["lanes"]}


def _block(work: Work, values: Values) -> tuple[int, int]:
    assert work.fold is not None
    threads = values["side"] * values["layers"]
    return threads, threads * sum(b.dtype.nbytes for b in work.fold.scalars)


def _legal(work: Work, values: Values) -> bool:
    return fills_warp(work, {"groups": values["side"], "lanes": values["layers"]})


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.fold is not None
    return reduction.columns(work.facts, work.fold, values["side"], values["layers"])


RECIPE = Recipe("column", _fit, _default, _space, _block, _build, _legal)
