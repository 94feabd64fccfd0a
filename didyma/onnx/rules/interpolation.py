"""GridSample, and interpolation at computed coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType


def numbered(c: Context, d: Dim, like: Value) -> Value | float:
    """Return a size as a number or a scalar of a value's dtype."""
    return d if isinstance(d, int) else c.cast(c.value(size(d)), like.type.dtype)


def reflected(c: Context, x: Value, low: float, span: Dim) -> Value:
    """Return coordinates reflected at ``low`` and at ``low + span`` until they lie between."""
    least, most = c.bounds(span)
    if most <= 0:
        return c.emit("multiply", x, 0)
    twice = numbered(c, dims.mul(2, dims.maximum(span, 1)), x)
    t = c.emit("remainder", c.emit("subtract", x, low), twice)
    back = c.emit("add", c.emit("negative", t), twice)
    t = c.emit("where", c.emit("less_equal", t, numbered(c, span, x)), t, back)
    if least <= 0:  # the axis may have a single element
        t = c.emit("multiply", t, numbered(c, dims.minimum(span, 1), x))
    return c.emit("add", t, low)


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a sampled operand: its size, padding mode and first coordinate.

    ``low`` is 0 if coordinates begin at the centre of the first element, -0.5 if at its edge.
    """

    n: Dim
    padding: str
    low: float = 0.0

    @property
    def last(self) -> Dim:
        """Index of the last element."""
        return dims.sub(self.n, 1)

    def inside(self, c: Context, x: Value) -> Value:
        """Return coordinates moved into the axis, as the padding mode says."""
        if self.padding == "border":
            return c.emit("clip", x, 0, numbered(c, self.last, x))
        span = self.n if self.low else self.last
        return reflected(c, x, self.low, span) if self.padding == "reflection" else x

    def taps(self, c: Context, x: Value, kind: str) -> list[tuple[Value, Value | None]]:
        """Return the indices next to each coordinate, as floats, and their weights."""
        if kind == "nearest":
            return [(self.inside(c, c.emit("round", x)), None)]
        if kind == "linear":  # cubic weighs the four neighbours of a coordinate that lies outside
            x = self.inside(c, x)
        base = c.emit("floor", x)
        part = c.emit("subtract", x, base)
        if kind == "linear":
            left = c.emit("subtract", c.scalar(1, x), part)
            taps = [(0.0, left), (1.0, part)]
        else:
            taps = [(float(k), cubic_weight(c, part, k)) for k in (-1, 0, 1, 2)]
        return [(self.inside(c, c.emit("add", base, k)), w) for k, w in taps]


def cubic(c: Context, t: Value, a: float) -> tuple[Value, Value]:
    """Return Keys' cubic kernel of 1981: up to a distance of 1, and from there to 2."""
    steep = c.emit("subtract", c.emit("multiply", t, a + 2), a + 3)
    near = c.emit("add", c.emit("multiply", c.emit("multiply", steep, t), t), 1)
    left = c.emit("subtract", t, 2)
    far = c.emit(
        "multiply", c.emit("multiply", left, left), c.emit("multiply", c.emit("subtract", t, 1), a)
    )
    return near, far


def cubic_weight(c: Context, part: Value, k: int, a: float = -0.75) -> Value:
    """Return the weight of the element ``k`` after that which a coordinate is ``part`` after."""
    near, far = cubic(c, c.emit("abs", c.emit("subtract", part, k)), a)
    return near if k in (0, 1) else far


def sample(
    c: Context,
    v: Value,
    axes: Sequence[Axis],
    at: Sequence[Value],
    kind: str,
    apart: bool = False,
) -> list[Value]:
    """Return ``v`` [batch, channels, spatial…] interpolated at coordinates [batch, samples].

    There is one result; with ``apart``, one for each neighbour, weighted and not added.
    """
    batch, channels = v.type.shape[:2]
    samples = at[0].type.shape[-1]
    flat = c.reshape(v, batch, channels, dims.mul(*(a.n for a in axes)))
    neighbours = [a.taps(c, x, kind) for a, x in zip(axes, at, strict=True)]
    parts: list[Value] = []
    for taps in product(*neighbours):
        index: Value | None = None
        weight: Value | None = None
        for a, (near, w) in zip(axes, taps, strict=True):
            if a.padding == "zeros":
                above, below = c.emit("greater_equal", near, 0), numbered(c, a.n, near)
                inside = c.emit("logical_and", above, c.emit("less", near, below))
                one = c.scalar(1, near) if w is None else w
                w = c.emit("where", inside, one, c.scalar(0, near))
            own = c.cast(c.emit("clip", near, 0, numbered(c, a.last, near)), DType.I64)
            if index is not None:
                own = c.emit("add", c.emit("multiply", index, numbered(c, a.n, index)), own)
            index = own
            if w is not None:
                weight = w if weight is None else c.emit("multiply", weight, w)
        assert index is not None
        spread = c.emit(
            "broadcast_to", c.reshape(index, batch, 1, samples), shape=(batch, channels, samples)
        )
        part = c.emit("gather_elements", flat, spread, axis=2)
        if weight is not None:
            weight = c.cast(weight, v.type.dtype)
            part = c.emit("multiply", part, c.reshape(weight, batch, 1, samples))
        parts.append(part)
    return parts if apart else [reduce(partial(c.emit, "add"), parts)]


def _grid_sample(c: Context, x: Inputs) -> Sequence[Operand]:
    v, grid = c.operand(x, 0), c.operand(x, 1)
    spatial = v.type.shape[2:]
    if grid.type.shape[-1] != len(spatial):
        raise c.broken(f"{v.type} at {grid.type}", "a coordinate for each spatial axis")
    kind = c.choice("mode", "linear", "bilinear", "bicubic", "cubic", "nearest").removeprefix("bi")
    corners = c.flag("align_corners")
    batch, outs = grid.type.shape[0], grid.type.shape[1:-1]
    samples = dims.mul(*outs)
    axes: list[Axis] = []
    at: list[Value] = []
    rows = c.reshape(grid, batch, samples, len(spatial))
    for i, n in enumerate(spatial):
        k = len(spatial) - 1 - i  # the grid names the last axis first
        g = c.emit("add", c.reshape(c.slice(rows, 2, k, k + 1), batch, samples), 1)
        if corners:
            wide = c.emit("multiply", g, numbered(c, dims.sub(n, 1), g))
        else:
            wide = c.emit("subtract", c.emit("multiply", g, numbered(c, n, g)), 1)
        at.append(c.emit("divide", wide, 2))
        padding = c.choice("padding_mode", "zeros", "border", "reflection")
        axes.append(Axis(n, padding, 0.0 if corners else -0.5))
    (y,) = sample(c, v, axes, at, kind)
    return [c.reshape(y, batch, v.type.shape[1], *outs)]


HANDLERS: dict[str, Handler] = {
    "GridSample": _grid_sample,
}
