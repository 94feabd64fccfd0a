"""Bars of folds: sums and products of many terms in any order, ends of minima and maxima.

Source of the bounds: N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed.,
ch. 3 and 4: a sum computed along chains of d additions is off by at most γ(d)·Σ|terms|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refimpl.ir.types import Array, DType
from refimpl.ops.bars import Bar, Contract

_UNIT = {DType.F64: 2.0**-53, DType.F32: 2.0**-24, DType.F16: 2.0**-11, DType.BF16: 2.0**-8}
_SMALLEST = {
    DType.F64: 2.0**-1074,
    DType.F32: 2.0**-149,
    DType.F16: 2.0**-24,
    DType.BF16: 2.0**-133,
}
_LARGEST = {
    DType.F64: (2 - 2.0**-52) * 2.0**1023,
    DType.F32: (2 - 2.0**-23) * 2.0**127,
    DType.F16: 65504.0,
    DType.BF16: (2 - 2.0**-7) * 2.0**127,
}
# The reference's own unit roundoff: longdouble may be no better than float64.
_REFERENCE = {DType.F64: float(np.finfo(np.longdouble).eps) / 2, DType.F32: 2.0**-53}


def centre_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy dtype of a bar's centre."""
    if not dtype.is_float:
        return dtype.numpy
    return np.dtype(np.longdouble) if dtype is DType.F64 else np.dtype(np.float64)


def exact_bar(array: Array, dtype: DType) -> Bar:
    """Bar of an array that is known exactly."""
    return Bar(array.astype(centre_dtype(dtype)), np.zeros(array.shape))


def unit(dtype: DType) -> float:
    """Unit roundoff: the largest relative error of rounding to nearest."""
    return _UNIT[dtype]


def smallest(dtype: DType) -> float:
    """Smallest positive subnormal; for f64 it stands for anything below, too."""
    return _SMALLEST[dtype]


def largest(dtype: DType) -> float:
    """Largest finite value."""
    return _LARGEST[dtype]


def gamma(n: int | Array, u: float) -> Any:
    """γ(n) = n·u / (1 - n·u), the relative error of n roundings; inf where it has none.

    >>> gamma(0, 2.0**-24), gamma(2**24, 2.0**-24)
    (0.0, inf)
    """
    nu = np.asarray(n, np.float64) * u
    g = np.where(nu < 1, nu / np.where(nu < 1, 1 - nu, 1), np.inf)
    return g if g.ndim else float(g)


def extremes(dtype: DType) -> tuple[float, float]:
    """Smallest and largest value of a dtype, infinities for floats, as Python numbers."""
    if dtype.is_float:
        return -np.inf, np.inf
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def magnitude(b: Bar) -> Array:
    """``|c| + e`` where both are finite, else 0: what a term adds to rounding errors."""
    m = np.abs(b.c.astype(np.float64)) + b.e
    return np.where(np.isfinite(m), m, 0.0)


def integer_hull(c: Array, e: Array, dtype: DType) -> Bar:
    """Bar of an integer result of uncertain terms: undecided where it may have wrapped."""
    lo, hi = extremes(dtype)
    wide = c.astype(np.float64)
    may_wrap = (e > 0) & ((wide - e < lo) | (wide + e > hi))
    return Bar(c, np.where(may_wrap, np.inf, e))


def sum_bar(
    c: Array,
    e: Array,
    total: Array,
    n: int | Array,
    chain: int | Array,
    dtype: DType,
    products: bool = False,
) -> Bar:
    """Bar of float sums computed in ``dtype``.

    ``c`` are the sums of the centres, ``e`` of the terms' own errors, ``total`` of their
    magnitudes; ``n`` counts the terms, ``chain`` the additions one of them may go through (of
    which the first, to zero, is exact).  ``products``: each term is a product and rounded too.
    """
    u = unit(dtype)
    roundings = np.maximum(np.asarray(chain) - (0 if products else 1), 0)
    own = np.asarray(n) * _REFERENCE[dtype]
    tiny = smallest(dtype)
    room = (gamma(roundings, u) + own) * total
    if products:
        room = room + (np.asarray(n) + 1) * tiny  # each product may underflow
    with np.errstate(all="ignore"):
        error = e + room
        # Zeros of both signs cancel or not depending on where the sum started.
        error = np.where((c == 0) & (error == 0), tiny, error)
        error = np.where(np.isfinite(c), error, np.where(np.isfinite(e), 0.0, np.inf))
        # Partial sums that overflow give an infinity or NaN in one order and not in another.
        error = np.where(total * (1 + u) + e > largest(dtype), np.inf, error)
    return Bar(c, np.where(np.isnan(error), np.inf, error).astype(np.float64))


def fold_sum(b: Bar, axes: tuple[int, ...], keepdims: bool, dtype: DType, k: Contract) -> Bar:
    """Sum of bars over axes in the compute dtype of ``dtype``; integers wrap."""
    n = int(np.prod([b.c.shape[a] for a in axes]))
    with np.errstate(all="ignore"):
        e = np.sum(b.e, axis=axes, keepdims=keepdims)
        if not dtype.is_float:
            c = np.sum(b.c, axis=axes, keepdims=keepdims, dtype=b.c.dtype)
            return integer_hull(c, e, dtype)
        c = np.sum(b.c, axis=axes, keepdims=keepdims)
        total = np.sum(magnitude(b), axis=axes, keepdims=keepdims)
        return sum_bar(c, e, total, n, k.chain(n) if n else 0, dtype.compute)


def fold_product(b: Bar, axes: tuple[int, ...], keepdims: bool, dtype: DType) -> Bar:
    """Product of bars over axes in the compute dtype of ``dtype``; integers wrap.

    Every factor's rounding reaches the result, whatever the order.
    """
    n = int(np.prod([b.c.shape[a] for a in axes]))
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            c = np.prod(b.c, axis=axes, keepdims=keepdims, dtype=b.c.dtype)
            unsure = np.any(b.e > 0, axis=axes, keepdims=keepdims)
            return Bar(c, np.where(unsure, np.inf, 0.0))
        c = np.prod(b.c, axis=axes, keepdims=keepdims)
        mag = np.abs(b.c.astype(np.float64)) + b.e
        certain = np.prod(np.abs(b.c), axis=axes, keepdims=keepdims).astype(np.float64)
        high = np.prod(mag, axis=axes, keepdims=keepdims)
        finite = np.where(np.isfinite(mag), mag, 1.0)
        worst = np.prod(np.maximum(finite, 1.0), axis=axes, keepdims=keepdims)
        low = np.min(np.where(np.isfinite(mag), mag, 1.0), axis=axes, keepdims=keepdims, initial=1)
        uncertain = np.any(b.e > 0, axis=axes, keepdims=keepdims)
        unknown = np.any(np.isinf(b.e), axis=axes, keepdims=keepdims)
        return product_bar(
            c, np.where(uncertain, high - certain, 0.0), high, worst, low, unknown, n, dtype
        )


def product_bar(
    c: Array,
    e: Array,
    high: Array,
    worst: Array,
    low: Array,
    unknown: Array,
    n: int | Array,
    dtype: DType,
) -> Bar:
    """Bar of float products of n factors.

    ``e`` is how far the factors' own errors can move them; ``high`` the product of magnitudes,
    ``worst`` that of the magnitudes above 1: no partial product exceeds it.
    """
    u, tiny = unit(dtype.compute), smallest(dtype.compute)
    steps = np.maximum(np.asarray(n) - 1, 0)
    g = gamma(steps, u)
    with np.errstate(all="ignore"):
        error = e + (g + np.asarray(n) * _REFERENCE[dtype.compute]) * high
        error = error + steps * tiny * worst * (1 + g)  # a partial product may underflow
        error = np.where(np.isfinite(c), error, 0.0)
        # An infinity times a zero made by underflow is NaN in one order and not in another.
        special = ~np.isfinite(c) & (low < 1) & (np.asarray(n) > 2)
        error = np.where(
            unknown | special | (worst * (1 + g) > largest(dtype.compute)), np.inf, error
        )
    return Bar(c, np.where(np.isnan(error), np.inf, error).astype(np.float64))


def extreme(x: Array, axes: tuple[int, ...], keepdims: bool, largest_wins: bool) -> Array:
    """Max or min over axes; NaN if any is NaN; -0 is below +0; empty: the dtype's other end."""
    dtype = x.dtype
    floats = not np.issubdtype(dtype, np.integer)
    if floats:
        identity: Any = -np.inf if largest_wins else np.inf
    else:
        identity = np.iinfo(dtype).min if largest_wins else np.iinfo(dtype).max
    fold = np.max if largest_wins else np.min
    out = np.asarray(fold(x, axis=axes, keepdims=keepdims, initial=identity))
    if floats and np.any(out == 0):
        winner = (x == 0) & (np.signbit(x) != largest_wins)
        seen = np.any(winner, axis=axes, keepdims=keepdims)
        sign = 1.0 if largest_wins else -1.0
        zero = np.where(seen, np.array(sign, dtype), np.array(-sign, dtype)) * np.array(0, dtype)
        out = np.where(out == 0, zero, out)
    return out


def fold_extreme(b: Bar, axes: tuple[int, ...], keepdims: bool, largest_wins: bool) -> Bar:
    """Max or min of bars over axes: the ends decide."""
    with np.errstate(all="ignore"):
        c = extreme(b.c, axes, keepdims, largest_wins)
        if not np.any(b.e):
            return Bar(c, np.zeros(c.shape))
        whole = np.issubdtype(b.c.dtype, np.integer)
        wide = b.c.astype(np.float64) if whole else b.c
        low = extreme(wide - b.e, axes, keepdims, largest_wins)
        high = extreme(wide + b.e, axes, keepdims, largest_wins)
        centre = c.astype(wide.dtype)
        up = np.where(high == centre, 0, high - centre)
        down = np.where(low == centre, 0, centre - low)
        e = np.maximum(up, down).astype(np.float64)
        e = np.where(np.any(np.isinf(b.e), axis=axes, keepdims=keepdims), np.inf, e)
        sure_nan = np.any(np.isnan(b.c) & np.isfinite(b.e), axis=axes, keepdims=keepdims)
        return Bar(c, np.where(sure_nan, 0.0, np.where(np.isnan(e), np.inf, e)))
