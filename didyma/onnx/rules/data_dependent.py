"""Operators whose results are as large as the values tell: their sizes are bound in the run.

A selection is a mask, the running count of which gives each element chosen its place; the total is
bound to a symbol, and the elements are scattered into that many places.
"""

from __future__ import annotations

from collections.abc import Sequence

from didyma.onnx.context import Context, Inputs, NotConstant
from didyma.onnx.tensors import MAX_RANK
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value


def bind_sizes(c: Context, item: Operand, wish: str = "size") -> tuple[Dim, ...]:
    """Return a vector of sizes; those that only the run tells are bound."""
    try:
        return c.sizes(item, least=0)
    except NotConstant:
        v = c.value(item)
        count = v.type.numel
        if not isinstance(count, int) or v.type.rank > 1:
            raise
        if count > MAX_RANK:
            raise c.error(f"{count:,} axes", f"at most {MAX_RANK}", code="onnx-too-large") from None
        return tuple(c.bind(entry(c, v, k), wish) for k in range(count))


def entry(c: Context, v: Value, k: int) -> Value:
    """Return an element of a vector, or a scalar, as a scalar."""
    if v.type.rank == 0:
        return v
    return c.reshape(c.emit("slice", v, starts=(k,), stops=(k + 1,), steps=(1,)))


class Selection:
    """Elements of a vector chosen by a mask: how many there are, and the place of each."""

    def __init__(self, c: Context, mask: Value, place: Value | None = None) -> None:
        self.c = c
        n = mask.type.shape[0]
        ones = c.cast(mask, DType.I64)
        if place is None:
            place = c.emit("cumulative_sum", ones, axis=0, exclusive=True, reverse=False)
        total = c.emit("sum", ones, axes=(0,), keepdims=False)
        self.count = c.bind_within(total, n, "chosen")
        nowhere = c.reshape(c.value(size(n)))  # out of range, so that the update is dropped
        self.places = c.emit("where", mask, place, nowhere)

    def take(self, v: Value) -> Value:
        """Return the elements chosen of the rows of a value."""
        rest = v.type.shape[1:]
        zero = self.c.scalar(0, v) if v.type.dtype is not DType.BOOL else None
        if zero is None:
            taken = self.take(self.c.cast(v, DType.U8))
            return self.c.cast(taken, DType.BOOL)
        base = self.c.emit("broadcast_to", zero, shape=(self.count, *rest))
        places = self.c.reshape(self.places, v.type.shape[0], *[1] * len(rest))
        if rest:
            places = self.c.emit("broadcast_to", places, shape=v.type.shape)
        return self.c.emit("scatter", base, places, v, axis=0, reduction="none")


def chosen(c: Context, mask: Value) -> Value:
    """Return the positions at which a vector is true, in order."""
    return Selection(c, mask).take(c.iota(mask.type.shape[0]))


def truth(c: Context, v: Value) -> Value:
    """Return which elements are not zero."""
    return c.cast(v, DType.BOOL)


def non_zero(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return positions of what is not zero, one row an axis."""
    v = c.operand(x, 0)
    if v.type.rank == 0:
        v = c.reshape(v, 1)
    flat = chosen(c, truth(c, c.reshape(v, v.type.numel)))
    rows: list[Value] = []
    for axis, n in enumerate(v.type.shape):
        stride = dims.mul(*v.type.shape[axis + 1 :])
        row = flat if stride == 1 else c.emit("trunc_divide", flat, c.value(size(stride)))
        if axis:
            row = c.emit("remainder", row, c.value(size(n)))
        rows.append(c.reshape(row, 1, *row.type.shape))
    return [c.emit("concat", *rows, axis=0) if len(rows) > 1 else rows[0]]


def compress(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return the slices along an axis, or elements, at which a vector is true."""
    v, mask = c.operand(x, 0), c.operand(x, 1)
    if "axis" not in c.attrs:
        v = c.reshape(v, v.type.numel)
    axis = c.axis(c.integer("axis"), v.type.rank)
    return [c.emit("gather", v, chosen(c, mask), axis=axis)]


def unique(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return distinct elements, or slices, where each is first, which each is, and how often.

    Each is compared with each: the place of one is the number of smaller ones that are the first
    of their kind.
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
    alike, smaller = _compared(c, rows, n, width)  # [i, j]: of j with i
    number = c.iota(n)
    mine, theirs = c.reshape(number, n, 1), c.reshape(number, 1, n)
    again = c.emit("logical_and", alike, c.emit("less", theirs, mine))
    first = c.emit("logical_not", c.emit("any", again, axes=(1,), keepdims=False))
    if c.integer("sorted", 1):
        before = c.emit("logical_and", smaller, c.reshape(first, 1, n))
        place = c.emit("sum", c.cast(before, DType.I64), axes=(1,), keepdims=False)
    else:
        ones = c.cast(first, DType.I64)
        place = c.emit("cumulative_sum", ones, axis=0, exclusive=True, reverse=False)
        earliest = c.emit("argmax", c.cast(alike, DType.I32), axis=1, keepdims=False)
        place = c.emit("gather", place, earliest, axis=0)
    kept = Selection(c, first, place)
    values = kept.take(rows)
    if by_axis:
        values = c.reshape(values, kept.count, *moved[1:])
        back = tuple(order.index(i) for i in range(v.type.rank))
        values = c.emit("permute_dims", values, axes=back) if axis else values
    else:
        values = c.reshape(values, kept.count)
    zeros = c.emit("broadcast_to", c.builder.scalar(0, DType.I64), shape=(kept.count,))
    one_each = c.emit("broadcast_to", c.builder.scalar(1, DType.I64), shape=(n,))
    counts = c.emit("scatter", zeros, place, one_each, axis=0, reduction="add")
    return [values, kept.take(number), place, counts]


def _compared(c: Context, rows: Value, n: Dim, width: Dim) -> tuple[Value, Value]:
    """Tell of each two rows whether they are equal, and whether the second is the smaller."""
    if rows.type.dtype is DType.BOOL:
        rows = c.cast(rows, DType.U8)
    mine, theirs = c.reshape(rows, n, 1, width), c.reshape(rows, 1, n, width)
    same, below = c.emit("equal", theirs, mine), c.emit("less", theirs, mine)
    alike = c.emit("all", same, axes=(2,), keepdims=False)
    if width == 1:
        return alike, c.reshape(below, n, n)
    differs = c.cast(c.emit("logical_not", same), DType.I32)
    where = c.emit("argmax", differs, axis=2, keepdims=True)
    return alike, c.reshape(c.emit("gather_elements", below, where, axis=2), n, n)


def range_length(c: Context, start: Value, stop: Value, step: Value) -> Value:
    """Return how many numbers there are from one to before another, as an i64 scalar."""
    distance = c.emit("subtract", stop, start)
    if distance.type.dtype.is_float:
        count = c.emit("ceil", c.emit("divide", distance, step))
    else:
        down = c.emit("floor_divide", c.emit("negative", distance), step)
        count = c.emit("negative", down)
    return c.emit("maximum", c.cast(count, DType.I64), 0)


def numbers(c: Context, x: Inputs) -> Sequence[Operand]:
    """Return numbers in steps between ends that only the run tells."""
    start, stop, step = (c.reshape(c.operand(x, i)) for i in range(3))
    n = c.bind(range_length(c, start, stop, step), "count")
    dtype = start.type.dtype
    counted = c.cast(c.iota(n), dtype)
    return [c.emit("add", c.emit("multiply", counted, step), start)]


def clamped_end(c: Context, at: Value, n: Dim, low: int) -> Value:
    """Return a slice's end, which may count from the back, as a place in an axis."""
    whole = c.reshape(c.value(size(n)))
    at = c.cast(at, DType.I64)
    at = c.emit("where", c.emit("less", at, 0), c.emit("add", at, whole), at)
    return c.emit("minimum", c.emit("maximum", at, low), whole)
