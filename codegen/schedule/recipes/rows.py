"""Rows that are folded several times or used after a fold, by the threads of a block, read once."""

from __future__ import annotations

from didyma.codegen.schedule import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, at_least, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import Fold, PrimFunc


def _fit(work: Work) -> Fit | None:
    return None if work.rows is None else Fit.SHORT


def _default(work: Work) -> Values:
    assert work.rows is not None
    groups, lanes = rows.shape(work.facts, work.rows)
    return {"groups": groups, "lanes": lanes}


def _space(work: Work) -> Space:
    assert work.rows is not None
    length, results = (work.facts.largest(e) for e in (work.rows.length, work.rows.nest.numel))
    threads = work.facts.target.threads
    return {
        "groups": powers(1, min(threads, at_least(results))),
        "lanes": powers(1, min(threads, at_least(length))),
    }


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds, and picks."""
    assert work.rows is not None
    groups, lanes = values["groups"], values["lanes"]
    folds = (s for s in work.rows.stages if isinstance(s, Fold))
    parts = sum(a.var.dtype.nbytes for s in folds for a in s.accs)
    kept = rows.kept_loads(work.facts, work.rows, lanes)
    picks = sum(x.dtype.nbytes for x in rows.picks(work.facts, work.rows, kept))
    return groups * lanes, groups * (lanes * parts + picks)


def _legal(work: Work, values: Values) -> bool:
    """Return whether a block is not too small for a warp."""
    return values["groups"] * values["lanes"] >= work.facts.target.warp


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each row, and ``groups`` rows in a block."""
    assert work.rows is not None
    return rows.scheduled(work.facts, work.rows, values["groups"], values["lanes"])


RECIPE = Recipe("rows", _fit, _default, _space, _block, _build, _legal)
