"""NonMaxSuppression: a scan over the boxes in the order of their scores."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.data_dependent import non_zero
from didyma.onnx.subgraphs import add_functions, build_function
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, TensorType


def _column(c: Context, boxes: Value, k: int) -> Value:
    """Return a coordinate of each box: [batch, boxes]."""
    return c.reshape(c.slice(boxes, 2, k, k + 1), *boxes.type.shape[:2])


def _corners(c: Context, boxes: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Return the low and high ends of boxes along y and x."""
    a, b, d, e = (_column(c, boxes, k) for k in range(4))
    if c.integer("center_point_box"):  # x and y of the centre, width, height
        half_x, half_y = c.emit("multiply", d, 0.5), c.emit("multiply", e, 0.5)
        x = c.emit("subtract", a, half_x), c.emit("add", a, half_x)
        return (c.emit("subtract", b, half_y), c.emit("add", b, half_y)), x
    y = c.emit("minimum", a, d), c.emit("maximum", a, d)
    return y, (c.emit("minimum", b, e), c.emit("maximum", b, e))


def _overlaps(c: Context, boxes: Value, limit: Value | None) -> Value:
    """Return whether the overlap of two boxes exceeds the limit: [batch, boxes, boxes]."""
    batch, n = boxes.type.shape[:2]
    area: Value | None = None
    shared: Value | None = None
    for low, high in _corners(c, boxes):
        side = c.emit("subtract", high, low)
        area = side if area is None else c.emit("multiply", area, side)

        def pair(v: Value) -> tuple[Value, Value]:
            return c.reshape(v, batch, n, 1), c.reshape(v, batch, 1, n)

        inner = c.emit("subtract", c.emit("minimum", *pair(high)), c.emit("maximum", *pair(low)))
        inner = c.emit("maximum", inner, 0.0)
        shared = inner if shared is None else c.emit("multiply", shared, inner)
    assert area is not None
    assert shared is not None
    both = c.emit("add", c.reshape(area, batch, n, 1), c.reshape(area, batch, 1, n))
    union = c.emit("subtract", both, shared)
    ratio = c.emit("divide", shared, union)
    most = c.cast(limit, ratio.type.dtype) if limit is not None else 0.0
    exceeds = c.emit("greater", ratio, most)
    return c.emit("logical_and", exceeds, c.emit("greater", shared, 0.0))


def _ranks(c: Context, scores: Value) -> Value:
    """Return box numbers in descending order of their scores: [batch, classes, boxes]."""
    batch, classes, n = scores.type.shape
    mine = c.reshape(scores, batch, classes, n, 1)
    theirs = c.reshape(scores, batch, classes, 1, n)
    number, other = c.iota(n, rank=4, axis=2), c.iota(n, rank=4, axis=3)
    tied = c.emit("logical_and", c.emit("equal", theirs, mine), c.emit("less", other, number))
    ahead = c.cast(c.emit("logical_or", c.emit("greater", theirs, mine), tied), DType.I64)
    position = c.emit("sum", ahead, axes=(3,), keepdims=False)
    boxes = c.emit("broadcast_to", c.iota(n, rank=3, axis=2), shape=scores.type.shape)
    return c.emit("scatter", boxes, position, boxes, axis=2, reduction="none")


def _scalar(c: Context, x: Inputs, i: int, dtype: DType) -> Value | None:
    v = c.optional(x, i)
    return None if v is None else c.cast(c.reshape(v), dtype)


def _suppression(c: Context, x: Inputs) -> Sequence[Operand]:
    boxes, scores = c.operand(x, 0), c.operand(x, 1)
    if boxes.type.rank != 3 or scores.type.rank != 3:
        raise c.broken(f"{boxes.type} and {scores.type}", "boxes and scores of rank 3")
    batch, classes, n = scores.type.shape
    dtype = scores.type.dtype
    most = _scalar(c, x, 2, DType.I64) or c.builder.scalar(0, DType.I64)
    overlap = _overlaps(c, boxes, _scalar(c, x, 3, boxes.type.dtype))
    ranks = _ranks(c, scores)
    eligible = None
    if (least := _scalar(c, x, 4, dtype)) is not None:
        eligible = c.emit("greater", scores, least)
    selected = _selected(c, (batch, classes, n), overlap, ranks, eligible, most)
    (indices,) = non_zero(c, [selected])  # of batch, class and rank
    rows = c.value(indices)
    count = rows.type.shape[1]
    parts = [c.reshape(c.slice(rows, 0, k, k + 1), count, 1) for k in range(3)]
    flat = c.emit("add", c.emit("multiply", parts[0], c.value(size(classes))), parts[1])
    flat = c.emit("add", c.emit("multiply", flat, c.value(size(n))), parts[2])
    box = c.emit("gather", c.reshape(ranks, ranks.type.numel), flat, axis=0)
    return [c.emit("concat", parts[0], parts[1], box, axis=1)]


def _selected(
    c: Context, shape: tuple[Dim, Dim, Dim], overlap: Value, ranks: Value, eligible: Value | None,
    most: Value,
) -> Value:  # fmt: skip
    """Return whether the box of each rank is selected: [batch, classes, ranks]."""
    batch, classes, n = shape
    outer = c.builder
    turns = c.emit("permute_dims", ranks, axes=(2, 0, 1))
    yes = c.builder.scalar(True, DType.BOOL)
    free = eligible if eligible is not None else c.emit("broadcast_to", yes, shape=shape)
    none = c.emit("broadcast_to", c.builder.scalar(0, DType.I64), shape=(batch, classes))

    def build(inner: Context) -> Sequence[Operand]:
        alive = inner.builder.param("alive", TensorType(DType.BOOL, shape))
        done = inner.builder.param("done", TensorType(DType.I64, (batch, classes)))
        box = inner.builder.param("box", TensorType(DType.I64, (batch, classes)))
        column = inner.reshape(box, batch, classes, 1)
        here = inner.emit("equal", column, inner.iota(n, rank=3, axis=2))
        lives = inner.emit("logical_and", here, alive)
        lives = inner.emit("any", lives, axes=(2,), keepdims=False)
        keep = inner.emit(
            "logical_and", lives, inner.emit("less", done, inner.builder.capture(most, outer))
        )
        overlaps = inner.builder.capture(overlap, outer)
        where = inner.emit("broadcast_to", column, shape=shape)
        suppressed = inner.emit("gather_elements", overlaps, where, axis=1)
        # gather_elements looks up along the boxes: [batch, classes, boxes]
        suppressed = inner.emit("logical_and", suppressed, inner.reshape(keep, batch, classes, 1))
        left = inner.emit("logical_and", alive, inner.emit("logical_not", suppressed))
        count = inner.emit("add", done, inner.cast(keep, DType.I64))
        return [left, count, keep]

    (f,), captures = add_functions(c, [("boxes", build_function(c, build))])
    kept = c.builder.scan(f, [free, none], [turns], captures, n)[2]
    return c.emit("permute_dims", kept, axes=(1, 2, 0))


HANDLERS: dict[str, Handler] = {"NonMaxSuppression": _suppression}
