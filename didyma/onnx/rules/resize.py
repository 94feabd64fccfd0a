"""Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from didyma.composites.builder import Builder, Value
from didyma.onnx.context import MAX_FOLDED, Context, Handler, Inputs
from didyma.onnx.rules.interpolation import cubic, cubic_weight
from didyma.onnx.rules.padding import size_scalar
from didyma.onnx.rules.resize_axes import MODES, AxisResize, axis_resizes, quotient
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType

ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
REACH = {"linear": 1, "cubic": 2}  # neighbours on either side that have a weight


@dataclass(frozen=True, slots=True)
class Sampling:
    """Where one axis is sampled: the coordinates ``top / over``, as values of the graph."""

    c: Context
    axis: AxisResize
    top: Value
    over: Value
    dtype: DType  # of the weights

    def rounded(self, rounding: str) -> Value:
        """Return the index nearest to each coordinate; gather clamps it to the last."""
        c, top, over = self.c, self.top, self.over
        if rounding.startswith("round"):
            top, over = c.emit("multiply", top, 2), c.emit("multiply", over, 2)
            way = "subtract" if rounding == "round_prefer_floor" else "add"
            top = c.emit(way, top, self.over)
        if rounding in ("ceil", "round_prefer_floor"):
            at = c.emit("negative", c.emit("floor_divide", c.emit("negative", top), over))
        else:
            at = c.emit("floor_divide", top, over)
        return c.emit("maximum", at, 0)

    def beyond(self) -> Value:
        """Return which coordinates lie outside of the operand."""
        c = self.c
        last = c.emit("multiply", self.over, size_scalar(c, dims.sub(self.axis.n, 1)))
        return c.emit("logical_or", c.emit("less", self.top, 0), c.emit("greater", self.top, last))

    def quotient(self, top: Value, below: Value) -> Value:
        """Return a quotient of integers as a float."""
        return self.c.emit("divide", self.c.cast(top, self.dtype), self.c.cast(below, self.dtype))

    def taps(self, kind: str) -> list[tuple[Value, Value]]:
        """Return the indices of the neighbours on either side, with their weights."""
        c = self.c
        base = c.emit("floor_divide", self.top, self.over)
        part = self.quotient(c.emit("remainder", self.top, self.over), self.over)
        taps: list[tuple[Value, Value]] = []
        for k in range(1 - REACH[kind], 1 + REACH[kind]):
            if kind == "cubic":
                weight = cubic_weight(c, part, k, c.real("cubic_coeff_a", -0.75))
            else:
                weight = part if k else c.emit("subtract", c.scalar(1, part), part)
            taps.append((c.emit("add", base, k), weight))
        if c.flag("exclude_outside"):
            taps = [(at, self.kept(at, w)) for at, w in taps]
            total = reduce(partial(c.emit, "add"), [w for _, w in taps])
            taps = [(at, c.emit("divide", w, total)) for at, w in taps]
        return [(c.emit("maximum", at, 0), w) for at, w in taps]

    def kept(self, at: Value, weight: Value) -> Value:
        """Return weights that are 0 at indices outside of the operand."""
        c = self.c
        low, high = c.emit("greater_equal", at, 0), c.emit("less", at, size_scalar(c, self.axis.n))
        return c.emit("where", c.emit("logical_and", low, high), weight, c.scalar(0, weight))

    def smooth(self, kind: str) -> tuple[Value, Value]:
        """Return indices and weights [out, taps] of a kernel that is as wide as a step."""
        c, axis = self.c, self.axis
        least = dims.minimum(axis.up, axis.down)
        up = dims.maximum(axis.up, 1)  # an operand of no elements is not sampled
        more = dims.mul(REACH[kind], dims.maximum(up, axis.down))
        wide = quotient(c, dims.add(more, up, -1), up)
        k = c.emit("subtract", c.iota(dims.mul(2, wide)), size_scalar(c, dims.sub(wide, 1)))
        k = c.reshape(k, 1, dims.mul(2, wide))
        top = c.reshape(self.top, axis.out, 1)
        off = c.emit(
            "subtract", c.emit("multiply", k, self.over), c.emit("remainder", top, self.over)
        )
        t = c.emit("abs", self.quotient(off, self.over))
        t = c.emit("multiply", t, self.quotient(size_scalar(c, least), size_scalar(c, axis.down)))
        if kind == "linear":
            weights = c.emit("maximum", c.emit("subtract", c.scalar(1, t), t), 0)
        else:
            near, far = cubic(c, t, c.real("cubic_coeff_a", -0.75))
            far = c.emit("where", c.emit("less", t, 2), far, c.scalar(0, t))
            weights = c.emit("where", c.emit("less_equal", t, 1), near, far)
        at = c.emit("add", c.emit("floor_divide", top, self.over), k)
        weights = self.kept(at, weights) if c.flag("exclude_outside") else weights
        total = c.emit("sum", weights, axes=(1,), keepdims=True)
        return c.emit("maximum", at, 0), c.emit("divide", weights, total)


def _fixed(axis: AxisResize) -> bool:
    """Return whether an axis is resized between constant sizes, small enough for constants."""
    rest = (axis.n, axis.up, axis.down)
    short = isinstance(axis.out, int) and axis.out < MAX_FOLDED
    return short and all(isinstance(d, int) for d in rest)


def _sampling(c: Context, axis: AxisResize, mode: str, dtype: DType) -> Sampling:
    """Return the coordinates of the result; those of a fixed axis, in a graph of their own."""
    coordinates = axis.coordinates(mode)
    axis.check(c, coordinates)
    if _fixed(axis):
        c, dtype = replace(c, builder=Builder(), emitted={}), DType.F64
    i = c.iota(axis.out)
    top = i if coordinates.step == 1 else c.emit("multiply", i, size_scalar(c, coordinates.step))
    top = top if coordinates.start == 0 else c.emit("add", top, size_scalar(c, coordinates.start))
    return Sampling(c, axis, top, size_scalar(c, coordinates.over), dtype)


def _spread(c: Context, w: Value, rank: int, axis: int) -> Value:
    """Return a vector as a tensor of some rank that extends along one axis."""
    return c.reshape(w, *(w.type.shape[0] if i == axis else 1 for i in range(rank)))


def _along(c: Context, v: Value, t: Sampling, kind: str) -> Value:
    """Return the weighted sums along one axis."""
    axis, rank = t.axis, v.type.rank
    shrinks = c.bounds(dims.sub(axis.up, axis.down))[0] < 0
    if c.flag("antialias") and shrinks:
        return _smoothed(c, v, t, kind)
    parts: list[Value] = []
    for at, weight in t.taps(kind):
        if _fixed(axis):
            at, weight = c.constant(t.c.array(at)), c.constant(t.c.array(weight))
        w = _spread(c, c.cast(weight, v.type.dtype), rank, axis.index)
        parts.append(c.emit("multiply", c.emit("gather", v, at, axis=axis.index), w))
    return reduce(partial(c.emit, "add"), parts)


def _smoothed(c: Context, v: Value, t: Sampling, kind: str) -> Value:
    axis = t.axis
    at, weights = t.smooth(kind)
    if _fixed(axis) and isinstance(size := dims.mul(axis.n, axis.out), int) and size < MAX_FOLDED:
        return _product(c, v, axis, t.c.array(at), t.c.array(weights))
    taken = c.emit("gather", v, at, axis=axis.index)
    own = (axis.index, axis.index + 1)
    shape = tuple(d if i in own else 1 for i, d in enumerate(taken.type.shape))
    weighted = c.emit("multiply", taken, c.reshape(c.cast(weights, v.type.dtype), *shape))
    return c.emit("sum", weighted, axes=(axis.index + 1,), keepdims=False)


def _product(c: Context, v: Value, axis: AxisResize, at: Array, weights: Array) -> Value:
    """Return weighted sums along an axis, as a product with a matrix."""
    rank = v.type.rank
    assert isinstance(axis.n, int)
    matrix = np.zeros((axis.n, len(at)))
    np.add.at(matrix, (np.minimum(at, axis.n - 1), np.arange(len(at))[:, None]), weights)
    order = (*(i for i in range(rank) if i != axis.index), axis.index)
    turned = c.emit("permute_dims", v, axes=order)
    turned = c.reshape(turned, 1, axis.n) if rank == 1 else turned
    y = c.emit("matmul", turned, c.constant(matrix.astype(v.type.dtype.numpy)))
    if rank == 1:
        return c.reshape(y, axis.out)
    return c.emit("permute_dims", y, axes=tuple(order.index(i) for i in range(rank)))


def _resized(
    c: Context, v: Value, axes: Sequence[AxisResize], mode: str, kind: str, how: str
) -> Value:
    """Resize one axis after the other, and fill what lies outside of a crop."""
    crop = mode == "tf_crop_and_resize"
    work = [axis for axis in axes if crop or not axis.idle]
    if kind == "nearest" and _repeats(work, mode, how):
        return _repeated(c, v, work)
    dtype = v.type.dtype
    if kind != "nearest" and not dtype.is_float:
        v = c.cast(v, DType.F32)
    outside: list[tuple[AxisResize, Value]] = []
    for axis in work:
        t = _sampling(c, axis, mode, DType.F64 if v.type.dtype is DType.F64 else DType.F32)
        if crop:
            beyond = t.beyond()
            known = t.c.array(beyond) if _fixed(axis) else np.ones(1)
            if known.any():
                outside.append((axis, c.constant(known) if _fixed(axis) else beyond))
        if kind == "nearest":
            at = t.rounded(how)
            at = c.constant(t.c.array(at)) if _fixed(axis) else at
            v = c.emit("gather", v, at, axis=axis.index)
        else:
            v = _along(c, v, t, kind)
    for axis, beyond in outside:
        mask = _spread(c, beyond, v.type.rank, axis.index)
        v = c.emit("where", mask, c.scalar(c.real("extrapolation_value"), v), v)
    return c.cast(v, dtype)


def _repeats(work: Sequence[AxisResize], mode: str, how: str) -> bool:
    """Return whether every element is repeated a constant number of times, on symbolic axes."""
    if all(map(_fixed, work)) or not all(axis.integer_factor for axis in work):
        return False
    if mode == "asymmetric":
        return how == "floor"
    return mode in ("half_pixel", "pytorch_half_pixel") and how.startswith("round")


def _repeated(c: Context, v: Value, work: Sequence[AxisResize]) -> Value:
    """Enlarge axes by integer factors: repeat each element, without arithmetic."""
    shape = v.type.shape
    factors = {axis.index: axis.integer_factor for axis in work}
    apart = c.reshape(v, *(d for n in shape for d in (n, 1)))
    wide = tuple(d for i, n in enumerate(shape) for d in (n, factors.get(i, 1)))
    repeated = c.emit("broadcast_to", apart, shape=wide)
    return c.reshape(repeated, *(dims.mul(n, factors.get(i, 1)) for i, n in enumerate(shape)))


def _resize(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    kind = c.choice("mode", "nearest", "linear", "cubic")
    old = c.opset < 11
    mode = c.choice("coordinate_transformation_mode", "asymmetric" if old else "half_pixel", *MODES)
    how = c.choice("nearest_mode", "floor" if old else "round_prefer_floor", *ROUNDINGS)
    return [_resized(c, v, axis_resizes(c, v, x), mode, kind, how)]


def _upsample(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    kind = "nearest" if c.string("mode", "nearest") == "nearest" else "linear"
    return [_resized(c, v, axis_resizes(c, v, x), "asymmetric", kind, "floor")]


HANDLERS: dict[str, Handler] = {"Resize": _resize, "Upsample": _upsample}
