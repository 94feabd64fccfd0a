"""Resize, Upsample and GridSample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import TypeAlias

import numpy as np

from refimpl.ir import dims
from refimpl.ir.types import Array, DType
from refimpl.onnx.context import Context
from refimpl.onnx.values import Item, Known
from refimpl.ops.builder import Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item] | None]


@dataclass(frozen=True, slots=True)
class Line:
    """How one axis is resized: from ``n`` places to ``out``, in steps of 1 / ``scale``."""

    axis: int
    n: int
    out: int
    scale: float
    roi: tuple[float, float]

    def places(self, mode: str) -> Array:
        """Place in the operand of each place of the result."""
        i = np.arange(self.out, dtype=np.float64)
        n, width = self.n, self.scale * self.n
        match mode:
            case "half_pixel":
                return (i + 0.5) / self.scale - 0.5
            case "half_pixel_symmetric":
                return n / 2 * (1 - self.out / width) + (i + 0.5) / self.scale - 0.5
            case "pytorch_half_pixel":
                return (i + 0.5) / self.scale - 0.5 if self.out > 1 else 0 * i
            case "align_corners":
                return i * (n - 1) / (width - 1) if width != 1 else 0 * i
            case "asymmetric":
                return i / self.scale
            case "tf_half_pixel_for_nn":
                return (i + 0.5) / self.scale
            case _:
                first, last = self.roi
                if self.out <= 1:
                    return 0 * i + 0.5 * (first + last) * (n - 1)
                return first * (n - 1) + i * (last - first) * (n - 1) / (width - 1)


MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def cubic(t: Array, a: float) -> Array:
    """Keys' kernel of 1981."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _taps(c: Context, line: Line, x: Array, kind: str) -> tuple[Array, Array]:
    """Operand places and weights behind each place of the result."""
    base = np.floor(x)
    squeeze = min(line.scale, 1.0) if c.flag("antialias") else 1.0
    reach = 1 if kind == "linear" else 2
    first = math.floor(-reach / squeeze) + 1
    k = np.arange(first, 2 - first)
    distance = (k - (x - base)[:, None]) * squeeze
    if kind == "linear":
        weights = np.clip(1 - np.abs(distance), 0, None)
    else:
        weights = cubic(distance, c.real("cubic_coeff_a", -0.75))
    at = base[:, None].astype(np.int64) + k
    if c.flag("exclude_outside"):
        weights = np.where((at >= 0) & (at < line.n), weights, 0)
    if squeeze != 1 or c.flag("exclude_outside"):
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(at, 0, line.n - 1), weights


def _along(c: Context, v: Value, line: Line, at: Array, weights: Array) -> Value:
    """Weighted sum of places of one axis."""
    spread = [1] * v.type.rank
    spread[line.axis] = line.out
    if at.shape[1] <= 4:
        total: Value | None = None
        for k in range(at.shape[1]):
            part = c.emit("gather", v, c.constant(at[:, k].copy()), axis=line.axis)
            w = weights[:, k].reshape(spread).astype(v.type.dtype.numpy)
            part = c.emit("multiply", part, c.constant(w))
            total = part if total is None else c.emit("add", total, part)
        assert total is not None
        return total
    matrix = np.zeros((line.n, line.out))
    np.add.at(matrix, (at, np.arange(line.out)[:, None]), weights)
    order = (*(i for i in range(v.type.rank) if i != line.axis), line.axis)
    turned = c.emit("permute_dims", v, axes=order)
    if v.type.rank == 1:
        turned = c.reshape(turned, 1, line.n)
    y = c.emit("matmul", turned, c.constant(matrix.astype(v.type.dtype.numpy)))
    if v.type.rank == 1:
        return c.reshape(y, line.out)
    return c.emit("permute_dims", y, axes=tuple(order.index(i) for i in range(v.type.rank)))


def _lines(c: Context, v: Value, x: Inputs) -> list[Line] | None:
    """What happens to each axis; None where a size is not a number."""
    rank = v.type.rank
    axes = tuple(c.axis(a, rank) for a in c.attrs.get("axes", range(rank)))
    roi, scales, wanted = c.maybe(x, 1), c.maybe(x, 2), c.maybe(x, 3)
    if c.opset < 11:
        roi, scales, wanted = None, c.maybe(x, 1), None
    if scales is None and "scales" in c.attrs:
        scales = Known(np.array(c.attrs["scales"], np.float32), DType.F32)
    corners: list[float] = c.array(roi).reshape(-1).tolist() if roi is not None else []
    if len(corners) != 2 * len(axes):
        corners = [0.0] * len(axes) + [1.0] * len(axes)
    many: list[float] = np.array(c.array(scales), np.float64).tolist() if scales is not None else []
    counts: tuple[int, ...] = ()
    if not many:
        if wanted is None:
            raise c.wrong("neither scales nor sizes", "one of them")
        counts = c.ints(wanted)
    if len(many or counts) != len(axes):
        raise c.wrong(f"{len(many or counts)} sizes for {len(axes)} axes", "one an axis")
    lines: list[Line] = []
    for i, a in enumerate(axes):
        n = v.type.shape[a]
        if not isinstance(n, int):
            if many and many[i] == 1.0:
                continue
            return None
        if many:
            out, scale = math.floor(n * many[i]), many[i]
        else:
            out, scale = counts[i], counts[i] / n
        lines.append(Line(a, n, out, scale, (corners[i], corners[i + len(axes)])))
    policy = c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if counts and policy != "stretch":
        pick = min if policy == "not_larger" else max
        scale = pick(line.scale for line in lines)
        lines = [Line(s.axis, s.n, math.floor(s.n * scale + 0.5), scale, s.roi) for s in lines]
    return lines


def _resize(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    kind = c.choice("mode", "nearest", "linear", "cubic")
    old = c.opset < 11
    mode = c.choice("coordinate_transformation_mode", "asymmetric" if old else "half_pixel", *MODES)
    rounding = NEAREST[c.choice("nearest_mode", "floor" if old else "round_prefer_floor", *NEAREST)]
    lines = _lines(c, v, x)
    if lines is None:
        return [_repeated(c, v, x)]
    outside: list[tuple[Line, Array]] = []
    for line in lines:
        if line.out < 0 or line.n == 0:
            raise c.wrong(f"{line.n} places resized to {line.out}", "sizes of at least 1")
        if line.out == line.n and line.scale == 1 and mode != "tf_crop_and_resize":
            continue
        places = line.places(mode)
        if mode == "tf_crop_and_resize":
            outside.append((line, (places < 0) | (places > line.n - 1)))
        if kind == "nearest":
            at = np.clip(rounding(places), 0, line.n - 1).astype(np.int64)
            v = c.emit("gather", v, c.constant(at), axis=line.axis)
        else:
            v = _along(c, v, line, *_taps(c, line, places, kind))
    for line, beyond in outside:
        if beyond.any():
            spread = [1] * v.type.rank
            spread[line.axis] = line.out
            mask = c.constant(beyond.reshape(spread))
            v = c.do("where", mask, c.scalar(c.real("extrapolation_value"), v), v)
    return [v]


def _repeated(c: Context, v: Value, x: Inputs) -> Value:
    """Enlarge axes of any size by whole factors, each place repeated."""
    item = c.maybe(x, 1) if c.opset < 11 else c.maybe(x, 2)
    factors: list[float] = c.array(item).tolist() if item is not None else []
    plain = c.word("mode", "nearest") == "nearest" and "axes" not in c.attrs
    mode = c.word("coordinate_transformation_mode", "half_pixel")
    if not plain or len(factors) != v.type.rank or any(f != int(f) or f < 1 for f in factors):
        raise c.bad(f"{v.type} resized by {factors}", "sizes known at import, or whole factors")
    if mode not in ("half_pixel", "asymmetric", "pytorch_half_pixel") or (
        mode == "asymmetric" and c.word("nearest_mode", "floor") != "floor"
    ):
        raise c.bad(f"{v.type} resized with {mode}", "sizes known at import")
    shape = v.type.shape
    apart = c.reshape(v, *(d for n in shape for d in (n, 1)))
    wide = tuple(d for n, f in zip(shape, factors, strict=True) for d in (n, int(f)))
    whole = c.emit("broadcast_to", apart, shape=wide)
    return c.reshape(whole, *(dims.mul(n, int(f)) for n, f in zip(shape, factors, strict=True)))


def _upsample(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    lines = _lines(c, v, x)
    if lines is None:
        return [_repeated(c, v, x)]
    for line in lines:
        places = line.places("asymmetric")
        if c.word("mode", "nearest") == "nearest":
            at = np.clip(np.floor(places), 0, line.n - 1).astype(np.int64)
            v = c.emit("gather", v, c.constant(at), axis=line.axis)
        else:
            v = _along(c, v, line, *_taps(c, line, places, "linear"))
    return [v]


# Sampling at computed places -----------------------------------------------------------------


def reflected(c: Context, x: Value, low: float, high: float) -> Value:
    """Coordinates mirrored at the borders until they are inside."""
    span = high - low
    if span <= 0:
        return c.do("multiply", x, 0)
    t = c.do("remainder", c.do("subtract", x, low), 2 * span)
    back = c.do("subtract", c.scalar(2 * span, t), t)
    return c.do("add", c.do("where", c.do("less_equal", t, span), t, back), low)


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a sampled operand: its size, the border, what is beyond it."""

    n: int
    low: float
    high: float
    beyond: str

    def folded(self, c: Context, x: Value) -> Value:
        """Coordinates brought inside, where that is the rule."""
        if self.beyond == "border":
            return c.do("clip", x, 0, self.n - 1)
        return reflected(c, x, self.low, self.high) if self.beyond == "reflection" else x

    def taps(self, c: Context, x: Value, kind: str) -> list[tuple[Value, Value | None]]:
        """Whole places near each coordinate, as floats, with their weights."""
        if kind == "nearest":
            return [(self.folded(c, c.do("round", x)), None)]
        x = self.folded(c, x)
        base = c.do("floor", x)
        part = c.do("subtract", x, base)
        if kind == "linear":
            left = c.do("subtract", c.scalar(1, x), part)
            found = [(0.0, left), (1.0, part)]
        else:
            found = [(float(k), _cubic_weight(c, part, k)) for k in (-1, 0, 1, 2)]
        return [(self.folded(c, c.do("add", base, k)), w) for k, w in found]


def _cubic_weight(c: Context, part: Value, k: int) -> Value:
    a = -0.75
    t = c.do("abs", c.do("subtract", part, k))

    def poly(*coefficients: float) -> Value:
        total = c.do("multiply", t, coefficients[0])
        for q in coefficients[1:-1]:
            total = c.do("multiply", c.do("add", total, q), t)
        return c.do("add", total, coefficients[-1])

    if k in (0, 1):
        return poly(a + 2, -(a + 3), 0, 1)
    return poly(a, -5 * a, 8 * a, -4 * a)


def sample(
    c: Context,
    v: Value,
    axes: Sequence[Axis],
    at: Sequence[Value],
    kind: str,
    apart: bool = False,
) -> list[Value]:
    """Values of ``v`` [batch, channels, spatial…] at coordinates [batch, places], interpolated.

    With ``apart`` the weighted neighbours, not yet added up.
    """
    batch, channels = v.type.shape[:2]
    places = at[0].type.shape[-1]
    flat = c.reshape(v, batch, channels, math.prod(a.n for a in axes))
    ways = [a.taps(c, x, kind) for a, x in zip(axes, at, strict=True)]
    parts: list[Value] = []
    for taps in product(*ways):
        index: Value | None = None
        weight: Value | None = None
        for a, (place, w) in zip(axes, taps, strict=True):
            if a.beyond == "zeros":
                inside = c.do(
                    "logical_and", c.do("greater_equal", place, 0), c.do("less", place, a.n)
                )
                one = c.scalar(1, place) if w is None else w
                w = c.do("where", inside, one, c.scalar(0, place))
            whole = c.cast(c.do("clip", place, 0, a.n - 1), DType.I64)
            index = whole if index is None else c.do("add", c.do("multiply", index, a.n), whole)
            if w is not None:
                weight = w if weight is None else c.do("multiply", weight, w)
        assert index is not None
        spread = c.emit(
            "broadcast_to", c.reshape(index, batch, 1, places), shape=(batch, channels, places)
        )
        part = c.emit("gather_elements", flat, spread, axis=2)
        if weight is not None:
            weight = c.cast(weight, v.type.dtype)
            part = c.do("multiply", part, c.reshape(weight, batch, 1, places))
        parts.append(part)
    return parts if apart else [reduce(partial(c.do, "add"), parts)]


def _grid_sample(c: Context, x: Inputs) -> Sequence[Item]:
    v, grid = c.operand(x, 0), c.operand(x, 1)
    spatial = [d for d in v.type.shape[2:] if isinstance(d, int)]
    if len(spatial) != v.type.rank - 2 or grid.type.shape[-1] != len(spatial):
        raise c.bad(f"{v.type} at {grid.type}", "spatial sizes known at import")
    kind = c.choice("mode", "linear", "bilinear", "bicubic", "cubic", "nearest").removeprefix("bi")
    corners = c.flag("align_corners")
    batch, outs = grid.type.shape[0], grid.type.shape[1:-1]
    places = dims.mul(*outs)
    axes: list[Axis] = []
    at: list[Value] = []
    rows = c.reshape(grid, batch, places, len(spatial))
    for i, n in enumerate(spatial):
        k = len(spatial) - 1 - i  # the grid names the last axis first
        column = c.emit(
            "slice", rows, starts=(0, 0, k), stops=(batch, places, k + 1), steps=(1, 1, 1)
        )
        g = c.do("add", c.reshape(column, batch, places), 1)
        if corners:
            at.append(c.do("multiply", g, (n - 1) / 2))
            low, high = 0.0, n - 1.0
        else:
            at.append(c.do("divide", c.do("subtract", c.do("multiply", g, n), 1), 2))
            low, high = -0.5, n - 0.5
        axes.append(Axis(n, low, high, c.choice("padding_mode", "zeros", "border", "reflection")))
    (y,) = sample(c, v, axes, at, kind)
    return [c.reshape(y, batch, v.type.shape[1], *outs)]


HANDLERS: dict[str, Handler] = {
    "Resize": _resize,
    "Upsample": _upsample,
    "GridSample": _grid_sample,
}
