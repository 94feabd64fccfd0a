"""Convolution and pooling over the spatial axes of [batch, channels, ...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from didyma.composites import transposed
from didyma.functions.axes import composed, promoted, rank, shape
from didyma.functions.public import public, wrong
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ops.rules import at_least_zero
from didyma.tracer.tensor import Tensor, apply

Ints: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | Sequence[int] | Sequence[tuple[int, int]] | Literal["same", "valid"]


def _spatial(x: Tensor, name: str) -> int:
    if rank(x) < 3:
        raise wrong(f"dd.{name}", str(x.value.type), "[batch, channels, spatial, ...]",
                    "dd.expand_dims(x, 0) adds a batch")  # fmt: skip
    return rank(x) - 2


def _many(value: Ints, count: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Return one number for each spatial axis."""
    numbers = (value,) * count if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) != count or any(n < least for n in numbers):
        raise wrong(what, f"{value}", f"an int >= {least}, or one for each of {count} axes")
    return numbers


def _padding(
    padding: Padding,
    spatial: Sequence[Dim],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    name: str,
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Return the places put before and after each spatial axis."""
    count = len(spatial)
    if padding == "same":
        pairs = [_same(*four) for four in zip(spatial, kernel, stride, dilation, strict=True)]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    if isinstance(padding, str):
        return (0,) * count, (0,) * count
    if isinstance(padding, int) or all(isinstance(p, int) for p in padding):
        flat = [p for p in ((padding,) if isinstance(padding, int) else padding)
                if isinstance(p, int)]  # fmt: skip
        both = _many(flat[0] if len(flat) == 1 else flat, count, f"dd.{name}, padding=", 0)
        return both, both
    pairs_ = [p for p in padding if not isinstance(p, int)]
    if len(pairs_) != count or any(len(p) != 2 or min(p) < 0 for p in pairs_):
        want = f"'same', 'valid', an int, or an int or a pair for each of {count} axes"
        raise wrong(f"dd.{name}, padding=", f"{padding}", want)
    return tuple(p[0] for p in pairs_), tuple(p[1] for p in pairs_)


def _same(n: Dim, kernel: int, stride: int, dilation: int) -> tuple[Dim, Dim]:
    """Return padding with which there are ``ceil(n / stride)`` windows; an odd place goes last."""
    reach = (kernel - 1) * dilation + 1
    if stride == 1:
        total: Dim = reach - 1
    else:
        last = dims.mul(dims.sub(dims.ceildiv(n, stride), 1), stride)
        total = at_least_zero(dims.sub(dims.add(last, reach), n))
    half = dims.floordiv(total, 2)
    return half, dims.sub(total, half)


def _kernel(w: Tensor, count: int, name: str) -> tuple[int, ...]:
    sizes = tuple(n for n in shape(w) if isinstance(n, int))
    if rank(w) != count + 2 or len(sizes) != rank(w):
        want = f"rank {count + 2} as the operand's, of known sizes"
        raise wrong(f"dd.{name}", f"a weight of type {w.value.type}", want)
    return sizes[2:]


def _biased(y: Tensor, bias: Tensor | None, name: str) -> Tensor:
    if bias is None:
        return y
    if rank(bias) != 1:
        raise wrong(f"dd.{name}", f"a bias of type {bias.value.type}", "a vector, or None",
                    "stride, padding, dilation and groups follow the bias")  # fmt: skip
    spread = apply("reshape", bias, shape=(*shape(bias), *(1,) * (rank(y) - 2)))
    return apply("add", *promoted([y, spread]))


@public
def conv(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of [batch, channels, ...] with a weight [out, channels / groups, ...].

    Over one, two or more spatial axes.  ``stride`` and ``dilation`` are one number or one for each
    spatial axis; ``padding`` is that, a pair (before, after) for each, ``"same"`` or ``"valid"``.
    Dtypes are promoted.
    Example: ``dd.conv(x, w, b, stride=2, padding=1)``.
    Errors: ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    count = _spatial(x, "conv")
    x, weight = promoted([x, weight])
    kernel = _kernel(weight, count, "conv")
    strides = _many(stride, count, "dd.conv, stride=")
    dilations = _many(dilation, count, "dd.conv, dilation=")
    low, high = _padding(padding, shape(x)[2:], kernel, strides, dilations, "conv")
    y = apply("conv", x, weight, strides=strides, dilations=dilations, low=low, high=high,
              groups=groups)  # fmt: skip
    return _biased(y, bias, "conv")


@public
def conv_transpose(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """Transposed convolution of [batch, channels, ...], weight [channels, out / groups, ...].

    Parameters are those of PyTorch: ``padding`` is cut off both ends of the result, and
    ``output_padding`` put behind it.
    Example: ``dd.conv_transpose(x, w, stride=2, padding=1)``.
    Errors: ``bad-call``, ``shape-mismatch``, ``dtype-mismatch``.
    """
    count = _spatial(x, "conv_transpose")
    x, weight = promoted([x, weight])
    _kernel(weight, count, "conv_transpose")
    inputs, channels = shape(weight)[0], shape(x)[1]
    if groups < 1 or not isinstance(inputs, int) or inputs != channels or inputs % groups:
        got = f"{x.value.type}, a weight of type {weight.value.type} and {groups} groups"
        raise wrong("dd.conv_transpose", got, "a weight [channels, out / groups, ...]")
    name = "dd.conv_transpose"
    cut = _many(padding, count, f"{name}, padding=", 0)
    y = composed(
        transposed.conv_transpose,
        x,
        weight,
        _many(stride, count, f"{name}, stride="),
        _many(dilation, count, f"{name}, dilation="),
        cut,
        cut,
        _many(output_padding, count, f"{name}, output_padding=", 0),
        groups,
    )
    return _biased(y, bias, "conv_transpose")


@public
def max_pool(
    x: Tensor,
    /,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
) -> Tensor:
    """Largest element of each window over the spatial axes of [batch, channels, ...].

    ``stride`` is the size of the window if it is not given; padding never wins.  Parameters are
    those of ``dd.conv``.  Example: ``dd.max_pool(x, 3, stride=2, padding=1)``.
    Errors: ``bad-call``, ``dtype-mismatch``.
    """
    count = _spatial(x, "max_pool")
    kernel = _many(kernel_size, count, "dd.max_pool, kernel_size=")
    strides = kernel if stride is None else _many(stride, count, "dd.max_pool, stride=")
    dilations = _many(dilation, count, "dd.max_pool, dilation=")
    low, high = _padding(padding, shape(x)[2:], kernel, strides, dilations, "max_pool")
    return apply("max_pool", x, window=kernel, strides=strides, dilations=dilations, low=low,
                 high=high)  # fmt: skip


@public
def avg_pool(
    x: Tensor,
    /,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Padding = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window over the spatial axes of [batch, channels, ...].

    ``stride`` is the size of the window if it is not given; padding counts as zeros unless
    ``count_include_pad`` is false.  Example: ``dd.avg_pool(x, 2)``.
    Errors: ``bad-call``, ``dtype-mismatch``.
    """
    count = _spatial(x, "avg_pool")
    kernel = _many(kernel_size, count, "dd.avg_pool, kernel_size=")
    strides = kernel if stride is None else _many(stride, count, "dd.avg_pool, stride=")
    ones = (1,) * count
    low, high = _padding(padding, shape(x)[2:], kernel, strides, ones, "avg_pool")
    return apply("avg_pool", x, window=kernel, strides=strides, dilations=ones, low=low, high=high,
                 count_include_pad=count_include_pad)  # fmt: skip


__all__ = ["avg_pool", "conv", "conv_transpose", "max_pool"]
