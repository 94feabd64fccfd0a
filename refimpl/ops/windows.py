"""Sliding windows: what convolution and pooling share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import Array, Shape, TensorType
from didyma.refimpl.ops.attributes import Ints, attributes, integers, sizes
from didyma.refimpl.ops.choose import pick
from didyma.refimpl.ops.rules import at_least_zero, check_lengths, concrete, shape_error
from didyma.refimpl.ops.spec import Chooser, Index


@attributes
class Sliding:
    """How a window slides over the spatial axes, which come after batch and channel."""

    strides: Ints = integers("distance of neighbouring windows on each spatial axis", least=1)
    dilations: Ints = integers("distance of neighbouring places in a window", least=1)
    low: Shape = sizes("places of padding before the first, on each spatial axis")
    high: Shape = sizes("places of padding after the last, on each spatial axis")


@attributes
class SlidingWindow(Sliding):
    """A window and how it slides over the spatial axes."""

    window: Ints = integers("places in a window, on each spatial axis", least=1)

    def slide(self, op: str, types: Sequence[TensorType]) -> Shape:
        """Return how many windows the first operand has on each axis.

        Errors: ``shape-mismatch`` for an operand without spatial axes, ``bad-attr`` for attributes
        that have not a number for each of them.
        """
        t = types[0]
        if t.rank < 3:
            raise shape_error(
                op, types, f"rank {t.rank}", "batch, channel and at least one spatial axis"
            )
        check_lengths(
            op, t.rank - 2, window=self.window, strides=self.strides, dilations=self.dilations,
            low=self.low, high=self.high,
        )  # fmt: skip
        return self.sizes(t.shape[2:])

    def borders(self) -> list[tuple[int, int]]:
        """Return the padding before and after each axis, which must not be symbolic."""
        return [
            (low, high)
            for low, high in zip(self.low, self.high, strict=True)
            if isinstance(low, int) and isinstance(high, int)
        ]

    def sizes(self, spatial: Shape) -> Shape:
        """Return how many windows fit on each axis: 0 where not even one does."""
        out: list[Dim] = []
        for axis, n in enumerate(spatial):
            reach = self.dilations[axis] * (self.window[axis] - 1) + 1
            stride = self.strides[axis]
            room = dims.add(n, self.low[axis], self.high[axis], stride - reach)
            out.append(at_least_zero(dims.floordiv(room, stride)))
        return tuple(out)

    def position(self, axis: int, o: Expr, k: Expr) -> Expr:
        """Return the operand position of position k of window o."""
        far = ex.mul(o, ex.index(self.strides[axis]))
        near = ex.mul(k, ex.index(self.dilations[axis]))
        return ex.add(far, near, ex.of_dim(dims.sub(0, self.low[axis])))

    def guards(self, at: Index, spatial: Shape) -> list[Expr]:
        """Return the conditions under which positions lie inside the operand."""
        found: list[Expr] = []
        for axis, (p, n) in enumerate(zip(at, spatial, strict=True)):
            if self.low[axis] != 0:
                found.append(ex.compare("ge", p, ex.ZERO))
            if self.high[axis] != 0:
                found.append(ex.compare("lt", p, ex.of_dim(n)))
        return found

    def inside(self, axis: int, o: Expr, n: Dim) -> Expr:
        """Return how many positions of window o lie inside the operand."""
        low, step = self.low[axis], ex.index(self.dilations[axis])
        if low == 0 and self.high[axis] == 0:
            return ex.index(self.window[axis])
        first = ex.sub(ex.of_dim(low), ex.mul(o, ex.index(self.strides[axis])))
        begin = ex.ceildiv(ex.maximum(first, ex.ZERO), step)
        # rounds down also below zero, and so rounds up what it should
        end = ex.ceildiv(ex.add(first, ex.of_dim(n)), step)
        return ex.maximum(ex.sub(ex.minimum(end, ex.index(self.window[axis])), begin), ex.ZERO)


def bordered(x: Array, f: SlidingWindow, fill: float) -> Array:
    """Return an operand with its padding."""
    if not any(any(b) for b in f.borders()):
        return x
    spatial = [(low, n, high) for (low, high), n in zip(f.borders(), x.shape[2:], strict=True)]
    out = np.empty((*x.shape[:2], *(low + n + high for low, n, high in spatial)), x.dtype)
    out.fill(fill)
    out[(slice(None), slice(None), *(slice(low, low + n) for low, n, _ in spatial))] = x
    return out


def counts(x: Array, f: SlidingWindow) -> tuple[int, ...]:
    """Return how many windows fit on each spatial axis of a padded operand."""
    none = (0,) * len(f.window)
    return concrete(replace(f, low=none, high=none).sizes(x.shape[2:]))


def _view(x: Array, f: SlidingWindow) -> Array:
    """Return a view [batch, channel, windows..., positions in a window...] of a padded operand."""
    shape = (*x.shape[:2], *counts(x, f), *f.window)
    if 0 in shape:
        return np.empty(shape, x.dtype)
    far = (n * s for n, s in zip(x.strides[2:], f.strides, strict=True))
    near = (n * d for n, d in zip(x.strides[2:], f.dilations, strict=True))
    return as_strided(x, shape, (*x.strides[:2], *far, *near), writeable=False)


def window_elements(x: Array, f: SlidingWindow) -> Array:
    """Return the windows of a padded operand: [batch, channel, windows..., all positions]."""
    view = _view(x, f)
    return view.reshape(*view.shape[: x.ndim], math.prod(f.window))


def gathered(x: Array, f: SlidingWindow) -> Array:
    """Return the windows of a padded operand: [batch, channel, all positions, windows...]."""
    view = _view(x, f)
    out = view.shape[2 : x.ndim]
    axes = (0, 1, *range(x.ndim, view.ndim), *range(2, x.ndim))
    return view.transpose(axes).reshape(*x.shape[:2], math.prod(f.window), *out)


def stripes(x: Array, f: SlidingWindow, most: int) -> Iterator[tuple[slice, Array]]:
    """Split a padded operand along its first spatial axis, so that windows are gathered in parts.

    Yields a range of windows on that axis and the part of the operand that they cover: as many
    windows as take at most ``most`` bytes when gathered, and at least one.
    """
    first, *others = counts(x, f)
    each = math.prod((*x.shape[:2], *f.window, *others)) * x.itemsize
    height = max(1, most // max(1, each))
    reach = f.dilations[0] * (f.window[0] - 1) + 1
    for start in range(0, first, height):
        stop = min(start + height, first)
        low, high = start * f.strides[0], (stop - 1) * f.strides[0] + reach
        yield slice(start, stop), x[:, :, low:high]


def slid(x: Array, f: SlidingWindow, fold: np.ufunc) -> Array:
    """Fold each window of a padded operand, axis after axis: [batch, channel, windows...]."""
    for axis, count in enumerate(counts(x, f)):
        span = max(0, (count - 1) * f.strides[axis] + 1)
        before = (slice(None),) * (2 + axis)
        total: Array | None = None
        for k in range(f.window[axis]):
            start = k * f.dilations[axis]
            part = x[(*before, slice(start, start + span, f.strides[axis]))]
            total = part.copy() if total is None else fold(total, part, out=total)
        assert total is not None, "a window has at least one place"
        x = total
    return x


def choose_windows(
    ch: Chooser, spatial: Shape, window: tuple[int, ...] | None = None
) -> SlidingWindow:
    """Choose strides, dilations, padding, and a window that mostly fits."""
    chosen: list[tuple[int, int, int, Dim, Dim]] = []
    for axis, n in enumerate(spatial):
        low, high = pick(ch, (0, 1, 2, 0)), pick(ch, (0, 1, 0, 3))
        dilation = pick(ch, (1, 1, 2, 3))
        w = pick(ch, (2, 3, 1, 4)) if window is None else window[axis]
        if isinstance(n, int):
            room = n + low + high
            if window is None:
                w = max(1, min(w, room))
            if dilation * (w - 1) + 1 > room and ch.below(16) < 15:
                dilation = 1
        stride = pick(ch, (1, 2, 1, 3))
        fitted: Dim = high
        if not isinstance(n, int) and ch.below(4) == 3:  # up to a multiple of the stride
            fitted = dims.add(dims.sub(dims.align(n, stride), n), high)
        chosen.append((w, stride, dilation, low, fitted))
    window, strides, dilations, lows, highs = zip(*chosen, strict=True)
    return SlidingWindow(strides, dilations, lows, highs, window)


def sliding_attrs(f: SlidingWindow) -> dict[str, Shape]:
    """Return the attributes of windows without the window itself."""
    return {"strides": f.strides, "dilations": f.dilations, "low": f.low, "high": f.high}
