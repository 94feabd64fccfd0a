"""Folds by several threads each, along what lies together in memory, whose parts then meet."""

from __future__ import annotations

from didyma.codegen.schedule import row_kernel
from didyma.codegen.schedule.recipes.recipe import (
    Fit,
    Recipe,
    Space,
    Values,
    at_least,
    fills_warp,
    powers,
)
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.row_kernel import Threads
from didyma.codegen.schedule.team import shared
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    return along(work) if work.fold is not None and work.facts.nest.index else None


def along(work: Work) -> Fit:
    """Return how well threads along the terms suit a fold."""
    few = work.results < work.facts.options.kernels.few
    return Fit.ALONG if few or work.reads_along else Fit.POOR


def default(work: Work) -> Values:
    """Return as many threads a result as its length asks for, and results that fill a block."""
    assert work.fold is not None
    groups, lanes = work.fold_shape
    return {"groups": groups, "lanes": lanes, "wide": work.fold_widths[0]}


def space(work: Work) -> Space:
    """Return the numbers of results in a block, of threads for each, and of terms at once."""
    threads = work.facts.target.threads
    most, groups = (min(threads, at_least(n)) for n in (work.length, work.results))
    return {"groups": powers(1, groups), "lanes": powers(1, most), "wide": work.fold_widths}


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: a part of each result."""
    assert work.fold is not None
    threads = values["groups"] * values["lanes"]
    dtypes, (groups, lanes) = (
        [b.dtype for b in work.fold.scalars],
        (values["groups"], values["lanes"]),
    )
    return threads, shared(work.facts.target, dtypes, groups, lanes, across=False)


def build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for each result, and ``groups`` results in a block."""
    threads = Threads(values["groups"], values["lanes"], values["wide"])
    name = "reduce_row" if work.facts.nest.index else "reduce_all"
    return row_kernel.scheduled(work.facts, work.fold_rows, threads, None, name)


RECIPE = Recipe("row", _fit, default, space, block, build, fills_warp)
