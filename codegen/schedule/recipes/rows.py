"""Rows that are folded several times or used after a fold, by the threads of a block, read once."""

from __future__ import annotations

from didyma.codegen.schedule import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, at_least, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import Fold, PrimFunc
from didyma.refimpl.ir.target import PORTABLE


def _fit(work: Work) -> Fit | None:
    return None if work.rows is None else Fit.SHORT


def _default(work: Work) -> Values:
    assert work.rows is not None
    groups, lanes = rows.shape(work.facts, work.rows)
    return {"groups": groups, "lanes": lanes}


def _space(work: Work) -> Space:
    assert work.rows is not None
    length, results = (work.facts.largest(e) for e in (work.rows.length, work.rows.nest.numel))
    return {
        "groups": powers(1, min(PORTABLE.threads, at_least(results))),
        "lanes": powers(1, min(PORTABLE.threads, at_least(length))),
    }


def _legal(work: Work, values: Values) -> bool:
    """Return whether a block is neither too small for a warp nor too large for the target."""
    assert work.rows is not None
    threads = values["groups"] * values["lanes"]
    folds = (s for s in work.rows.stages if isinstance(s, Fold))
    nbytes = sum(a.var.dtype.nbytes for s in folds for a in s.accs)
    return 32 <= threads <= PORTABLE.threads and threads * nbytes <= PORTABLE.shared


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block."""
    assert work.rows is not None
    return rows.scheduled(work.facts, work.rows, values["groups"], values["lanes"])


RECIPE = Recipe("rows", _fit, _default, _space, _build, _legal)
