"""Choose the schedule of each loop nest of a function: every recipe proposes, the model ranks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.codegen.schedule.recipes import (
    apart,
    chain,
    champion,
    cluster,
    column,
    full,
    gather,
    looped,
    marks,
    matmul,
    parted,
    pointwise,
    row,
    rows,
    scan,
    scatter,
    seek,
    segments,
    serial,
    shared,
    split,
    streamed,
    sweep,
    transpose,
)
from didyma.codegen.schedule.recipes.point import Point, show
from didyma.codegen.schedule.recipes.recipe import Recipe, best, fits
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import Atomic, Block, PrimFunc, Stmt, Store
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.ir.workspace import opened

CLASSES = (
    "pointwise", "pointwise_wide", "gather", "gather_wide", "scatter", "seek", "seek_wide", "fold",
    "reduce_row", "reduce_all", "reduce_column", "reduce_split", "reduce_champion", "matmul",
    "transpose", "rows", "rows_cluster", "rows_once", "rows_parted", "rows_streamed", "rows_sweep",
    "scan", "scan_chain", "segments", "segments_wide",
)  # fmt: skip
NESTS: tuple[Recipe, ...] = (
    matmul.RECIPE, transpose.RECIPE, pointwise.RECIPE, gather.RECIPE, scatter.RECIPE, seek.RECIPE,
    marks.RECIPE, segments.RECIPE, champion.RECIPE, split.RECIPE, column.RECIPE, row.RECIPE,
    full.RECIPE, parted.RECIPE, cluster.RECIPE, streamed.RECIPE, shared.RECIPE, rows.RECIPE,
    chain.RECIPE, scan.RECIPE, looped.RECIPE, serial.RECIPE,
)  # fmt: skip
RECIPES: tuple[Recipe, ...] = (*NESTS, sweep.RECIPE, apart.of(NESTS))


def schedule(
    p: PrimFunc, options: Options, points: Sequence[Point] | None = None
) -> tuple[PrimFunc, ...]:
    """Return kernels that, run in order, do what a function from lowering does.

    Without ``points``, one for each loop nest, each nest is scheduled by the point that the model
    ranks first.  Each kernel keeps the parameters that it needs, under their names; a parameter may
    be seen with another shape of as many elements.  The kernels of one nest may know buffers that
    are none of the function's, by the same names.  Attribute ``schedule`` names the class.

    DidymaError ``bad-choice`` for points that are not of this function.
    """
    return tuple(k for ks in by_nest(p, options, points) for k in ks)


def by_nest(
    p: PrimFunc, options: Options, points: Sequence[Point] | None = None
) -> list[tuple[PrimFunc, ...]]:
    """Return the kernels of ``schedule`` for each loop nest."""
    nests = works(p, options)
    if points is None:
        made = [_first(work) for work in nests]
    else:
        _require_count(p, nests, points)
        made = [_build(w, x, p.name) for w, x in zip(nests, points, strict=True)]
    numbers = count()
    return [tuple(_named(k, next(numbers)) for k in ks) for ks in made]


def _named(k: PrimFunc, number: int) -> PrimFunc:
    return k if number == 0 else replace(k, name=f"{k.name}_{number}")


def first(p: PrimFunc, options: Options) -> tuple[Point, ...]:
    """Return the points that ``schedule`` takes by itself, one for each loop nest."""
    found = (best(work, recipes(options)) for work in works(p, options))
    return tuple(Point.of(recipe.name, **values) for recipe, values in found)


def points(p: PrimFunc, options: Options) -> Iterator[tuple[Point, ...]]:
    """Return all ways to schedule a function, in the order in which the model ranks them.

    The first is what ``schedule`` does by itself.  Of a function with several loop nests, all
    but one are scheduled by their first point: nests are other kernels, so their times add up.
    """
    ranked = [_ranked(work) for work in works(p, options)]
    first = tuple(rows[0][1] for rows in ranked)
    others = [(rank, n, point) for n, rows in enumerate(ranked) for rank, point in rows[1:]]
    yield first
    for _, n, point in sorted(others, key=lambda item: item[0]):
        yield (*first[:n], point, *first[n + 1 :])


def alternatives(p: PrimFunc, options: Options) -> list[list[Point]]:
    """Return, for each loop nest of a function, points that the model thinks most different.

    The first is what ``schedule`` takes by itself.  Then come the best points of other recipes,
    in the order of the model, then the points that are farthest from the best of their recipe.
    """
    return [_different(work) for work in works(p, options)]


def _different(work: Work) -> list[Point]:
    ranked = [point for _, point in _ranked(work)]
    best = list({point.recipe: point for point in reversed(ranked)}.values())[::-1]
    return [*best, *(point for point in reversed(ranked) if point not in best)]


def works(p: PrimFunc, options: Options) -> list[Work]:
    """Return the loop nests of a function, in the order of the points that schedule it."""
    f = expand(opened(p))
    if f.outputs == p.outputs:
        return Work.all_of(f, options)
    assert isinstance(f.body, Block)  # a stage reads what others before it store, as any operand
    return [w for s in f.body.body for w in Work.all_of(_stage(f, s), options)]


def _stage(f: PrimFunc, s: Stmt) -> PrimFunc:
    """Return a function that runs one nest of another, and writes what that nest stores."""
    written = {x.buffer for x in stmts(s) if isinstance(x, Store | Atomic)}
    return replace(f, body=s, outputs=tuple(o for o in f.outputs if o in written))


def recipes(options: Options) -> tuple[Recipe, ...]:
    """Return the recipes that the model ranks: those of the options, then Didyma's own.

    Errors: those of ``plugins.part``, ``registered-twice`` for one with the name of another.
    """
    if not options.kernels.recipes:
        return RECIPES
    given = (plugins.part(plugins.RECIPES, r, Recipe) for r in options.kernels.recipes)
    found = (*(r.guarded() for r in given), *RECIPES)
    for n, recipe in enumerate(found):
        if recipe.name in {r.name for r in found[n + 1 :]}:
            raise plugins.twice(plugins.RECIPES, recipe.name, "didyma, or a recipe before it,")
    return found


def _first(work: Work) -> tuple[PrimFunc, ...]:
    recipe, values = best(work, recipes(work.facts.options))
    return recipe.kernels(work, values)


def _ranked(work: Work) -> list[tuple[tuple[int, float], Point]]:
    suited = fits(work, recipes(work.facts.options))
    rows = (((rank, far), point) for rank, r in suited for far, point in r.points(work))
    return sorted(rows, key=lambda pair: pair[0])


def _build(work: Work, point: Point, where: str) -> tuple[PrimFunc, ...]:
    found = next((r for r in recipes(work.facts.options) if r.name == point.recipe), None)
    if found is None and point.recipe in plugins.names(plugins.RECIPES):
        found = plugins.part(plugins.RECIPES, point.recipe, Recipe).guarded()
    if found is None:
        raise _unknown(point.recipe, where)
    found.check(work, point, where)
    return found.kernels(work, point.table)


def _unknown(name: str, where: str) -> DidymaError:
    from didyma.codegen.codegens import own  # which asks for the names of recipes

    groups = plugins.RECIPES, plugins.TEMPLATES, plugins.CODEGENS, plugins.ROUTINES
    made = {n for names_ in plugins.of_groups(groups).values() for n in names_}
    known = sorted({*names(), *own(), *made})
    near = difflib.get_close_matches(name, known, 1)
    return DidymaError(
        "bad-choice", where, got=name, want=f"one of {', '.join(known)}",
        help=f"did you mean {near[0]}?" if near else "",
    )  # fmt: skip


def names() -> tuple[str, ...]:
    """Return the names of all recipes."""
    return tuple(r.name for r in RECIPES)


def _require_count(p: PrimFunc, nests: Sequence[Work], given: Sequence[Point]) -> None:
    if len(nests) != len(given):
        raise DidymaError(
            "bad-choice", p.name, got=f"{show(given)}: {counted(len(given), 'point')}",
            want=f"{counted(len(nests), 'point')}, one for each loop nest",
        )  # fmt: skip
