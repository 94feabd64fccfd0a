"""GridSample, and sampling at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product

from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.values import Operand, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value


def numbered(c: Context, d: Dim, like: Value) -> Value | float:
    """Return a size as a number of a value's dtype."""
    return d if isinstance(d, int) else c.cast(c.value(size(d)), like.type.dtype)


def reflected(c: Context, x: Value, low: float, span: Dim) -> Value:
    """Coordinates mirrored at the borders, from ``low`` on, until they are inside."""
    least, most = c.bounds(span)
    if most <= 0:
        return c.emit("multiply", x, 0)
    twice = numbered(c, dims.mul(2, dims.maximum(span, 1)), x)
    t = c.emit("remainder", c.emit("subtract", x, low), twice)
    back = c.emit("add", c.emit("negative", t), twice)
    t = c.emit("where", c.emit("less_equal", t, numbered(c, span, x)), t, back)
    if least <= 0:  # there may be but one place
        t = c.emit("multiply", t, numbered(c, dims.minimum(span, 1), x))
    return c.emit("add", t, low)


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a sampled operand: its size, what is beyond it, where it begins.

    ``low`` is 0 where it begins at the middle of its first place, -0.5 at its edge.
    """

    n: Dim
    beyond: str
    low: float = 0.0

    @property
    def last(self) -> Dim:
        """The last place."""
        return dims.sub(self.n, 1)

    def folded(self, c: Context, x: Value) -> Value:
        """Coordinates brought inside, where that is the rule."""
        if self.beyond == "border":
            return c.emit("clip", x, 0, numbered(c, self.last, x))
        span = self.n if self.low else self.last
        return reflected(c, x, self.low, span) if self.beyond == "reflection" else x

    def taps(self, c: Context, x: Value, kind: str) -> list[tuple[Value, Value | None]]:
        """Whole places near each coordinate, as floats, with their weights."""
        if kind == "nearest":
            return [(self.folded(c, c.emit("round", x)), None)]
        if kind == "linear":  # PyTorch and ORT weigh four places around where it lies outside
            x = self.folded(c, x)
        base = c.emit("floor", x)
        part = c.emit("subtract", x, base)
        if kind == "linear":
            left = c.emit("subtract", c.scalar(1, x), part)
            found = [(0.0, left), (1.0, part)]
        else:
            found = [(float(k), cubic_weight(c, part, k)) for k in (-1, 0, 1, 2)]
        return [(self.folded(c, c.emit("add", base, k)), w) for k, w in found]


def cubic(c: Context, t: Value, a: float) -> tuple[Value, Value]:
    """Keys' kernel of 1981, up to a distance of 1, and from there to 2."""
    steep = c.emit("subtract", c.emit("multiply", t, a + 2), a + 3)
    near = c.emit("add", c.emit("multiply", c.emit("multiply", steep, t), t), 1)
    left = c.emit("subtract", t, 2)
    far = c.emit(
        "multiply", c.emit("multiply", left, left), c.emit("multiply", c.emit("subtract", t, 1), a)
    )
    return near, far


def cubic_weight(c: Context, part: Value, k: int, a: float = -0.75) -> Value:
    """Weight of the place ``k`` after the one that a coordinate is ``part`` after."""
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
    """Values of ``v`` [batch, channels, spatial…] at coordinates [batch, places], interpolated.

    With ``apart`` the weighted neighbours, not yet added up.
    """
    batch, channels = v.type.shape[:2]
    places = at[0].type.shape[-1]
    flat = c.reshape(v, batch, channels, dims.mul(*(a.n for a in axes)))
    ways = [a.taps(c, x, kind) for a, x in zip(axes, at, strict=True)]
    parts: list[Value] = []
    for taps in product(*ways):
        index: Value | None = None
        weight: Value | None = None
        for a, (place, w) in zip(axes, taps, strict=True):
            if a.beyond == "zeros":
                above, below = c.emit("greater_equal", place, 0), numbered(c, a.n, place)
                inside = c.emit("logical_and", above, c.emit("less", place, below))
                one = c.scalar(1, place) if w is None else w
                w = c.emit("where", inside, one, c.scalar(0, place))
            whole = c.cast(c.emit("clip", place, 0, numbered(c, a.last, place)), DType.I64)
            if index is not None:
                whole = c.emit("add", c.emit("multiply", index, numbered(c, a.n, index)), whole)
            index = whole
            if w is not None:
                weight = w if weight is None else c.emit("multiply", weight, w)
        assert index is not None
        spread = c.emit(
            "broadcast_to", c.reshape(index, batch, 1, places), shape=(batch, channels, places)
        )
        part = c.emit("gather_elements", flat, spread, axis=2)
        if weight is not None:
            weight = c.cast(weight, v.type.dtype)
            part = c.emit("multiply", part, c.reshape(weight, batch, 1, places))
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
    places = dims.mul(*outs)
    axes: list[Axis] = []
    at: list[Value] = []
    rows = c.reshape(grid, batch, places, len(spatial))
    for i, n in enumerate(spatial):
        k = len(spatial) - 1 - i  # the grid names the last axis first
        column = c.emit(
            "slice", rows, starts=(0, 0, k), stops=(batch, places, k + 1), steps=(1, 1, 1)
        )
        g = c.emit("add", c.reshape(column, batch, places), 1)
        if corners:
            wide = c.emit("multiply", g, numbered(c, dims.sub(n, 1), g))
        else:
            wide = c.emit("subtract", c.emit("multiply", g, numbered(c, n, g)), 1)
        at.append(c.emit("divide", wide, 2))
        beyond = c.choice("padding_mode", "zeros", "border", "reflection")
        axes.append(Axis(n, beyond, 0.0 if corners else -0.5))
    (y,) = sample(c, v, axes, at, kind)
    return [c.reshape(y, batch, v.type.shape[1], *outs)]


HANDLERS: dict[str, Handler] = {
    "GridSample": _grid_sample,
}
