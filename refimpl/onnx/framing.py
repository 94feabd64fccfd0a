"""ONNX's ways to say how windows lie over an operand, made explicit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import Array, Shape
from refimpl.onnx.context import Context
from refimpl.ops.builder import Value
from refimpl.ops.rules import at_least_zero, at_most


def static(c: Context, sizes: Sequence[Dim], what: str) -> tuple[int, ...]:
    """Return sizes that must be numbers."""
    plain = tuple(d for d in sizes if isinstance(d, int))
    if len(plain) != len(sizes):
        raise c.bad(f"{what} of sizes {', '.join(map(dims.text, sizes))}", "sizes known at import")
    return plain


class Windows:
    """Strides, dilations and padding of a node over the spatial sizes of its operand."""

    def __init__(self, c: Context, spatial: Sequence[Dim], kernel: Sequence[int]) -> None:
        rank = len(spatial)
        self.kernel = tuple(kernel)
        self.strides: tuple[int, ...] = tuple(c.attrs.get("strides", (1,) * rank))
        self.dilations: tuple[int, ...] = tuple(c.attrs.get("dilations", (1,) * rank))
        pads: tuple[int, ...] = tuple(c.attrs.get("pads", (0,) * 2 * rank))
        if not len(kernel) == len(self.strides) == len(self.dilations) == len(pads) // 2 == rank:
            raise c.bad(f"attributes {c.attrs}", f"{rank} numbers for {rank} spatial axes")
        low: list[Dim] = list(pads[:rank])
        high: list[Dim] = list(pads[rank:])
        auto = c.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        for i, n in enumerate(spatial):
            if auto == "VALID":
                low[i] = high[i] = 0
            elif auto != "NOTSET":
                low[i], high[i] = self._same(i, n, auto == "SAME_LOWER")
        self.low: Shape = tuple(low)
        self.extra: Shape = (0,) * rank  # places that ceil_mode adds after the padding
        if c.attrs.get("ceil_mode", 0):
            ends = [self._ceil(i, n, low[i], high[i]) for i, n in enumerate(spatial)]
            high, self.extra = [e for e, _ in ends], tuple(extra for _, extra in ends)
        self.high: Shape = tuple(high)

    def reach(self, i: int) -> int:
        """Places that a window spans."""
        return (self.kernel[i] - 1) * self.dilations[i] + 1

    def _same(self, i: int, n: Dim, lower: bool) -> tuple[Dim, Dim]:
        """Padding of as many windows as there are strides in an axis."""
        stride, reach = self.strides[i], self.reach(i)
        if reach == 1:
            return 0, 0
        count = dims.ceildiv(n, stride)
        total = at_least_zero(dims.sub(dims.add(dims.mul(count, stride), reach - stride), n))
        low = dims.ceildiv(total, 2) if lower else dims.floordiv(total, 2)
        return low, self._behind(i, count, dims.add(low, n))

    def _behind(self, i: int, count: Dim, end: Dim) -> Dim:
        """Places after the end that so many windows need.

        Of an open size some more, if windows leave gaps: the sum of both stays simple.
        """
        stride, reach = self.strides[i], self.reach(i)
        if isinstance(count, int) and isinstance(end, int):
            return max(count * stride + reach - stride - end, 0)
        return dims.sub(dims.add(dims.mul(count, stride), max(reach - stride, 0)), end)

    def _ceil(self, i: int, n: Dim, low: Dim, high: Dim) -> tuple[Dim, Dim]:
        """Places after the end, and how many of them are no padding.

        The last window may reach beyond the padding, but not start in the padding after the end.
        """
        stride, reach = self.strides[i], self.reach(i)
        if stride == 1 or reach == 1:
            return high, 0
        end = dims.add(low, n)
        beyond = dims.sub(reach - stride, high)
        count = dims.ceildiv(dims.sub(end, at_least_zero(beyond)), stride)
        behind = self._behind(i, count, end)
        return behind, dims.sub(behind, at_most(high, behind))

    def emit(self, c: Context, op: str, *args: Value, **attrs: int | bool) -> Value:
        """Add a node of an op over these windows."""
        return c.emit(
            op, *args, strides=self.strides, dilations=self.dilations, low=self.low,
            high=self.high, **attrs,
        )  # fmt: skip


def places(spatial: Sequence[int], w: Windows) -> tuple[Array, tuple[int, ...]]:
    """Flat place of each place of each window, -1 in the padding; and how many windows."""
    rank = len(spatial)
    flat, valid = np.zeros((1,) * 2 * rank, np.int64), np.ones((1,) * 2 * rank, np.bool_)
    counts: list[int] = []
    for i, (n, low, high) in enumerate(zip(spatial, w.low, w.high, strict=True)):
        assert isinstance(low, int)
        assert isinstance(high, int)
        count = (n + low + high - w.reach(i)) // w.strides[i] + 1
        counts.append(max(count, 0))
        at = np.arange(counts[-1])[:, None] * w.strides[i] - low
        at = at + np.arange(w.kernel[i]) * w.dilations[i]
        spread = [1] * 2 * rank
        spread[i], spread[rank + i] = at.shape
        flat = flat * n + at.reshape(spread)
        valid = valid & ((at >= 0) & (at < n)).reshape(spread)
    windows, taps = math.prod(counts), math.prod(w.kernel)
    return np.where(valid, flat, -1).reshape(windows, taps), tuple(counts)
