"""Random numbers, made of ``random_bits``: each function takes a seed and a stream."""

from __future__ import annotations

import math
from typing import TypeVar

from didyma.composites.composite import Emit, like, scalar, softmax
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, Shape

V = TypeVar("V")


def unit(b: Emit[V], seed: V, shape: Shape, dtype: DType, stream: int = 0) -> V:
    """Return numbers in [0, 1): all multiples of 2**-24 (f64: 2**-53) are equally likely.

    f32 takes the upper 24 bits of a u32, f64 the upper 53 of a u64; f16 and bf16 are not given.
    """
    wide = dtype is DType.F64
    source, keep = (DType.U64, 53) if wide else (DType.U32, 24)
    bits = b("random_bits", (seed,), dtype=source, shape=shape, stream=stream)
    high = b("bitwise_right_shift", (bits, scalar(b, source.bits - keep, source)))
    return _scaled(b, high, keep, DType.F64 if wide else DType.F32)


def _scaled(b: Emit[V], whole: V, keep: int, dtype: DType) -> V:
    real = b("cast", (whole,), dtype=dtype)
    return b("multiply", (real, scalar(b, 2.0**-keep, dtype)))


def uniform(
    b: Emit[V],
    seed: V,
    shape: Shape,
    dtype: DType = DType.F32,
    low: float = 0.0,
    high: float = 1.0,
    stream: int = 0,
) -> V:
    """``low + unit * (high - low)`` in f64 for f64, else in f32: rounding may give ``high``."""
    u = unit(b, seed, shape, dtype, stream)
    if (low, high) != (0.0, 1.0):
        u = b("multiply", (u, like(b, high - low, u)))
        u = b("add", (u, like(b, low, u)))
    return _to(b, u, dtype)


def _to(b: Emit[V], x: V, dtype: DType) -> V:
    return x if b.type_of(x).dtype is dtype else b("cast", (x,), dtype=dtype)


def normal(
    b: Emit[V],
    seed: V,
    shape: Shape,
    dtype: DType = DType.F32,
    mean: float = 0.0,
    scale: float = 1.0,
    stream: int = 0,
) -> V:
    """Normal numbers by G. E. P. Box and M. E. Muller (1958): sqrt(-2 ln u) cos(2 pi v).

    u is ``(lower word // 2**8 + 1) / 2**24`` of a u64 of random bits, v ``upper word // 2**8 /
    2**24``; for f64 whole words over 2**32.
    """
    real, drop = (DType.F64, 0) if dtype is DType.F64 else (DType.F32, 8)
    keep = 32 - drop
    bits = b("random_bits", (seed,), dtype=DType.U64, shape=shape, stream=stream)
    lower = b("bitwise_and", (bits, like(b, 0xFFFFFFFF, bits)))
    upper = b("bitwise_right_shift", (bits, like(b, 32 + drop, bits)))
    if drop:
        lower = b("bitwise_right_shift", (lower, like(b, drop, lower)))
    u = _scaled(b, b("add", (lower, like(b, 1, lower))), keep, real)
    v = _scaled(b, upper, keep, real)
    radius = b("sqrt", (b("multiply", (b("log", (u,)), like(b, -2.0, u))),))
    turn = b("cos", (b("multiply", (v, like(b, 2 * math.pi, v))),))
    z = b("multiply", (radius, turn))
    if scale != 1.0:
        z = b("multiply", (z, like(b, scale, z)))
    if mean != 0.0:
        z = b("add", (z, like(b, mean, z)))
    return _to(b, z, dtype)


def bernoulli(b: Emit[V], p: V, seed: V, dtype: DType = DType.BOOL, stream: int = 0) -> V:
    """1 where a unit number of its own is below each probability, else 0; NaN gives 0."""
    t = b.type_of(p)
    wide = _to(b, p, t.dtype.compute)
    below = b("less", (unit(b, seed, t.shape, t.dtype.compute, stream), wide))
    return _to(b, below, dtype)


def multinomial(
    b: Emit[V], logits: V, seed: V, count: Dim, dtype: DType = DType.I32, stream: int = 0
) -> V:
    """``count`` classes for each row of logarithms of weights: how many of the running sums of
    the row's softmax, the last left out, a unit number reaches.
    """
    t = b.type_of(logits)
    rows, classes = t.shape
    odds = softmax(b, _to(b, logits, t.dtype.compute), axis=-1)
    running = b("cumulative_sum", (odds,), axis=1, exclusive=False, reverse=False)
    last = dims.sub(classes, 1)
    inner = b("slice", (running,), starts=(0, 0), stops=(rows, last), steps=(1, 1))
    ends = b("reshape", (inner,), shape=(rows, 1, last))
    u = unit(b, seed, (rows, count, 1), t.dtype.compute, stream)
    reached = b("cast", (b("greater_equal", (u, ends)),), dtype=dtype)
    return b("sum", (reached,), axes=(2,), keepdims=False)


def dropout(b: Emit[V], x: V, ratio: float, seed: V, stream: int = 0) -> tuple[V, V]:
    """``x * mask / (1 - ratio)`` and the mask, false for about ``ratio`` of the elements."""
    t = b.type_of(x)
    u = unit(b, seed, t.shape, DType.F32, stream)
    mask = b("greater_equal", (u, scalar(b, ratio, DType.F32)))
    kept = b("multiply", (x, _to(b, mask, t.dtype)))
    factor = 1.0 / (1.0 - ratio) if ratio < 1 else math.inf
    return b("multiply", (kept, like(b, factor, x))), mask
