"""Operators whose results have data-dependent sizes, which the run binds.

A mask selects elements.  Its exclusive cumulative sum is the position of each selected element in
the result; the total is bound to a symbol, and the elements are scattered to their positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Inputs, NotConstant
from didyma.onnx.tensors import MAX_RANK
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType


def bind_sizes(c: Context, item: Operand, name: str = "size") -> tuple[Dim, ...]:
    """Return the elements of a vector as sizes; data-dependent ones are bound.

    Errors: ``onnx-not-constant`` if their number is not known, ``onnx-too-large``.
    """
    try:
        return c.sizes(item, least=0)
    except NotConstant:
        v = c.value(item)
        count = v.type.numel
        if not isinstance(count, int) or v.type.rank > 1:
            raise
        if count > MAX_RANK:
            raise c.error(f"{count:,} axes", f"at most {MAX_RANK}", code="onnx-too-large") from None
        return tuple(c.bind(element(c, v, k), name) for k in range(count))


def element(c: Context, v: Value, k: int) -> Value:
    """Return an element of a vector, or a scalar, as a scalar."""
    if v.type.rank == 0:
        return v
    return c.reshape(c.slice(v, 0, k, k + 1))


class Selection:
    """Elements that a mask selects: their number, and the position of each in the result.

    The elements keep their order unless ``position`` gives each another one.
    """

    def __init__(self, c: Context, mask: Value, position: Value | None = None) -> None:
        self.c = c
        n = mask.type.shape[0]
        ones = c.cast(mask, DType.I64)
        if position is None:
            position = c.emit("cumulative_sum", ones, axis=0, exclusive=True, reverse=False)
        total = c.emit("sum", ones, axes=(0,), keepdims=False)
        self.count = c.bind_within(total, n, "chosen")
        nowhere = c.reshape(c.value(size(n)))  # out of range, so that scatter drops the update
        self.positions = c.emit("where", mask, position, nowhere)

    def take(self, v: Value) -> Value:
        """Return the selected rows of a value."""
        rest = v.type.shape[1:]
        if v.type.dtype is DType.BOOL:
            return self.c.cast(self.take(self.c.cast(v, DType.U8)), DType.BOOL)
        base = self.c.emit("broadcast_to", self.c.scalar(0, v), shape=(self.count, *rest))
        positions = self.c.reshape(self.positions, v.type.shape[0], *[1] * len(rest))
        if rest:
            positions = self.c.emit("broadcast_to", positions, shape=v.type.shape)
        return self.c.emit("scatter", base, positions, v, axis=0, reduction="none")


def true_positions(c: Context, mask: Value) -> Value:
    """Return the positions at which a vector is true, in order."""
    return Selection(c, mask).take(c.iota(mask.type.shape[0]))


def non_zero(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return the indices of the elements that are not zero, with a row for each axis."""
    v = c.operand(x, 0)
    if v.type.rank == 0:
        v = c.reshape(v, 1)
    flat = true_positions(c, c.cast(c.reshape(v, v.type.numel), DType.BOOL))
    rows: list[Value] = []
    for axis, n in enumerate(v.type.shape):
        stride = dims.mul(*v.type.shape[axis + 1 :])
        row = flat if stride == 1 else c.emit("trunc_divide", flat, c.value(size(stride)))
        if axis:
            row = c.emit("remainder", row, c.value(size(n)))
        rows.append(c.reshape(row, 1, *row.type.shape))
    return [c.emit("concat", *rows, axis=0) if len(rows) > 1 else rows[0]]


def compress(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return the slices along an axis, or the elements, at which a mask is true."""
    v, mask = c.operand(x, 0), c.operand(x, 1)
    if "axis" not in c.attrs:
        v = c.reshape(v, v.type.numel)
    axis = c.axis(c.integer("axis"), v.type.rank)
    return [c.emit("gather", v, true_positions(c, mask), axis=axis)]


def unique(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return the distinct elements or slices, their first indices, the inverse, and their counts.

    Each pair is compared.  The position of an element in the result is the number of smaller
    elements that are the first of their kind.
    """
    v = c.operand(x, 0)
    by_axis = "axis" in c.attrs
    axis = c.axis(c.integer("axis"), v.type.rank) if by_axis else 0
    order = (axis, *(i for i in range(v.type.rank) if i != axis))
    rows = c.emit("permute_dims", v, axes=order) if by_axis and axis else v
    moved = rows.type.shape
    n = moved[0] if by_axis else v.type.numel
    width = dims.mul(*moved[1:]) if by_axis else 1
    rows = c.reshape(rows, n, width)
    same, smaller = _compared(c, rows, n, width)  # [i, j]: row j compared with row i
    number = c.iota(n)
    mine, theirs = c.reshape(number, n, 1), c.reshape(number, 1, n)
    again = c.emit("logical_and", same, c.emit("less", theirs, mine))
    first = c.emit("logical_not", c.emit("any", again, axes=(1,), keepdims=False))
    if c.integer("sorted", 1):
        before = c.emit("logical_and", smaller, c.reshape(first, 1, n))
        position = c.emit("sum", c.cast(before, DType.I64), axes=(1,), keepdims=False)
    else:
        ones = c.cast(first, DType.I64)
        position = c.emit("cumulative_sum", ones, axis=0, exclusive=True, reverse=False)
        earliest = c.emit("argmax", c.cast(same, DType.I32), axis=1, keepdims=False)
        position = c.emit("gather", position, earliest, axis=0)
    kept = Selection(c, first, position)
    values = kept.take(rows)
    if by_axis:
        values = c.reshape(values, kept.count, *moved[1:])
        back = tuple(order.index(i) for i in range(v.type.rank))
        values = c.emit("permute_dims", values, axes=back) if axis else values
    else:
        values = c.reshape(values, kept.count)
    zeros = c.emit("broadcast_to", c.builder.scalar(0, DType.I64), shape=(kept.count,))
    one_each = c.emit("broadcast_to", c.builder.scalar(1, DType.I64), shape=(n,))
    counts = c.emit("scatter", zeros, position, one_each, axis=0, reduction="add")
    return [values, kept.take(number), position, counts]


def _compared(c: Context, rows: Value, n: Dim, width: Dim) -> tuple[Value, Value]:
    """Return for each pair of rows whether they are equal, and whether the second is smaller."""
    if rows.type.dtype is DType.BOOL:
        rows = c.cast(rows, DType.U8)
    mine, theirs = c.reshape(rows, n, 1, width), c.reshape(rows, 1, n, width)
    equal, below = c.emit("equal", theirs, mine), c.emit("less", theirs, mine)
    same = c.emit("all", equal, axes=(2,), keepdims=False)
    if width == 1:
        return same, c.reshape(below, n, n)
    differs = c.cast(c.emit("logical_not", equal), DType.I32)
    first = c.emit("argmax", differs, axis=2, keepdims=True)
    return same, c.reshape(c.emit("gather_elements", below, first, axis=2), n, n)


def range_length(c: Context, start: Value, stop: Value, step: Value) -> Value:
    """Return the length of a range as an i64 scalar."""
    distance = c.emit("subtract", stop, start)
    if distance.type.dtype.is_float:
        count = c.emit("ceil", c.emit("divide", distance, step))
    else:
        down = c.emit("floor_divide", c.emit("negative", distance), step)
        count = c.emit("negative", down)
    return c.emit("maximum", c.cast(count, DType.I64), 0)


def dynamic_range(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``Range`` with data-dependent ends."""
    start, stop, step = (c.reshape(c.operand(x, i)) for i in range(3))
    n = c.bind(range_length(c, start, stop, step), "count")
    dtype = start.type.dtype
    counted = c.cast(c.iota(n), dtype)
    return [c.emit("add", c.emit("multiply", counted, step), start)]


def clamped_end(c: Context, at: Value, n: Dim, low: int) -> Value:
    """Return a slice's end, which counts from the back if negative, clamped to an axis."""
    count = c.reshape(c.value(size(n)))
    at = c.cast(at, DType.I64)
    at = c.emit("where", c.emit("less", at, 0), c.emit("add", at, count), at)
    return c.emit("minimum", c.emit("maximum", at, low), count)
