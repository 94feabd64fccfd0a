"""RoiAlign and DeformConv, which sample their operand at given coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.interpolation import Axis, numbered, sample
from didyma.onnx.rules.padding import Windows, static_sizes
from didyma.onnx.rules.shaping import join
from didyma.onnx.rules.slicing import cut
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType


def _column(c: Context, v: Value, k: int) -> Value:
    """Return a column of a matrix as [rows, 1]."""
    return cut(c, v, 1, k, k + 1)


def _along(c: Context, start: Value, size: Value, out: int, ratio: int) -> Value:
    """Return the coordinates [regions, out * ratio] of the samples along one axis."""
    steps = (np.arange(out)[:, None] + (np.arange(ratio) + 0.5) / ratio).reshape(1, -1) / out
    fractions = c.constant(steps.astype(start.type.dtype.numpy))
    return c.emit("add", c.emit("multiply", size, fractions), start)


def _roi_align(c: Context, x: Inputs) -> Sequence[Operand]:
    v, rois, batch = c.operand(x, 0), c.operand(x, 1), c.operand(x, 2)
    height, width = v.type.shape[2:]
    out = c.integer("output_height", 1), c.integer("output_width", 1)
    ratio = c.integer("sampling_ratio")
    if ratio < 1 or min(out) < 1:
        raise c.error(f"sampling_ratio {ratio}, which depends on the regions", "one of at least 1")
    c.check_count("samples of a region", *out, ratio, ratio)
    default = "half_pixel" if c.opset >= 16 else "output_half_pixel"
    way = c.choice("coordinate_transformation_mode", default, "half_pixel", "output_half_pixel")
    aligned = way == "half_pixel"
    edges = c.emit("multiply", rois, c.real("spatial_scale", 1.0))
    edges = c.emit("subtract", edges, 0.5) if aligned else edges
    at: list[Value] = []
    for k, o in ((1, out[0]), (0, out[1])):
        start = _column(c, edges, k)
        size = c.emit("subtract", _column(c, edges, k + 2), start)
        at.append(_along(c, start, size if aligned else c.emit("maximum", size, 1), o, ratio))
    return [_pooled(c, v, at, c.cast(batch, DType.I64), out, ratio, (height, width))]


def _pooled(
    c: Context, v: Value, at: Sequence[Value], batch: Value, out: tuple[int, int], ratio: int,
    size: tuple[Dim, Dim],
) -> Value:  # fmt: skip
    """Return the mean, or maximum, over the samples of each bin."""
    rois, channels = at[0].type.shape[0], v.type.shape[1]
    rows, columns = out[0] * ratio, out[1] * ratio
    spread = [
        c.reshape(c.emit("broadcast_to", c.reshape(a, rois, *own), shape=(rois, rows, columns)),
                  rois, rows * columns)
        for a, own in zip(at, ((rows, 1), (1, columns)), strict=True)
    ]  # fmt: skip
    inside: Value | None = None
    for a, n in zip(spread, size, strict=True):
        own = c.emit(
            "logical_and",
            c.emit("greater_equal", a, -1),
            c.emit("less_equal", a, numbered(c, n, a)),
        )
        inside = own if inside is None else c.emit("logical_and", inside, own)
    assert inside is not None
    axes = [Axis(n, "border") for n in size]
    maps = c.emit("gather", v, batch, axis=0)
    best = c.choice("mode", "avg", "max") == "max"
    # ONNX takes the maximum over the weighted neighbours of the samples.
    parts = sample(c, maps, axes, spread, "linear", apart=True)
    mask = c.reshape(inside, rois, 1, rows * columns)
    total = parts[0]
    for p in parts[1:]:
        total = c.emit("maximum" if best else "add", total, p)
    total = c.emit("where", mask, total, c.scalar(0, total))
    bins = c.reshape(total, rois, channels, out[0], ratio, out[1], ratio)
    return c.emit("max" if best else "mean", bins, axes=(3, 5), keepdims=False)


def _deform_conv(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``DeformConv``: sample a column for every tap, then multiply with the weights."""
    v, w, offset = c.operand(x, 0), c.operand(x, 1), c.operand(x, 2)
    bias, mask = c.optional(x, 3), c.optional(x, 4)
    batch, height, width = v.type.shape[0], v.type.shape[2], v.type.shape[3]
    (channels,) = static_sizes(c, v.type.shape[1:2], "channels")
    outputs, each, *kernel = static_sizes(c, w.type.shape, "weights")
    win = Windows(c, (height, width), kernel)
    before = static_sizes(c, win.low, "padding")
    groups, shifts = c.integer("group", 1), c.integer("offset_group", 1)
    out = offset.type.shape[2:]
    taps, positions = kernel[0] * kernel[1], dims.mul(*out)
    moves = c.reshape(offset, batch, shifts, taps, 2, positions)
    share = channels // shifts
    rows: list[Value] = []
    for g, (t, tap) in product(range(shifts), enumerate(np.ndindex(*kernel))):
        at: list[Value] = []
        for i in range(2):
            move = c.reshape(
                cut(c, cut(c, cut(c, moves, 1, g, g + 1), 2, t, t + 1), 3, i, i + 1),
                batch, positions,
            )  # fmt: skip
            base = c.emit("multiply", c.iota(out[i], rank=2, axis=i), win.strides[i])
            base = c.emit("add", base, tap[i] * win.dilations[i] - before[i])
            grid = c.cast(c.emit("broadcast_to", base, shape=out), v.type.dtype)
            at.append(c.emit("add", move, c.reshape(grid, 1, positions)))
        own = cut(c, v, 1, g * share, (g + 1) * share)
        axes = [Axis(n, "zeros") for n in (height, width)]
        (taken,) = sample(c, own, axes, at, "linear")
        if mask is not None:
            weights = c.reshape(mask, batch, shifts, taps, positions)
            factor = cut(c, cut(c, weights, 1, g, g + 1), 2, t, t + 1)
            taken = c.emit("multiply", taken, c.reshape(factor, batch, 1, positions))
        rows.append(c.reshape(taken, batch, share, 1, positions))
    columns = join(
        c, [join(c, rows[g * taps : (g + 1) * taps], 2) for g in range(shifts)], 1
    )  # batch, channel, tap, position
    split = c.reshape(columns, batch, groups, each * taps, positions)
    matrix = c.reshape(w, groups, outputs // groups, each * taps)
    y = c.reshape(c.emit("matmul", matrix, split), batch, outputs, *out)
    if bias is None:
        return [y]
    return [c.emit("add", y, c.reshape(bias, dims.mul(outputs), 1, 1))]


HANDLERS: dict[str, Handler] = {"RoiAlign": _roi_align, "DeformConv": _deform_conv}
