"""Convolution and pooling: ONNX's ways to say how windows are padded, made explicit."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.padding import Windows
from didyma.onnx.rules.pooling import max_pool_places
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ops.builder import Value


def _counted(c: Context, v: Value, w: Windows) -> Value:
    """Mean that counts the padding, but not what lies beyond it: it is made part of the operand."""
    counted = [dims.sub(h, e) for h, e in zip(w.high, w.extra, strict=True)]
    low, high = (0, 0, *w.low), (0, 0, *counted)
    v = c.emit("pad", v, c.scalar(0, v), low=low, high=high, mode="constant")
    return c.emit(
        "avg_pool", v, window=w.kernel, strides=w.strides, dilations=w.dilations,
        low=(0,) * len(w.low), high=w.extra, count_include_pad=False,
    )  # fmt: skip


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
        spread = (*bias.type.shape, *(1 for _ in kernel))
        y = c.emit("add", y, c.builder("reshape", [bias], shape=spread))
    return [y]


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
            return list(max_pool_places(c, v, windows))
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


HANDLERS: dict[str, Handler] = {
    "Conv": _conv,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("avg_pool"),
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("mean"),
}
