"""Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from didyma.onnx.context import MAX_FOLDED, Context, Handler, Inputs
from didyma.onnx.rules.interpolation import cubic, cubic_weight
from didyma.onnx.rules.padding import number
from didyma.onnx.rules.resize_axes import MODES, Line, lines, quotient
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.builder import Builder, Value

ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
REACH = {"linear": 1, "cubic": 2}  # places on either side that have a weight


@dataclass(frozen=True, slots=True)
class Taken:
    """Places of the operand behind those of the result, ``top / over``, as nodes compute them."""

    c: Context
    line: Line
    top: Value
    over: Value
    dtype: DType  # of the weights

    def rounded(self, rounding: str) -> Value:
        """Place nearest to each; gather stops at the last place."""
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
        """Tell which lie outside of the operand."""
        c = self.c
        last = c.emit("multiply", self.over, number(c, dims.sub(self.line.n, 1)))
        return c.emit("logical_or", c.emit("less", self.top, 0), c.emit("greater", self.top, last))

    def quotient(self, top: Value, below: Value) -> Value:
        """Return a quotient of integers as a float."""
        return self.c.emit("divide", self.c.cast(top, self.dtype), self.c.cast(below, self.dtype))

    def taps(self, kind: str) -> list[tuple[Value, Value]]:
        """Operand places on either side, with their weights."""
        c = self.c
        base = c.emit("floor_divide", self.top, self.over)
        part = self.quotient(c.emit("remainder", self.top, self.over), self.over)
        found: list[tuple[Value, Value]] = []
        for k in range(1 - REACH[kind], 1 + REACH[kind]):
            if kind == "cubic":
                weight = cubic_weight(c, part, k, c.real("cubic_coeff_a", -0.75))
            else:
                weight = part if k else c.emit("subtract", c.scalar(1, part), part)
            found.append((c.emit("add", base, k), weight))
        if c.flag("exclude_outside"):
            found = [(at, self.kept(at, w)) for at, w in found]
            total = reduce(partial(c.emit, "add"), [w for _, w in found])
            found = [(at, c.emit("divide", w, total)) for at, w in found]
        return [(c.emit("maximum", at, 0), w) for at, w in found]

    def kept(self, at: Value, weight: Value) -> Value:
        """Weights of places of the operand, 0 for others."""
        c = self.c
        low, high = c.emit("greater_equal", at, 0), c.emit("less", at, number(c, self.line.n))
        return c.emit("where", c.emit("logical_and", low, high), weight, c.scalar(0, weight))

    def smooth(self, kind: str) -> tuple[Value, Value]:
        """Operand places and weights [out, taps] of a kernel made as wide as a step is."""
        c, line = self.c, self.line
        least = dims.minimum(line.up, line.down)
        up = dims.maximum(line.up, 1)  # of 0 places nothing is asked
        more = dims.mul(REACH[kind], dims.maximum(up, line.down))
        wide = quotient(c, dims.add(more, up, -1), up)
        k = c.emit("subtract", c.iota(dims.mul(2, wide)), number(c, dims.sub(wide, 1)))
        k = c.reshape(k, 1, dims.mul(2, wide))
        top = c.reshape(self.top, line.out, 1)
        off = c.emit(
            "subtract", c.emit("multiply", k, self.over), c.emit("remainder", top, self.over)
        )
        t = c.emit("abs", self.quotient(off, self.over))
        t = c.emit("multiply", t, self.quotient(number(c, least), number(c, line.down)))
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


def _fixed(line: Line) -> bool:
    """Tell whether all of a line is known, and short enough for constants."""
    rest = (line.n, line.up, line.down)
    short = isinstance(line.out, int) and line.out < MAX_FOLDED
    return short and all(isinstance(d, int) for d in rest)


def _taken(c: Context, line: Line, mode: str, dtype: DType) -> Taken:
    """Return where the places of the result lie; of a fixed line, in a graph of their own."""
    places = line.places(mode)
    line.check(c, places)
    if _fixed(line):
        c, dtype = replace(c, builder=Builder(), emitted={}), DType.F64
    i = c.iota(line.out)
    top = i if places.step == 1 else c.emit("multiply", i, number(c, places.step))
    top = top if places.start == 0 else c.emit("add", top, number(c, places.start))
    return Taken(c, line, top, number(c, places.over), dtype)


def _spread(c: Context, w: Value, rank: int, axis: int) -> Value:
    """Return a vector along one axis of several."""
    return c.reshape(w, *(w.type.shape[0] if i == axis else 1 for i in range(rank)))


def _along(c: Context, v: Value, t: Taken, kind: str) -> Value:
    """Weighted sum of places of one axis."""
    line, rank = t.line, v.type.rank
    shrinks = c.bounds(dims.sub(line.up, line.down))[0] < 0
    if c.flag("antialias") and shrinks:
        return _smoothed(c, v, t, kind)
    parts: list[Value] = []
    for at, weight in t.taps(kind):
        if _fixed(line):
            at, weight = c.constant(t.c.array(at)), c.constant(t.c.array(weight))
        w = _spread(c, c.cast(weight, v.type.dtype), rank, line.axis)
        parts.append(c.emit("multiply", c.emit("gather", v, at, axis=line.axis), w))
    return reduce(partial(c.emit, "add"), parts)


def _smoothed(c: Context, v: Value, t: Taken, kind: str) -> Value:
    line = t.line
    at, weights = t.smooth(kind)
    if _fixed(line) and isinstance(size := dims.mul(line.n, line.out), int) and size < MAX_FOLDED:
        return _product(c, v, line, t.c.array(at), t.c.array(weights))
    taken = c.emit("gather", v, at, axis=line.axis)
    own = (line.axis, line.axis + 1)
    shape = tuple(d if i in own else 1 for i, d in enumerate(taken.type.shape))
    weighted = c.emit("multiply", taken, c.reshape(c.cast(weights, v.type.dtype), *shape))
    return c.emit("sum", weighted, axes=(line.axis + 1,), keepdims=False)


def _product(c: Context, v: Value, line: Line, at: Array, weights: Array) -> Value:
    """Weighted sum of many places as a product with a matrix."""
    rank = v.type.rank
    assert isinstance(line.n, int)
    matrix = np.zeros((line.n, len(at)))
    np.add.at(matrix, (np.minimum(at, line.n - 1), np.arange(len(at))[:, None]), weights)
    order = (*(i for i in range(rank) if i != line.axis), line.axis)
    turned = c.emit("permute_dims", v, axes=order)
    turned = c.reshape(turned, 1, line.n) if rank == 1 else turned
    y = c.emit("matmul", turned, c.constant(matrix.astype(v.type.dtype.numpy)))
    if rank == 1:
        return c.reshape(y, line.out)
    return c.emit("permute_dims", y, axes=tuple(order.index(i) for i in range(rank)))


def _resized(c: Context, v: Value, found: Sequence[Line], mode: str, kind: str, how: str) -> Value:
    """Resize one axis after the other, and fill what lies outside of a crop."""
    crop = mode == "tf_crop_and_resize"
    work = [line for line in found if crop or not line.idle]
    if kind == "nearest" and _repeats(work, mode, how):
        return _repeated(c, v, work)
    dtype = v.type.dtype
    if kind != "nearest" and not dtype.is_float:
        v = c.cast(v, DType.F32)
    outside: list[tuple[Line, Value]] = []
    for line in work:
        t = _taken(c, line, mode, DType.F64 if v.type.dtype is DType.F64 else DType.F32)
        if crop:
            beyond = t.beyond()
            known = t.c.array(beyond) if _fixed(line) else np.ones(1)
            if known.any():
                outside.append((line, c.constant(known) if _fixed(line) else beyond))
        if kind == "nearest":
            at = t.rounded(how)
            at = c.constant(t.c.array(at)) if _fixed(line) else at
            v = c.emit("gather", v, at, axis=line.axis)
        else:
            v = _along(c, v, t, kind)
    for line, beyond in outside:
        mask = _spread(c, beyond, v.type.rank, line.axis)
        v = c.emit("where", mask, c.scalar(c.real("extrapolation_value"), v), v)
    return c.cast(v, dtype)


def _repeats(work: Sequence[Line], mode: str, how: str) -> bool:
    """Tell whether each place becomes so many, on axes of which only the run tells the size."""
    if all(map(_fixed, work)) or not all(line.whole for line in work):
        return False
    if mode == "asymmetric":
        return how == "floor"
    return mode in ("half_pixel", "pytorch_half_pixel") and how.startswith("round")


def _repeated(c: Context, v: Value, work: Sequence[Line]) -> Value:
    """Enlarge axes by whole factors, each place repeated: that moves places, and computes none."""
    shape = v.type.shape
    factors = {line.axis: line.whole for line in work}
    apart = c.reshape(v, *(d for n in shape for d in (n, 1)))
    wide = tuple(d for i, n in enumerate(shape) for d in (n, factors.get(i, 1)))
    whole = c.emit("broadcast_to", apart, shape=wide)
    return c.reshape(whole, *(dims.mul(n, factors.get(i, 1)) for i, n in enumerate(shape)))


def _resize(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    kind = c.choice("mode", "nearest", "linear", "cubic")
    old = c.opset < 11
    mode = c.choice("coordinate_transformation_mode", "asymmetric" if old else "half_pixel", *MODES)
    how = c.choice("nearest_mode", "floor" if old else "round_prefer_floor", *ROUNDINGS)
    return [_resized(c, v, lines(c, v, x), mode, kind, how)]


def _upsample(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    kind = "nearest" if c.string("mode", "nearest") == "nearest" else "linear"
    return [_resized(c, v, lines(c, v, x), "asymmetric", kind, "floor")]


HANDLERS: dict[str, Handler] = {"Resize": _resize, "Upsample": _upsample}
