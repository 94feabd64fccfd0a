"""ONNX's ways to say how windows lie over an operand, made explicit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import Array
from refimpl.onnx.context import Context
from refimpl.ops.builder import Value


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
        self.low, self.high = pads[:rank], pads[rank:]
        auto = c.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        if auto == "VALID":
            self.low = self.high = (0,) * rank
        elif auto in ("SAME_UPPER", "SAME_LOWER"):
            total = [self._same(c, n, i) for i, n in enumerate(spatial)]
            small, large = [t // 2 for t in total], [t - t // 2 for t in total]
            upper = auto == "SAME_UPPER"
            self.low, self.high = (
                (tuple(small), tuple(large)) if upper else (tuple(large), tuple(small))
            )
        self.extra = (0,) * rank  # places that ceil_mode adds after the padding
        if c.attrs.get("ceil_mode", 0):
            more = [self._ceil(c, n, i) for i, n in enumerate(spatial)]
            self.high = tuple(h + m for h, m in zip(self.high, more, strict=True))
            self.extra = tuple(more)

    def reach(self, i: int) -> int:
        """Places that a window spans."""
        return (self.kernel[i] - 1) * self.dilations[i] + 1

    def _same(self, c: Context, n: Dim, i: int) -> int:
        stride = self.strides[i]
        if stride == 1:
            return self.reach(i) - 1
        if not isinstance(n, int):
            raise c.bad(f"auto_pad over the size {dims.text(n)} in steps of {stride}", "pads")
        return max((-(-n // stride) - 1) * stride + self.reach(i) - n, 0)

    def _ceil(self, c: Context, n: Dim, i: int) -> int:
        stride = self.strides[i]
        if stride == 1:
            return 0
        if not isinstance(n, int):
            raise c.bad(f"ceil_mode over the size {dims.text(n)}", "ceil_mode = 0")
        padded = n + self.low[i] + self.high[i]
        count = -(-(padded - self.reach(i)) // stride) + 1
        if (count - 1) * stride >= n + self.low[i]:
            count -= 1  # no window starts in the padding after the end
        return max((count - 1) * stride + self.reach(i) - padded, 0)

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
    for i, n in enumerate(spatial):
        count = (n + w.low[i] + w.high[i] - w.reach(i)) // w.strides[i] + 1
        counts.append(max(count, 0))
        at = np.arange(counts[-1])[:, None] * w.strides[i] - w.low[i]
        at = at + np.arange(w.kernel[i]) * w.dilations[i]
        spread = [1] * 2 * rank
        spread[i], spread[rank + i] = at.shape
        flat = flat * n + at.reshape(spread)
        valid = valid & ((at >= 0) & (at < n)).reshape(spread)
    windows, taps = math.prod(counts), math.prod(w.kernel)
    return np.where(valid, flat, -1).reshape(windows, taps), tuple(counts)
