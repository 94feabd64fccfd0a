"""Transpositions by tiles in shared memory, so that reads and writes are both contiguous."""

from __future__ import annotations

from didyma.codegen.schedule import transpose
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc


def _fit(work: Work) -> Fit | None:
    return None if work.turned is None else Fit.TILED


def _default(work: Work) -> Values:
    assert work.turned is not None
    side, rows = transpose.tile_shape(work.facts, work.turned)
    return {"side": side, "rows": rows}


def _space(work: Work) -> Space:
    del work
    return {"side": (4, 8, 16, 32, 64), "rows": powers(1, 32)}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of a tile."""
    assert work.turned is not None
    side = values["side"]
    return side * values["rows"], side * (side + 1) * work.turned.load.dtype.nbytes


def _legal(work: Work, values: Values) -> bool:
    del work
    return values["rows"] <= values["side"]


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.turned is not None
    return transpose.tiled(work.facts, work.turned, values["side"], values["rows"])


RECIPE = Recipe("transpose", _fit, _default, _space, _block, _build, _legal)
