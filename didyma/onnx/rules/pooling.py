"""Pooling, and the ways back from windows: MaxUnpool and Col2Im."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from didyma.composites.builder import Value
from didyma.composites.transposed import fit
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.padding import (
    Windows,
    folded_if_constant,
    size_scalar,
    window_indices,
)
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import exact_quotient
from didyma.refimpl.ops.rules import at_least_zero


def _counted(c: Context, v: Value, w: Windows) -> Value:
    """Return the mean that counts the padding, but not what ``ceil_mode`` adds beyond it.

    So the padding is made part of the operand.
    """
    counted = [dims.sub(h, e) for h, e in zip(w.high, w.extra, strict=True)]
    low, high = (0, 0, *w.low), (0, 0, *counted)
    v = c.emit("pad", v, c.scalar(0, v), low=low, high=high, mode="constant")
    return c.emit(
        "avg_pool", v, window=w.kernel, strides=w.strides, dilations=w.dilations,
        low=(0,) * len(w.low), high=w.extra, count_include_pad=False,
    )  # fmt: skip


def _pool(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        windows = Windows(c, v.type.shape[2:], tuple(c.attrs["kernel_shape"]))
        attrs: dict[str, bool] = {}
        if op == "avg_pool":
            attrs["count_include_pad"] = c.flag("count_include_pad")
            if attrs["count_include_pad"] and any(e != 0 for e in windows.extra):
                return [_counted(c, v, windows)]
        elif c.uses_output(1):
            return list(_max_pool_indices(c, v, windows))
        return [
            c.emit(
                op, v, window=windows.kernel, strides=windows.strides,
                dilations=windows.dilations, low=windows.low, high=windows.high, **attrs,
            )
        ]  # fmt: skip

    return run


def _global(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Operand]:
        v = c.operand(x, 0)
        return [c.emit(op, v, axes=tuple(range(2, v.type.rank)), keepdims=True)]

    return run


def _max_pool_indices(c: Context, v: Value, w: Windows) -> tuple[Value, Value]:
    """Return the maxima of windows and their flat indices in the operand."""
    batch, channels, *spatial = v.type.shape
    counts, rank, size = w.counts(spatial), len(spatial), dims.mul(*spatial)
    table = window_indices(c, spatial, w)
    lowest = -np.inf if v.type.dtype.is_float else np.iinfo(v.type.dtype.numpy).min
    flat = c.reshape(v, batch, channels, size)
    taken = c.emit("gather", flat, folded_if_constant(c, c.emit("maximum", table, 0)), axis=2)
    inside = folded_if_constant(c, c.emit("greater_equal", table, 0))
    taken = c.emit("where", inside, taken, c.scalar(float(lowest), v))
    best = c.emit("argmax", taken, axis=3, keepdims=True)
    values = c.reshape(c.emit("gather_elements", taken, best, axis=3), batch, channels, *counts)
    if c.integer("storage_order") and rank > 1:  # the second to last axis varies fastest
        table = window_indices(c, spatial, w, (*range(rank - 2), rank - 1, rank - 2))
    indices = c.emit("broadcast_to", folded_if_constant(c, table), shape=taken.type.shape)
    planes = dims.mul(batch, channels)
    index = c.reshape(c.emit("gather_elements", indices, best, axis=3), planes, *counts)
    plane = c.emit("multiply", c.iota(planes, rank=rank + 1), size_scalar(c, size))
    return values, c.reshape(c.emit("add", index, plane), batch, channels, *counts)


def _max_unpool(c: Context, x: Inputs) -> Sequence[Operand]:
    v, at = c.operand(x, 0), c.operand(x, 1)
    kernel = tuple(c.attrs["kernel_shape"])
    shape, rank = v.type.shape, len(kernel)
    strides = tuple(c.attrs.get("strides", (1,) * rank))
    pads = tuple(c.attrs.get("pads", (0,) * 2 * rank))
    outs = (
        at_least_zero(dims.add(dims.mul(n, s), k - s - pads[i] - pads[rank + i]))
        for i, (n, s, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    )
    natural = (*shape[:2], *outs)
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
    """Import ``Col2Im``: add the elements of each window where they came from."""
    v = c.operand(x, 0)
    image, block = c.sizes(c.input(x, 1)), c.ints(c.input(x, 2))
    w = Windows(c, image, block)
    batch, rows, windows = v.type.shape
    counts, taps, size = dims.mul(*w.counts(image)), math.prod(block), dims.mul(*image)
    channels = exact_quotient(rows, max(taps, 1))
    if not dims.equal(windows, counts) or channels is None:
        got = f"{v.type} for {dims.text(counts)} windows of {taps}"
        static = all(isinstance(d, int) for d in (windows, counts, rows))
        raise (c.broken if static else c.error)(got, "one column for each window")
    table = c.emit("permute_dims", window_indices(c, image, w), axes=(1, 0))
    # an index out of range makes scatter drop the padding
    dropped = c.emit("where", c.emit("less", table, 0), size_scalar(c, size), table)
    planes, count = dims.mul(batch, channels), dims.mul(taps, windows)
    at = folded_if_constant(c, c.reshape(dropped, 1, count))
    positions = c.emit("broadcast_to", at, shape=(planes, count))
    zeros = c.emit("broadcast_to", c.scalar(0, v), shape=(planes, size))
    updates = c.reshape(v, planes, count)
    y = c.emit("scatter", zeros, positions, updates, axis=1, reduction="add")
    return [c.reshape(y, batch, channels, *image)]


def _lp_pool(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``LpPool``: roots of the sums of powers in windows, by a convolution with ones."""
    v = c.operand(x, 0)
    p = c.integer("p", 2)
    kernel = tuple(c.attrs["kernel_shape"])
    w = Windows(c, v.type.shape[2:], kernel)
    powers = _powers(c, v, p)
    shape = powers.type.shape
    planes = c.reshape(powers, dims.mul(shape[0], shape[1]), 1, *shape[2:])
    c.check_count("elements in a window", *kernel)
    ones = c.constant(np.ones((1, 1, *kernel), v.type.dtype.numpy))
    total = w.emit(c, "conv", planes, ones, groups=1)
    total = c.reshape(total, shape[0], shape[1], *total.type.shape[2:])
    return [_root(c, total, p)]


def _powers(c: Context, v: Value, p: int) -> Value:
    size = c.emit("abs", v)
    return c.emit("square", v) if p == 2 else size if p == 1 else c.emit("pow", size, p)


def _root(c: Context, v: Value, p: int) -> Value:
    return c.emit("sqrt", v) if p == 2 else v if p == 1 else c.emit("pow", v, 1 / p)


def _global_lp_pool(c: Context, x: Inputs) -> Sequence[Operand]:
    v, p = c.operand(x, 0), c.integer("p", 2)
    axes = tuple(range(2, v.type.rank))
    powers = _powers(c, v, p)
    return [_root(c, c.emit("sum", powers, axes=axes, keepdims=True), p)]


HANDLERS: dict[str, Handler] = {
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("avg_pool"),
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("mean"),
    "LpPool": _lp_pool,
    "GlobalLpPool": _global_lp_pool,
    "MaxUnpool": _max_unpool,
    "Col2Im": _col2im,
}
