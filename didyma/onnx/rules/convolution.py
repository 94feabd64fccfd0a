"""Convolutions, transposed and of quantised numbers too."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.composites.transposed import conv_transpose
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.padding import (
    Windows,
    static_sizes,
)
from didyma.onnx.rules.products import rescaled, shifted
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims


def _conv(c: Context, x: Inputs) -> Sequence[Operand]:
    v, w, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    kernel = [d for d in w.type.shape[2:] if isinstance(d, int)]
    if "kernel_shape" in c.attrs and list(c.attrs["kernel_shape"]) != kernel:
        raise c.broken(f"kernel_shape {list(c.attrs['kernel_shape'])}", f"{kernel}, the weights'")
    windows = Windows(c, v.type.shape[2:], kernel)
    groups = c.integer("group", 1)
    c.expect_size(v, 1, dims.mul(w.type.shape[1], groups))
    y = windows.emit(c, "conv", v, w, groups=groups)
    if bias is not None:
        channels = (*bias.type.shape, *(1 for _ in kernel))
        y = c.emit("add", y, c.builder("reshape", [bias], shape=channels))
    return [y]


def _conv_transpose(c: Context, x: Inputs) -> Sequence[Operand]:
    v, w, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    kernel = static_sizes(c, w.type.shape[2:], "weights")
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
                (n,) = static_sizes(c, (n,), "output_shape")
                total += strides[i] * n - wanted[-rank:][i]
            small = total // 2
            low[i], high[i] = (
                (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
            )
    inputs, _ = static_sizes(c, w.type.shape[:2], "weights")
    c.expect_size(v, 1, inputs)
    y = conv_transpose(c, v, w, strides, dilations, low, high, extra, groups)
    return [y if bias is None else _biased(c, y, bias)]


def _biased(c: Context, y: Value, bias: Value) -> Value:
    return c.emit("add", y, c.reshape(bias, bias.type.shape[0], *[1] * (y.type.rank - 2)))


def _integer_conv(c: Context, v: Value, w: Value) -> Value:
    windows = Windows(c, v.type.shape[2:], static_sizes(c, w.type.shape[2:], "weights"))
    groups = c.integer("group", 1)
    c.expect_size(v, 1, dims.mul(w.type.shape[1], groups))
    return windows.emit(c, "conv", v, w, groups=groups)


def _conv_integer(c: Context, x: Inputs) -> Sequence[Operand]:
    v = shifted(c, c.operand(x, 0), c.optional(x, 2), 1)
    return [_integer_conv(c, v, shifted(c, c.operand(x, 1), c.optional(x, 3), 0))]


def _qlinear_conv(c: Context, x: Inputs) -> Sequence[Operand]:
    v, v_scale, v_zero, w, w_scale, w_zero, scale, zero = (c.operand(x, i) for i in range(8))
    total = _integer_conv(c, shifted(c, v, v_zero, 1), shifted(c, w, w_zero, 0))
    if (bias := c.optional(x, 8)) is not None:
        total = _biased(c, total, bias)
    slope = c.emit("divide", c.emit("multiply", c.reshape(v_scale), w_scale), c.reshape(scale))
    if slope.type.numel == 1:
        slope = c.reshape(slope)
    else:
        slope = c.reshape(slope, slope.type.shape[0], *[1] * (v.type.rank - 2))
    return [rescaled(c, total, slope, c.reshape(zero))]


HANDLERS: dict[str, Handler] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
}
