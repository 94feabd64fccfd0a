"""Motifs of parts: rows that are gathered by a constant, slices that are joined, repetitions."""

from __future__ import annotations

import numpy as np

from didyma.fuzz.steering.opsets import MOVES
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import PLAIN, DType, TensorType

KINDS = ("row", "joined", "repeated")
_FEW = {"graph.fold_operand": 2}  # so that what is joined is not folded piece by piece


def parts(s: Sketch, kind: str) -> None:
    """Draw a part of a kind, and an op that reads it."""
    made = {"row": _row, "joined": _joined, "repeated": _repeated}[kind](s)
    if made is not None and s.c.chance(2):
        s.first_on(("permute_dims", "negative", "sum", "matmul"), made)


def _row(s: Sketch) -> str | None:
    """Gather one row by a constant, mostly inside of the axis, or of an axis of open size."""
    x = s.start(PLAIN, 1, 4)
    if x is None:
        return None
    axis = s.c.below(s.types()[x].rank)
    shape = s.c.pick(((), (), (), (1,)))
    at = np.array(s.c.pick((0, 1, 2, -1, -2, 9, -9)), np.int64)
    index = s.splat(at, TensorType(DType.I64, shape))
    return s.apply("gather", (x, index), freeze({"axis": axis}))


def _repeated(s: Sketch) -> str | None:
    """Repeat an element, and move its repetitions."""
    x = s.param(TensorType(s.dtype(PLAIN), ()))
    wide = x and s.apply("broadcast_to", (x,), freeze({"shape": s.shape(1, 3)}))
    return s.first_on((s.c.pick(MOVES), "permute_dims"), wide) if wide else None


def _joined(s: Sketch) -> str | None:
    """Join two slices of a constant, or one of it and one of another value."""
    s.changes |= _FEW
    rows, columns = s.c.pick((2, 4, 5)), s.c.pick((1, 3, 8))
    t = TensorType(s.dtype(PLAIN), (rows, columns))
    w = s.constant(t)
    other = s.param(t) if s.c.chance(4) else s.constant(t) if s.c.chance(3) else w
    at = 1 + s.c.below(rows - 1)
    upper = _rows(s, w, at, rows, columns)
    lower = _rows(s, other, 0, at, columns) if other else None
    if upper is None or lower is None:
        return None
    return s.apply("concat", (upper, lower), freeze({"axis": 0}))


def _rows(s: Sketch, x: str, first: int, last: int, columns: dims.Dim) -> str | None:
    ends = {"starts": (first, 0), "stops": (last, columns), "steps": (1, 1)}
    return s.apply("slice", (x,), freeze(ends))
