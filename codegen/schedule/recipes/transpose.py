"""Transpositions by tiles in shared memory, so that reads and writes are both contiguous."""

from __future__ import annotations

from didyma.codegen.schedule import skewed, transpose
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Space, Values, powers
from didyma.codegen.schedule.recipes.work import Work
from didyma.refimpl.ir.loop import PrimFunc

WORTH = 4  # bytes of an element: of smaller ones a sector has so many that tiles are much larger


def _fit(work: Work) -> Fit | None:
    return None if work.turned is None else Fit.TILED


def _default(work: Work) -> Values:
    assert work.turned is not None
    side, rows, width = transpose.tile_shape(work.facts, work.turned)
    skew = int(work.turned.load.dtype.nbytes >= WORTH and side >= transpose.TILE)
    found = {"side": side, "rows": rows, "width": width}
    return found | ({"skew": skew} if _skews(work) else {})


def _skews(work: Work) -> bool:
    """Return whether tiles may be slanted: rows of the result begin between sectors of memory."""
    assert work.turned is not None
    side, _, width = transpose.tile_shape(work.facts, work.turned)
    square = transpose.sides(work.facts, work.turned, side) == (side, side)
    return width == 1 and square and skewed.before(work.facts, work.turned) is not None


def _space(work: Work) -> Space:
    assert work.turned is not None
    width, _ = transpose.width_of(work.facts, work.turned)
    found = {"side": (4, 8, 16, 32, 64), "rows": powers(1, 32), "width": (1, width)}
    return found | ({"skew": (0, 1)} if _skews(work) else {})


def _block(work: Work, values: Values) -> tuple[int, int]:
    """Return the threads of a block, and the bytes of a tile."""
    assert work.turned is not None
    side, load = values["side"], work.turned.load
    narrow = values["width"] == 1
    if values.get("skew"):
        columns = transpose.columns_of(side, load)
        nbytes = side * load.dtype.nbytes + skewed.SECTOR - load.dtype.nbytes
        return side * values["rows"], nbytes * columns
    along, across = transpose.sides(work.facts, work.turned, side) if narrow else (side, side)
    nbytes = across * transpose.columns_of(along, load) * load.dtype.nbytes
    return side * values["rows"] // values["width"], nbytes


def _legal(work: Work, values: Values) -> bool:
    del work
    return values["rows"] <= values["side"] >= values["width"]


def _build(work: Work, values: Values) -> PrimFunc:
    assert work.turned is not None
    side, rows, width = values["side"], values["rows"], values["width"]
    if values.get("skew"):
        return skewed.tiled(work.facts, work.turned, side, rows)
    return transpose.tiled(work.facts, work.turned, side, rows, width)


RECIPE = Recipe("transpose", _fit, _default, _space, _block, _build, _legal)
