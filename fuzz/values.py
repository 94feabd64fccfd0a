"""Input values: every kind of number a kernel may meet, from one seed a tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.spec import Domain

_FLOAT_CORNERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, 2.5, -3.5, 3.0, 1e-3, 100.0, 255.0,
    65504.0, 1e10, -1e10, np.inf, -np.inf, np.nan, np.pi,
)  # fmt: skip


def corners(dtype: DType) -> Array:
    """Every value of a dtype at which implementations differ: the first is 0.

    >>> corners(DType.I8)[:6].tolist()
    [0, 1, -1, 2, -2, 3]
    """
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_int:
        least, most = dtype.limits
        near = [0, 1, -1, 2, -2, 3, 5, 7, 8, 16, 31, 32, 63, 64, 100, 127, 128, 255, 2**15, 2**31]
        ends = [least, least + 1, most, most - 1]
        return np.array([v for v in [*near, *ends] if least <= v <= most], dtype.numpy)
    with np.errstate(all="ignore"):
        tiny, normal, largest, eps = _float_limits(dtype)
        edges = [tiny, -tiny, normal, -normal, largest, -largest, 1 + eps, 1 - eps / 2]
        return np.array([*_FLOAT_CORNERS, *edges], np.float64).astype(dtype.numpy)


def _float_limits(dtype: DType) -> tuple[float, float, float, float]:
    """Smallest subnormal, smallest normal, largest, epsilon."""
    if dtype in _SMALL_LIMITS:
        return _SMALL_LIMITS[dtype]
    bits = {DType.F64: (11, 52), DType.F32: (8, 23), DType.F16: (5, 10), DType.BF16: (8, 7)}
    exponent, mantissa = bits[dtype]
    bias = 2 ** (exponent - 1) - 1
    eps = 2.0**-mantissa
    return 2.0 ** (1 - bias - mantissa), 2.0 ** (1 - bias), (2 - eps) * 2.0**bias, eps


_SMALL_LIMITS = {
    DType.F8E4M3: (2.0**-9, 2.0**-6, 448.0, 2.0**-3),
    DType.F8E4M3FNUZ: (2.0**-10, 2.0**-7, 240.0, 2.0**-3),
    DType.F8E5M2: (2.0**-16, 2.0**-14, 57344.0, 2.0**-2),
    DType.F8E5M2FNUZ: (2.0**-17, 2.0**-15, 57344.0, 2.0**-2),
    DType.F8E8M0: (2.0**-127, 2.0**-127, 2.0**127, 1.0),
    DType.F4E2M1: (0.5, 1.0, 6.0, 0.5),
}


def _ramp(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    del rng
    return np.arange(n) % 5 - (2 if dtype.is_signed else 0)


def _small(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    return rng.integers(-4 if dtype.is_signed else 0, 5, n)


def _normal(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    x = rng.standard_normal(n) * (1.0 if dtype.is_float else 20.0)
    return x if dtype.is_signed else np.abs(x)


def _scales(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    if dtype.is_float:
        reach = 40 if dtype is DType.F64 else 4 if dtype is DType.F16 or dtype.bits < 16 else 12
        return rng.standard_normal(n) * 10.0 ** rng.integers(-reach, reach, n)
    return _bits(rng, n, dtype)


def _unit(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    return rng.random(n) if dtype.is_float else rng.integers(0, 2, n)


def _neutral(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    """Numbers that an op may leave alone: zeros of both signs, ones."""
    return rng.choice(np.array([0.0, -0.0, 1.0, -1.0] if dtype.is_signed else [0, 1]), n)


def _corners(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    return rng.choice(corners(dtype), n)


def _mostly_normal(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    plain = _normal(rng, n, dtype).astype(dtype.numpy)
    return np.where(rng.random(n) < 0.1, _corners(rng, n, dtype), plain)


def _bits(rng: np.random.Generator, n: int, dtype: DType) -> Array:
    if dtype is DType.BOOL:
        return rng.integers(0, 2, n)
    if dtype.is_packed:
        return rng.integers(0, 1 << dtype.bits, n, np.uint8).view(dtype.numpy)
    return np.frombuffer(rng.bytes(n * dtype.nbytes), dtype.numpy)


# The simplest first; kinds that keep results decidable are listed more than once.
_KINDS: tuple[Callable[[np.random.Generator, int, DType], Array], ...] = (
    _ramp, _small, _normal, _normal, _unit, _mostly_normal, _neutral, _scales, _corners, _bits,
)  # fmt: skip


def array(seed: int, dtype: DType, shape: tuple[int, ...], domain: Domain | None = None) -> Array:
    """Values of a tensor; seed 0 is a short ramp.  ``domain`` bounds nine values in ten.

    >>> array(0, DType.F32, (2, 3))
    array([[-2., -1.,  0.],
           [ 1.,  2., -2.]], dtype=float32)
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    n = int(np.prod(shape, dtype=np.int64))
    kind = _KINDS[seed % len(_KINDS)]
    with np.errstate(all="ignore"):
        x = np.asarray(kind(rng, n, dtype)).astype(dtype.numpy)
        if domain is not None:
            x = _within(rng, x, dtype, domain)
    return np.asarray(x.reshape(shape), order="C")


def _within(rng: np.random.Generator, x: Array, dtype: DType, domain: Domain) -> Array:
    if dtype.is_int:
        least, most = dtype.limits
        lo, hi = max(int(domain.lo), least), min(int(domain.hi), most)
        inside: Array = rng.integers(lo, max(lo, hi), x.shape, np.int64, endpoint=True)
    else:
        inside = rng.uniform(domain.lo, domain.hi, x.shape)
    return np.where(rng.random(x.shape) < 0.9, inside.astype(dtype.numpy), x)
