"""Transposed convolution, pooling with places, and the ways back from windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.padding import Windows, number, places, settled, static
from didyma.onnx.rules.products import rescaled
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import exact_quotient
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value
from didyma.refimpl.ops.rules import at_least_zero
from didyma.refimpl.ops.transposed import conv_transpose, fit


def _conv_transpose(c: Context, x: Inputs) -> Sequence[Operand]:
    v, w, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    kernel = static(c, w.type.shape[2:], "weights")
    rank = len(kernel)
    strides = tuple(c.attrs.get("strides", (1,) * rank))
    dilations = tuple(c.attrs.get("dilations", (1,) * rank))
    extra = tuple(c.attrs.get("output_padding", (0,) * rank))
    pads = tuple(c.attrs.get("pads", (0,) * 2 * rank))
    groups = c.integer("group", 1)
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    low, high = list(pads[:rank]), list(pads[rank:])
    auto = c.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    wanted = c.attrs.get("output_shape")
    if wanted is not None or auto.startswith("SAME"):
        for i, n in enumerate(v.type.shape[2:]):
            total = extra[i] + reach[i] + 1 - strides[i]
            if wanted is None:
                total = max(total, 0)
            else:
                (n,) = static(c, (n,), "output_shape")
                total += strides[i] * n - wanted[-rank:][i]
            small = total // 2
            low[i], high[i] = (
                (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
            )
    inputs, _ = static(c, w.type.shape[:2], "weights")
    c.expect_size(v, 1, inputs)
    y = conv_transpose(c, v, w, strides, dilations, low, high, extra, groups)
    return [y if bias is None else _biased(c, y, bias)]


def _biased(c: Context, y: Value, bias: Value) -> Value:
    return c.emit("add", y, c.reshape(bias, bias.type.shape[0], *[1] * (y.type.rank - 2)))


def _shifted(c: Context, v: Value, zero: Value | None, axis: int) -> Value:
    wide = c.cast(v, DType.I32)
    if zero is None:
        return wide
    z = c.cast(zero, DType.I32)
    spread = (z.type.numel if i == axis else 1 for i in range(v.type.rank))
    return c.emit("subtract", wide, c.reshape(z) if z.type.numel == 1 else c.reshape(z, *spread))


def _integer_conv(c: Context, v: Value, w: Value) -> Value:
    windows = Windows(c, v.type.shape[2:], static(c, w.type.shape[2:], "weights"))
    groups = c.integer("group", 1)
    c.expect_size(v, 1, dims.mul(w.type.shape[1], groups))
    return windows.emit(c, "conv", v, w, groups=groups)


def _conv_integer(c: Context, x: Inputs) -> Sequence[Operand]:
    v = _shifted(c, c.operand(x, 0), c.optional(x, 2), 1)
    return [_integer_conv(c, v, _shifted(c, c.operand(x, 1), c.optional(x, 3), 0))]


def _qlinear_conv(c: Context, x: Inputs) -> Sequence[Operand]:
    v, v_scale, v_zero, w, w_scale, w_zero, scale, zero = (c.operand(x, i) for i in range(8))
    total = _integer_conv(c, _shifted(c, v, v_zero, 1), _shifted(c, w, w_zero, 0))
    if (bias := c.optional(x, 8)) is not None:
        total = _biased(c, total, bias)
    slope = c.emit("divide", c.emit("multiply", c.reshape(v_scale), w_scale), c.reshape(scale))
    if slope.type.numel == 1:
        slope = c.reshape(slope)
    else:
        slope = c.reshape(slope, slope.type.shape[0], *[1] * (v.type.rank - 2))
    return [rescaled(c, total, slope, c.reshape(zero))]


def max_pool_places(c: Context, v: Value, w: Windows) -> tuple[Value, Value]:
    """Maxima of windows and their places in the whole operand."""
    batch, channels, *spatial = v.type.shape
    counts, rank, size = w.counts(spatial), len(spatial), dims.mul(*spatial)
    table = places(c, spatial, w)
    lowest = -np.inf if v.type.dtype.is_float else np.iinfo(v.type.dtype.numpy).min
    flat = c.reshape(v, batch, channels, size)
    taken = c.emit("gather", flat, settled(c, c.emit("maximum", table, 0)), axis=2)
    inside = settled(c, c.emit("greater_equal", table, 0))
    taken = c.emit("where", inside, taken, c.scalar(float(lowest), v))
    best = c.emit("argmax", taken, axis=3, keepdims=True)
    values = c.reshape(c.emit("gather_elements", taken, best, axis=3), batch, channels, *counts)
    if c.integer("storage_order") and rank > 1:  # the last axis but one varies fastest
        table = places(c, spatial, w, (*range(rank - 2), rank - 1, rank - 2))
    named = c.emit("broadcast_to", settled(c, table), shape=taken.type.shape)
    planes = dims.mul(batch, channels)
    place = c.reshape(c.emit("gather_elements", named, best, axis=3), planes, *counts)
    plane = c.emit("multiply", c.iota(planes, rank=rank + 1), number(c, size))
    return values, c.reshape(c.emit("add", place, plane), batch, channels, *counts)


def _max_unpool(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    kernel = tuple(c.attrs["kernel_shape"])
    shape, rank = v.type.shape, len(kernel)
    strides = tuple(c.attrs.get("strides", (1,) * rank))
    pads = tuple(c.attrs.get("pads", (0,) * 2 * rank))
    grown = (
        at_least_zero(dims.add(dims.mul(n, s), k - s - pads[i] - pads[rank + i]))
        for i, (n, s, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    )
    natural = (*shape[:2], *grown)
    given = c.optional_input(x, 2)
    wanted = c.sizes(given) if given is not None else natural
    count = dims.mul(*shape)
    zeros = c.emit("broadcast_to", c.scalar(0, v), shape=(dims.mul(*natural),))
    y = c.emit(
        "scatter", zeros, c.reshape(at, count), c.reshape(v, count), axis=0, reduction="none"
    )
    y = c.reshape(y, *natural)
    if wanted != natural:
        high = tuple(dims.sub(a, b) for a, b in zip(wanted, natural, strict=True))
        y = fit(c, y, (0,) * len(shape), high)
    return [y]


def _col2im(c: Context, x: Inputs) -> Sequence[Operand]:
    """Add each window's places up where they came from."""
    v = c.operand(x, 0)
    image, block = c.sizes(c.input(x, 1)), c.ints(c.input(x, 2))
    w = Windows(c, image, block)
    batch, rows, windows = v.type.shape
    counts, taps, size = dims.mul(*w.counts(image)), math.prod(block), dims.mul(*image)
    channels = exact_quotient(rows, max(taps, 1))
    if not dims.equal(windows, counts) or channels is None:
        got = f"{v.type} for {dims.text(counts)} windows of {taps}"
        known = all(isinstance(d, int) for d in (windows, counts, rows))
        raise (c.broken if known else c.error)(got, "one column a window")
    table = c.emit("permute_dims", places(c, image, w), axes=(1, 0))
    dropped = c.emit("where", c.emit("less", table, 0), number(c, size), table)  # out of range
    planes, places_ = dims.mul(batch, channels), dims.mul(taps, windows)
    at = settled(c, c.reshape(dropped, 1, places_))
    spread = c.emit("broadcast_to", at, shape=(planes, places_))
    zeros = c.emit("broadcast_to", c.scalar(0, v), shape=(planes, size))
    updates = c.reshape(v, planes, places_)
    y = c.emit("scatter", zeros, spread, updates, axis=1, reduction="add")
    return [c.reshape(y, batch, channels, *image)]


def _lp_pool(c: Context, x: Inputs) -> Sequence[Operand]:
    """Root of the sum of powers in each window: a convolution with ones, a channel at a time."""
    v = c.operand(x, 0)
    p = c.integer("p", 2)
    kernel = tuple(c.attrs["kernel_shape"])
    w = Windows(c, v.type.shape[2:], kernel)
    size = c.emit("abs", v)
    powers = c.emit("square", v) if p == 2 else size if p == 1 else c.emit("pow", size, p)
    shape = powers.type.shape
    planes = c.reshape(powers, dims.mul(shape[0], shape[1]), 1, *shape[2:])
    c.check_count("places in a window", *kernel)
    ones = c.constant(np.ones((1, 1, *kernel), v.type.dtype.numpy))
    total = w.emit(c, "conv", planes, ones, groups=1)
    total = c.reshape(total, shape[0], shape[1], *total.type.shape[2:])
    return [_root(c, total, p)]


def _root(c: Context, v: Value, p: int) -> Value:
    return c.emit("sqrt", v) if p == 2 else v if p == 1 else c.emit("pow", v, 1 / p)


def _global_lp_pool(c: Context, x: Inputs) -> Sequence[Operand]:
    v, p = c.operand(x, 0), c.integer("p", 2)
    axes = tuple(range(2, v.type.rank))
    size = c.emit("abs", v)
    powers = c.emit("square", v) if p == 2 else size if p == 1 else c.emit("pow", size, p)
    return [_root(c, c.emit("sum", powers, axes=axes, keepdims=True), p)]


HANDLERS: dict[str, Handler] = {
    "ConvTranspose": _conv_transpose,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "MaxUnpool": _max_unpool,
    "Col2Im": _col2im,
    "LpPool": _lp_pool,
    "GlobalLpPool": _global_lp_pool,
}
