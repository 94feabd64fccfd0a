"""Fourier transforms as products with matrices of sines and cosines; running products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from refimpl.ir.types import Array
from refimpl.onnx.context import Context
from refimpl.onnx.tensors import dtype_of
from refimpl.onnx.values import Item, Known
from refimpl.ops.builder import Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item] | None]


def _part(c: Context, v: Value, k: int) -> Value:
    """One entry of the last axis."""
    rank = v.type.rank
    starts, stops = (*[0] * (rank - 1), k), (*v.type.shape[:-1], k + 1)
    cut = c.emit("slice", v, starts=starts, stops=stops, steps=(1,) * rank)
    return c.reshape(cut, *v.type.shape[:-1])


def _sized(c: Context, v: Value, n: int) -> Value:
    """Last axis cut, or filled up with zeros, to ``n``."""
    have = v.type.shape[-1]
    if not isinstance(have, int):
        raise c.bad(f"{v.type}", "a length known at import")
    rank = v.type.rank
    if have > n:
        stops = (*v.type.shape[:-1], n)
        return c.emit("slice", v, starts=(0,) * rank, stops=stops, steps=(1,) * rank)
    if have == n:
        return v
    high = (*[0] * (rank - 1), n - have)
    return c.emit("pad", v, c.scalar(0, v), low=(0,) * rank, high=high, mode="constant")


def _matrices(n: int, inverse: bool, half: bool) -> tuple[Array, Array]:
    """Cosines and sines [terms, results]; of an inverse from half a spectrum, weighted."""
    terms = n // 2 + 1 if half and inverse else n
    results = n // 2 + 1 if half and not inverse else n
    angle = 2 * np.pi * (np.arange(terms)[:, None] * np.arange(results) % n) / n
    weight = np.ones((terms, 1))
    if inverse:
        weight /= n
        if half:
            weight[1 : (n + 1) // 2] *= 2
    return np.cos(angle) * weight, np.sin(angle) * weight


def transform(c: Context, v: Value, n: int, inverse: bool, half: bool) -> Value:
    """Discrete Fourier transform along the last but one of [..., length, 1 or 2]."""
    dtype = v.type.dtype.numpy
    cosine, sine = (c.constant(m.astype(dtype)) for m in _matrices(n, inverse, half))
    length = n // 2 + 1 if half and inverse else n
    real = _sized(c, _part(c, v, 0), length)
    rank1 = real.type.rank == 1
    real = c.reshape(real, 1, length) if rank1 else real
    y_real, y_imag = c.emit("matmul", real, cosine), c.emit("matmul", real, sine)
    if not inverse:
        y_imag = c.do("negative", y_imag)
    if v.type.shape[-1] == 2:
        imag = _sized(c, _part(c, v, 1), length)
        imag = c.reshape(imag, 1, length) if rank1 else imag
        with_sine, with_cosine = c.emit("matmul", imag, sine), c.emit("matmul", imag, cosine)
        y_real = c.do("subtract" if inverse else "add", y_real, with_sine)
        y_imag = c.do("add", y_imag, with_cosine)
    shape = y_real.type.shape[1:] if rank1 else y_real.type.shape
    if half and inverse:
        return c.reshape(y_real, *shape, 1)
    both = [c.reshape(p, *shape, 1) for p in (y_real, y_imag)]
    return c.emit("concat", *both, axis=len(shape))


def _dft(c: Context, x: Inputs) -> Sequence[Item]:
    v = c.operand(x, 0)
    rank = v.type.rank
    third = c.maybe(x, 2)
    if c.opset < 20:
        axis = c.axis(c.integer("axis", 1), rank)
    else:
        axis = c.axis(c.ints(third)[0] if third is not None else -2, rank)
    if axis == rank - 1:
        raise c.wrong("the axis of real and imaginary parts", "another axis")
    inverse, half = c.flag("inverse"), c.flag("onesided")
    given = c.maybe(x, 1)
    n = c.ints(given)[0] if given is not None else v.type.shape[axis]
    if not isinstance(n, int) or n < 1:
        raise c.bad(f"a transform of length {n}", "a length known at import")
    if given is None and half and inverse:
        n = 2 * (n - 1)
    order = (*(i for i in range(rank) if i not in (axis, rank - 1)), axis, rank - 1)
    y = transform(c, c.emit("permute_dims", v, axes=order), n, inverse, half)
    return [c.emit("permute_dims", y, axes=tuple(order.index(i) for i in range(rank)))]


def _stft(c: Context, x: Inputs) -> Sequence[Item]:
    v, window = c.operand(x, 0), c.optional(x, 2)
    (step,) = c.ints(c.item(x, 1))
    if (fourth := c.maybe(x, 3)) is not None:
        (n,) = c.ints(fourth)
    elif window is not None and isinstance(size := window.type.shape[0], int):
        n = size
    else:
        raise c.wrong("neither a window nor a frame length", "one of them")
    length = v.type.shape[1]
    if not isinstance(length, int) or step < 1 or not 1 <= n <= length:
        raise c.bad(f"frames of {n} of {v.type} in steps of {step}", "frames that fit")
    starts = np.arange((length - n) // step + 1) * step
    frames = c.emit("gather", v, c.constant(starts[:, None] + np.arange(n)), axis=1)
    if window is not None:
        frames = c.do("multiply", frames, c.reshape(window, n, 1))
    return [transform(c, frames, n, False, bool(c.integer("onesided", 1)))]


def _mel_weight_matrix(c: Context, x: Inputs) -> Sequence[Item]:
    bins, n, rate, low, high = (c.number(c.item(x, i)) for i in range(5))
    first, last = (2595 * math.log10(1 + float(edge) / 700) for edge in (low, high))
    step = (last - first) / (bins + 2)
    hertz = [700 * (10 ** ((first + i * step) / 2595) - 1) for i in range(bins + 2)]
    marks = [math.floor((n + 1) * h / rate) for h in hertz]
    matrix = np.zeros((n // 2 + 1, bins))
    for i in range(bins):
        lower, centre, upper = marks[i : i + 3]
        if centre == lower:
            matrix[centre, i] = 1
        for j in range(lower, centre + 1):
            if centre > lower:
                matrix[j, i] = (j - lower) / (centre - lower)
        for j in range(centre, upper):
            matrix[j, i] = (upper - j) / (upper - centre)
    dtype = dtype_of(c.integer("output_datatype", 1), c.where)
    return [Known(matrix.astype(dtype.numpy), dtype)]


def _cumprod(c: Context, x: Inputs) -> Sequence[Item]:
    """Product over the elements up to each one."""
    v = c.operand(x, 0)
    axis = c.axis(c.ints(c.item(x, 1))[0], v.type.rank)
    rank, n = v.type.rank + 1, v.type.shape[axis]
    mine, other = c.iota(n, rank=rank, axis=axis), c.iota(n, rank=rank, axis=axis + 1)
    if c.flag("reverse"):
        mine, other = other, mine
    taken = c.do("less" if c.flag("exclusive") else "less_equal", other, mine)
    spread = c.reshape(v, *v.type.shape[:axis], 1, *v.type.shape[axis:])
    factors = c.do("where", taken, spread, c.scalar(1, v))
    return [c.emit("prod", factors, axes=(axis + 1,), keepdims=False)]


HANDLERS: dict[str, Handler] = {
    "DFT": _dft,
    "STFT": _stft,
    "MelWeightMatrix": _mel_weight_matrix,
    "CumProd": _cumprod,
}
