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
    side, rows, width = transpose.tile_shape(work.facts, work.turned)
    return {"side": side, "rows": rows, "width": width}


def _space(work: Work) -> Space:
    assert work.turned is not None
    width, _ = transpose.width_of(work.facts, work.turned)
    return {"side": (4, 8, 16, 32, 64), "rows": powers(1, 32), "width": (1, width)}


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of a tile."""
    assert work.turned is not None
    side, load = values["side"], work.turned.load
    narrow = values["width"] == 1
    along, across = transpose.sides(work.facts, work.turned, side) if narrow else (side, side)
    nbytes = across * transpose.columns_of(along, load) * load.dtype.nbytes
    return side * values["rows"] // values["width"], nbytes


def _legal(work: Work, values: Values) -> bool:
    del work
    return values["rows"] <= values["side"] >= values["width"]


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.turned is not None
    side, rows, width = values["side"], values["rows"], values["width"]
    return transpose.tiled(work.facts, work.turned, side, rows, width)


RECIPE = Recipe("transpose", _fit, _default, _space, _block, _build, _legal)
