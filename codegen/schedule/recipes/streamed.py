"""Rows that are folded several times, by blocks that stay and copy the next row meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.codegen.schedule import rows as nests
from didyma.codegen.schedule import streamed
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.recipes import rows
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, fills_warp
from didyma.codegen.schedule.recipes.shared import in_one_pass
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import Const, Load, PrimFunc

ROWS = 32  # of a block, at least, where that was faster: nothing covers the copies of its first one
LARGEST = 80 << 10  # bytes of shared memory of a block that was faster so
SPARE = 24  # one multiprocessor in so many may have no block, if no row is left over then


def _fit(work: Work) -> Fit | None:
    if work.rows is None or work.row_across or "cp_async" not in work.facts.target.families:
        return None
    values = default(work)
    if not isinstance(work.rows.length, Const) or not _copied(work, values):
        return None
    threads, shared = block(work, values)
    many = work.facts.largest(work.rows.nest.numel) >= ROWS * values["groups"] * values["blocks"]
    alone = 2 * threads > work.facts.target.threads and shared <= LARGEST
    much = values.get("keep", 0) > 0  # to compute of an element, which takes longer than copying it
    held = rows.are_held(work, values, covered=True)
    return Fit.TILED if many and alone and much and held else Fit.POOR


def _copied(work: Work, values: Values) -> Sequence[Load]:
    """Return what threads copy of a row before they need it."""
    if not rows.holds(work, values) or work.row_edges(values["wide"]):
        return ()
    return work.row_copies(values["lanes"], values["wide"], rows.kept(work, values))


def default(work: Work) -> Values:
    """Return as many blocks as run at once, of threads as the model gives rows that are held."""
    found = {k: v for k, v in rows.default(work).items() if k != "ahead"}
    target = work.facts.target
    together = max(1, target.threads // (found["groups"] * found["lanes"]))  # as registers allow
    return found | {"blocks": _even(work, found["groups"], together * target.processors)}


def _even(work: Work, groups: int, most: int) -> int:
    """Return how many blocks to start where ``most`` run at once.

    Fewer, if so all have as many rows and hardly any multiprocessor is idle: no row is a last one.
    """
    assert work.rows is not None
    count = work.facts.largest(work.rows.nest.numel)
    least = most - most // SPARE
    whole = (n for n in range(most, least - 1, -1) if count % (n * groups) == 0)
    return next(whole, most)


def space(work: Work) -> Space:
    """Return the numbers of blocks, of rows in each, of threads for each, and of elements."""
    found = {k: v for k, v in rows.space(work).items() if k != "ahead"}
    processors = work.facts.target.processors
    groups = default(work)["groups"]
    blocks = {_even(work, groups, processors * k) for k in (1, 2, 3, 4, 6, 8)}
    return found | {"blocks": (1, 2, *sorted(blocks))}


def block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes that they share: parts of folds, and rows."""
    assert work.rows is not None
    threads, parts = rows.shared_of(work, values)
    parts *= 1 + bool(values.get("online"))  # two places, used in turn
    turns = nests.turns_of(work.facts, work.rows, values["lanes"], values["wide"]) or 0
    own = sum(x.dtype.nbytes for x in _copied(work, values)) * turns * values["wide"]
    return threads, parts + threads * own


def _legal(work: Work, values: Values) -> bool:
    fits = rows.holds(work, values) and fills_warp(work, values)
    return fits and bool(_copied(work, values))


def _build(work: Work, values: Values) -> PrimFunc:
    """Schedule blocks that take rows in turn, and copy the next while they compute."""
    once: OnePass | None = None
    nest, loads = rows.elements(work, values)
    if values.get("online"):
        nest, loads, once = in_one_pass(work, rows.kept(work, values))
    threads = rows.threads(work, values)
    return streamed.scheduled(work.facts, nest, threads, values["blocks"], loads, once)


RECIPE = Recipe("streamed", _fit, default, space, block, _build, _legal)
