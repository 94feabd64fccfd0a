"""Windows over an operand: strides, dilations and padding in ONNX's ways, made explicit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, NotConstant
from didyma.onnx.values import size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Shape
from didyma.refimpl.ops.rules import at_least_zero, at_most
from didyma.refimpl.ops.windows import SlidingWindow


def static_sizes(c: Context, sizes: Sequence[Dim], what: str) -> tuple[int, ...]:
    """Return sizes that must be numbers; ``onnx-unsupported`` if one is symbolic."""
    plain = tuple(d for d in sizes if isinstance(d, int))
    if len(plain) != len(sizes):
        raise c.error(
            f"{what} of sizes {', '.join(map(dims.text, sizes))}", "sizes known at import"
        )
    return plain


class Windows:
    """The strides, dilations and padding of a node, for an operand of given spatial sizes.

    ``low`` and ``high`` are the pads; ``extra`` of ``high`` are due to ``ceil_mode``.
    """

    def __init__(self, c: Context, spatial: Sequence[Dim], kernel: Sequence[int]) -> None:
        rank = len(spatial)
        self.kernel = tuple(kernel)
        self.strides: tuple[int, ...] = tuple(c.attrs.get("strides", (1,) * rank))
        self.dilations: tuple[int, ...] = tuple(c.attrs.get("dilations", (1,) * rank))
        pads: tuple[int, ...] = tuple(c.attrs.get("pads", (0,) * 2 * rank))
        if not len(kernel) == len(self.strides) == len(self.dilations) == len(pads) // 2 == rank:
            raise c.broken(
                f"windows of {len(kernel)} axes, {len(self.strides)} strides,"
                f" {len(self.dilations)} dilations and {len(pads)} pads",
                f"{rank} axes, strides and dilations and {2 * rank} pads, as the operand has"
                f" {rank} spatial axes",
            )
        low: list[Dim] = list(pads[:rank])
        high: list[Dim] = list(pads[rank:])
        auto = c.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        for i, n in enumerate(spatial):
            if auto == "VALID":
                low[i] = high[i] = 0
            elif auto != "NOTSET":
                low[i], high[i] = self._same(i, n, auto == "SAME_LOWER")
        self.low: Shape = tuple(low)
        self.extra: Shape = (0,) * rank
        if c.attrs.get("ceil_mode", 0) and not auto.startswith("SAME"):
            ends = [self._ceil(i, n, low[i], high[i]) for i, n in enumerate(spatial)]
            high, self.extra = [e for e, _ in ends], tuple(extra for _, extra in ends)
        self.high: Shape = tuple(high)

    def counts(self, spatial: Sequence[Dim]) -> Shape:
        """Return the number of windows along each axis."""
        f = SlidingWindow(self.strides, self.dilations, self.low, self.high, self.kernel)
        return f.sizes(tuple(spatial))

    def reach(self, i: int) -> int:
        """Return how many elements a window spans along an axis."""
        return (self.kernel[i] - 1) * self.dilations[i] + 1

    def _same(self, i: int, n: Dim, lower: bool) -> tuple[Dim, Dim]:
        """Return the pads of ``auto_pad = SAME``: one window for each stride in an axis."""
        stride, reach = self.strides[i], self.reach(i)
        if reach == 1:
            return 0, 0
        count = dims.ceildiv(n, stride)
        total = at_least_zero(dims.sub(dims.add(dims.mul(count, stride), reach - stride), n))
        low = dims.ceildiv(total, 2) if lower else dims.floordiv(total, 2)
        return low, self._high_pad(i, count, dims.add(low, n))

    def _high_pad(self, i: int, count: Dim, end: Dim) -> Dim:
        """Return the pad after the end that ``count`` windows need.

        For an open size, windows with gaps get some more, which keeps the padded size simple.
        """
        stride, reach = self.strides[i], self.reach(i)
        if isinstance(count, int) and isinstance(end, int):
            return max(count * stride + reach - stride - end, 0)
        return dims.sub(dims.add(dims.mul(count, stride), max(reach - stride, 0)), end)

    def _ceil(self, i: int, n: Dim, low: Dim, high: Dim) -> tuple[Dim, Dim]:
        """Return the pad after the end under ``ceil_mode``, and how much of it that mode adds.

        The last window may reach beyond the padding, but must not start in the padding after the
        end.
        """
        stride, reach = self.strides[i], self.reach(i)
        if stride == 1 or reach == 1:
            return high, 0
        end = dims.add(low, n)
        beyond = dims.sub(reach - stride, high)
        count = dims.ceildiv(dims.sub(end, at_least_zero(beyond)), stride)
        pad = self._high_pad(i, count, end)
        return pad, dims.sub(pad, at_most(high, pad))

    def emit(self, c: Context, op: str, *args: Value, **attrs: int | bool) -> Value:
        """Add a node of an op that works on these windows."""
        return c.emit(
            op, *args, strides=self.strides, dilations=self.dilations, low=self.low,
            high=self.high, **attrs,
        )  # fmt: skip


def size_scalar(c: Context, d: Dim) -> Value:
    """Return a size as a scalar of the graph."""
    return c.value(size(d))


def window_indices(
    c: Context, spatial: Sequence[Dim], w: Windows, order: Sequence[int] = ()
) -> Value:
    """Return the flat index of each element of each window, -1 in the padding: [windows, taps].

    ``order`` gives the axes from the slowest to the fastest varying one.
    """
    rank, counts = len(spatial), w.counts(spatial)
    flat: Value | None = None
    inside: Value | None = None
    for i in order or range(rank):
        first = c.emit("multiply", c.iota(counts[i], rank=2 * rank, axis=i), w.strides[i])
        tap = c.emit("multiply", c.iota(w.kernel[i], rank=2 * rank, axis=rank + i), w.dilations[i])
        at = c.emit("subtract", c.emit("add", first, tap), size_scalar(c, w.low[i]))
        n = size_scalar(c, spatial[i])
        own = c.emit("logical_and", c.emit("greater_equal", at, 0), c.emit("less", at, n))
        inside = own if inside is None else c.emit("logical_and", inside, own)
        flat = at if flat is None else c.emit("add", c.emit("multiply", flat, n), at)
    assert flat is not None
    assert inside is not None
    table = c.emit("where", inside, flat, c.scalar(-1, flat))
    return c.reshape(table, dims.mul(*counts), math.prod(w.kernel))


def folded_if_constant(c: Context, v: Value) -> Value:
    """Return a constant for a value that is computed from constants, or else the value."""
    try:
        return c.constant(c.array(v))
    except NotConstant:
        return v
