"""Places of best terms, where results have something in common that they load: several a thread."""

from __future__ import annotations

from didyma.codegen.schedule import champion, groups
from didyma.codegen.schedule.champion import Shape
from didyma.codegen.schedule.lanes import MOST
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, at_least, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.schedule.team import shared
from didyma.refimpl.ir.loop import Const, Load, PrimFunc
from didyma.refimpl.ir.walk import exprs

RESULTS = 8  # of a thread, at most
USUAL = 4  # likewise, where so many are a part of all
LANES = 128  # threads of a block
SIZES = tuple(n for n in (2, 4, 8, 16) if n <= MOST)  # terms of a group
TURNS = 32  # groups of a thread, at least, that are worth a second look at one


def _fit(work: Work) -> Fit | None:
    fold = work.fold
    if fold is None or not work.reads_along or champion.extreme(fold) is None:
        return None
    if not isinstance(fold.length, Const) or not champion.common(fold) or not _sizes(work):
        return None
    values = _default(work)
    few = work.length < TURNS * values["lanes"] * values["size"]
    return Fit.POOR if few or values["results"] == 1 else Fit.TILED


def _sizes(work: Work) -> tuple[int, ...]:
    """Return how many terms may be a group, the most first."""
    assert work.fold is not None
    found = (n for n in SIZES if groups.of_size(work.facts, work.fold, n, along=True))
    return tuple(sorted(found, reverse=True))


def _results(work: Work) -> tuple[int, ...]:
    """Return how many results a thread may have: no block has fewer than others."""
    assert work.fold is not None
    numel = work.fold.nest.numel
    whole = int(numel.value) if isinstance(numel, Const) else 1
    return tuple(n for n in powers(1, RESULTS) if whole % n == 0)


def _nbytes(work: Work) -> int:
    """Return the size of the smallest element that results load for themselves."""
    assert work.fold is not None
    every = champion.common(work.fold)
    loads = (e for e in exprs(work.fold.fold.step) if isinstance(e, Load))
    return min((e.dtype.nbytes for e in loads if e.buffer not in every), default=1)


def _default(work: Work) -> Values:
    """Return several results a thread, and groups of which each is one access, if no more."""
    results = max(n for n in _results(work) if n <= USUAL)
    size = next((n for n in _sizes(work) if n * _nbytes(work) <= work.facts.target.access), 2)
    lanes = max(work.facts.target.warp, size, min(LANES, at_least(work.length // size)))
    return {"results": results, "lanes": lanes, "size": size}


def _space(work: Work) -> Space:
    lanes = powers(1, work.facts.target.threads)
    return {"results": _results(work), "lanes": lanes, "size": _sizes(work)}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of each result."""
    assert work.fold is not None
    dtypes, lanes, size = [b.dtype for b in work.fold.scalars], values["lanes"], values["size"]
    both = ((1, lanes), (lanes // size, size))
    parts = (shared(work.facts.target, dtypes, g, n, across=False) for g, n in both)
    return lanes, values["results"] * sum(parts)


def _legal(work: Work, values: Values) -> bool:
    return values["lanes"] >= max(work.facts.target.warp, values["size"])


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule ``lanes`` threads for every ``results`` results, ``size`` terms at once."""
    assert work.fold is not None
    shape = Shape(values["results"], values["lanes"], values["size"])
    return champion.scheduled(work.facts, work.fold, shape)


RECIPE = Recipe("champion", _fit, _default, _space, _block, _build, _legal)
