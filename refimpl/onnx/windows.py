"""Convolution and pooling: ONNX's ways to say how windows are padded, made explicit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.onnx.context import Context
from refimpl.onnx.values import Item
from refimpl.ops.builder import Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item]]


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
        auto = c.attrs.get("auto_pad", "NOTSET")
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = [self._same(c, n, i) for i, n in enumerate(spatial)]
            small, large = [t // 2 for t in total], [t - t // 2 for t in total]
            upper = auto == "SAME_UPPER"
            self.low, self.high = (
                (tuple(small), tuple(large)) if upper else (tuple(large), tuple(small))
            )
        if c.attrs.get("ceil_mode", 0):
            more = [self._ceil(c, n, i) for i, n in enumerate(spatial)]
            self.high = tuple(h + m for h, m in zip(self.high, more, strict=True))
            self.grown = any(more)
        else:
            self.grown = False

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


def _conv(c: Context, x: Inputs) -> Sequence[Item]:
    v, w, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    kernel = [d for d in w.type.shape[2:] if isinstance(d, int)]
    windows = Windows(c, v.type.shape[2:], kernel)
    y = windows.emit(c, "conv", v, w, groups=c.integer("group", 1))
    if bias is not None:
        spread = (*bias.type.shape, *(1 for _ in kernel))
        y = c.emit("add", y, c.builder("reshape", [bias], shape=spread))
    return [y]


def _pool(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
        v = c.operand(x, 0)
        windows = Windows(c, v.type.shape[2:], tuple(c.attrs["kernel_shape"]))
        attrs: dict[str, bool] = {}
        if op == "avg_pool":
            attrs["count_include_pad"] = c.flag("count_include_pad")
            if attrs["count_include_pad"] and windows.grown:
                raise c.bad("count_include_pad with ceil_mode", "one of the two")
        elif len([o for o in c.outputs if o]) > 1:
            raise c.bad("the output Indices", "the pooled values alone")
        return [
            c.emit(
                op, v, window=windows.kernel, strides=windows.strides,
                dilations=windows.dilations, low=windows.low, high=windows.high, **attrs,
            )
        ]  # fmt: skip

    return run


def _global(op: str) -> Handler:
    def run(c: Context, x: Inputs) -> Sequence[Item]:
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
