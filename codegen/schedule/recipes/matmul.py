"""Products by tiles of both operands in shared memory."""

from __future__ import annotations

from didyma.codegen.schedule import matmul
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    return None if work.product is None else Fit.TILED


def _default(work: Work) -> Values:
    assert work.product is not None
    return {"tile": matmul.tile_side(work.facts, work.product)}


def _space(work: Work) -> Space:
    del work
    return {"tile": (4, 8, 16, 32)}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of a tile of each operand."""
    assert work.product is not None
    threads = values["tile"] ** 2
    return threads, threads * (work.product.left.dtype.nbytes + work.product.right.dtype.nbytes)


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.product is not None
    return matmul.tiled(work.facts, work.product, values["tile"])


RECIPE = Recipe("matmul", _fit, _default, _space, _block, _build)
