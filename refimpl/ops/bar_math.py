"""Error bars of arithmetic and of the named functions; see ``bars`` for the rules they follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import powers
from didyma.refimpl.ops.bars import (
    LEAST,
    OVER,
    TINY,
    Bar,
    Contract,
    as_error,
    certain,
    close,
    finish,
    rounded_once,
    settle,
)


def undecided(*bars: Bar) -> Array:
    """Return where an operand is undecided."""
    mask: Array = bars[0].e == np.inf
    for b in bars[1:]:
        mask = mask | (b.e == np.inf)
    return mask


def where_undecided(b: Bar, mask: Array) -> Bar:
    """Return a bar with the marked elements undecided."""
    return Bar(b.c, np.where(mask, np.inf, b.e)) if mask.any() else b


def integers(f: Callable[..., Array], bars: Sequence[Bar]) -> Bar:
    """Return the bar of a function of integers or bools: undecided where an operand is inexact."""
    c = np.asarray(f(*(b.c for b in bars)))
    if not any(b.e.any() for b in bars):
        return Bar(c, np.zeros(c.shape))
    return Bar(c, np.where(certain(*bars), np.zeros(c.shape), np.inf))


def ends(f: Callable[..., Array], bars: Sequence[Bar]) -> Bar:
    """Return the bar of an exact function that is nondecreasing in each operand."""
    c = np.asarray(f(*(b.c for b in bars)))
    if not any(b.e.any() for b in bars):
        return Bar(c, np.zeros(c.shape))
    if c.dtype.kind != "f":
        return integers(f, bars)
    out = close(c, f(*(b.c - b.e for b in bars)), f(*(b.c + b.e for b in bars)), certain(*bars))
    return where_undecided(out, undecided(*bars))


def _narrow(b: Bar) -> Array:
    return b.c.astype(np.float64)


def _sum(a: Bar, b: Bar, dtype: DType, known: Array) -> Array:
    native = _narrow(a) + _narrow(b) if dtype is DType.F64 else None
    return rounded_once(a.c + b.c, native, dtype, known)


def add(a: Bar, b: Bar, dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of a sum; a product that overflows may have been fused with it."""
    known = certain(a, b)
    out = finish(_sum(a, b, dtype, known), a.e + b.e, dtype, known)
    if not known.all():
        out = nonnegative(out, ~known & (a.c >= a.e) & (b.c >= b.e))
    over = OVER[dtype.compute]
    pending = (np.isfinite(a.c) & (np.abs(a.c) + a.e >= over)) | (
        np.isfinite(b.c) & (np.abs(b.c) + b.e >= over)
    )
    if not pending.any():
        return out
    a, b = settle(a, dtype), settle(b, dtype)
    apart = finish(a.c + b.c, a.e + b.e, dtype, certain(a, b))
    agree = np.isinf(apart.c) & (apart.c == out.c) & (apart.e == 0) & (out.e == 0)
    return where_undecided(out, pending & ~agree)


def negative(a: Bar, _dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of a negation."""
    return Bar(-a.c, a.e)


def subtract(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a difference."""
    return add(a, negative(b, dtype, contract), dtype, contract)


def _fits(a: Array, b: Array) -> Array:
    """Return which products of f64 values are exact in longdouble."""

    def lowest(x: Array) -> Array:
        m = np.abs(np.ldexp(np.frexp(x.astype(np.float64))[0], 53)).astype(np.int64)
        low: Array = (m & -m).astype(np.float64)
        return low

    room = 2.0 ** (106 - np.finfo(np.longdouble).nmant - 1)
    fits: Array = (lowest(a) * lowest(b) >= room) | (a == 0) | (b == 0)
    return fits | ~np.isfinite(a) | ~np.isfinite(b)


def multiply(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a product; its overflow stays pending if contraction is allowed.

    Of one bar with itself it is that of a square.
    """
    known = certain(a, b)
    size_a, size_b = np.abs(a.c), np.abs(b.c)
    c = a.c * b.c
    e = as_error(size_a * b.e + size_b * a.e + a.e * b.e)
    finite = np.isfinite(c)
    if not finite.all():  # inf * x is decided if x is surely not zero
        sure = ((size_a > a.e) & (size_b > b.e)) | np.isnan(a.c) | np.isnan(b.c)
        e = np.where(finite, e, np.where(sure & ~undecided(a, b), 0.0, np.inf))
    sharp = None
    if dtype is DType.F64:
        sharp = _fits(a.c, b.c) & (c.astype(np.float64) == c)
    out = finish(c, e, dtype, known, sharp=sharp, pending=contract.contraction)
    across = a is b and ((size_a < a.e) & np.isfinite(out.e)).any()
    return nonnegative(out) if across else out


def divide(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a quotient: undecided where the divisor may be zero."""
    known = certain(a, b)
    size_a, size_b = np.abs(a.c), np.abs(b.c)
    c = a.c / b.c
    room = size_b - b.e
    e = np.where(room > 0, as_error((size_a * b.e + size_b * a.e) / (size_b * room)), np.inf)
    if not (np.isfinite(a.c) & np.isfinite(b.c) & (b.c != 0)).all():
        nan = np.isnan(a.c) | np.isnan(b.c)
        by_inf = np.isinf(b.c) & np.isfinite(a.c)
        of_inf = np.isinf(a.c) & (room > 0)
        by_zero = (b.c == 0) & (b.e == 0) & (size_a > a.e)
        nonsense = np.isinf(a.c) & np.isinf(b.c)
        special = nan | by_inf | of_inf | by_zero | nonsense
        e = np.where(special & ~undecided(a, b), 0.0, e)
    k = contract.of("div", dtype.compute)
    if k == 0.5:
        native = _narrow(a) / _narrow(b) if dtype is DType.F64 else None
        c = rounded_once(c, native, dtype, known)
    return finish(c, e, dtype, known, k)


def _exact_points(x: Array, c: Array, known: Array) -> Array:
    """Return where the C standard fixes a zero result: at 0, 1 and the infinities."""
    fixed: Array = known & (c == 0) & ((x == 0) | (x == 1) | np.isinf(x))
    return fixed


def monotone(
    name: str,
    f: Callable[[Array], Array],
    a: Bar,
    dtype: DType,
    contract: Contract,
    lo: float = -np.inf,
    hi: float = np.inf,
) -> Bar:
    """Return the bar of a function that is monotone on [lo, hi] and NaN outside.

    It is undecided where the operand's bar crosses an end of that domain.

    An end that rounding of a subnormal alone pushed over the edge is moved back to it: rounding
    keeps signs.
    """
    dt = dtype.compute
    k = contract.of(name, dt)
    c = f(a.c)
    known = a.e == 0
    e = np.zeros(np.shape(a.c))
    if not known.all():
        low, high = a.c - a.e, a.c + a.e
        slip = 4 * TINY[dt]
        inside = (a.c >= lo) & (a.c <= hi)
        crosses = np.where(
            inside, (low < lo - slip) | (high > hi + slip), (low <= hi) & (high >= lo)
        )
        clipped = close(c, f(np.clip(low, lo, hi)), f(np.clip(high, lo, hi)), known)
        e = np.where((crosses & ~known) | (a.e == np.inf), np.inf, clipped.e)
        e = np.where(np.isnan(c) & ~(crosses & ~known) & (a.e != np.inf), 0.0, e)
    if name == "sqrt" and k == 0.5:
        native = f(_narrow(a)) if dtype is DType.F64 else None
        c = rounded_once(c, native, dtype, known)
        return finish(c, e, dtype, known)
    return finish(c, e, dtype, known, k, sharp=_exact_points(a.c, c, known))


def wave(name: str, f: Callable[[Array], Array], a: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a function of slope at most 1 with values in [-1, 1]."""
    c = f(a.c)
    known = a.e == 0
    e = np.where(a.e == np.inf, np.inf, np.minimum(a.e, 2.0))
    sharp = _exact_points(a.c, c, known)
    return finish(c, e, dtype, known, contract.of(name, dtype.compute), sharp=sharp)


def tangent(a: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of ``tan``: undecided where the operand's bar may contain a pole."""
    c = np.tan(a.c)
    known = a.e == 0
    low, high = np.tan(a.c - a.e), np.tan(a.c + a.e)
    sound = (a.e < 1.5) & (low <= c) & (c <= high)
    e = np.where(sound, np.maximum(high - c, c - low), np.inf)
    sharp = _exact_points(a.c, c, known)
    return finish(c, e, dtype, known, contract.of("tan", dtype.compute), sharp=sharp)


def signed(a: Bar, to: Bar, _dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of ``copysign``, around 0 where the sign is undecided or a NaN's."""
    c = np.copysign(a.c, to.c)
    either = ((to.e > 0) & (np.abs(to.c) <= to.e)) | np.isnan(to.c)
    e = np.where(either, 2 * np.abs(a.c) + a.e + LEAST, a.e)
    crossing = np.where((np.abs(a.c) < a.e), 2 * a.e, e)  # |x| is no further from |c| than x is
    return Bar(c, as_error(np.where(np.isnan(a.c) & (a.e == 0), 0.0, crossing)))


def nonnegative(b: Bar, where: Array | bool = True) -> Bar:
    """Return bars of values that are not negative, without their part below zero."""
    below = (b.c < b.e) & np.isfinite(b.e) & where
    if not below.any():
        return b
    half = as_error((b.c + b.e) / 2)  # the same number for both, so that the least end is 0
    return Bar(np.where(below, half.astype(b.c.dtype), b.c), np.where(below, half, b.e))


def square(a: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a square."""
    return multiply(a, a, dtype, contract)


def magnitude(a: Bar, _dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of a number without its sign."""
    return nonnegative(Bar(np.abs(a.c), a.e))


def even(f: Callable[[Array], Array], name: str, a: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of an even function that increases with the operand's magnitude."""
    size = magnitude(a, dtype, contract)
    return monotone(name, f, size, dtype, contract, 0.0)


def _corners(f: Callable[[Array, Array], Array], a: Bar, b: Bar, c: Array) -> Array:
    """Return how far a function that is monotone in each operand may be from its centre."""
    e = np.zeros(np.shape(c))
    for x in (a.c - a.e, a.c + a.e):
        for y in (b.c - b.e, b.c + b.e):
            e = np.maximum(e, as_error(np.abs(f(x, y) - c)))
    return e


def power(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of ``a ** b``: decided for a positive base, or a whole exponent."""
    dt = dtype.compute
    known = certain(a, b)
    c = powers.power(a.c, b.c)
    e = np.zeros(np.shape(c))
    if not known.all():
        positive = a.c - a.e > 0
        whole = (b.e == 0) & (np.rint(b.c) == b.c)
        nonzero = np.abs(a.c) > a.e
        corners = _corners(powers.power, a, b, c)
        e = np.where(positive | (whole & nonzero), corners, np.inf)
        through = whole & ~nonzero & (b.c > 0)
        e = np.where(through, np.maximum(corners, as_error(np.abs(c))), e)
        e = np.where((b.e == 0) & (b.c == 0), 0.0, e)  # x ** 0 is 1 for every x, NaN too
        fraction = np.ceil(b.c - b.e) > np.floor(b.c + b.e)
        surely_nan = (
            (np.isnan(a.c) & (np.abs(b.c) > b.e))
            | (np.isnan(b.c) & (np.abs(a.c - 1) > a.e))
            | (np.isnan(a.c) & np.isnan(b.c))
            | ((a.c + a.e < 0) & fraction & np.isfinite(a.c))
        )
        e = np.where(surely_nan, 0.0, e)
        e = np.where(undecided(a, b), np.inf, e)
    at_zero = known & (c == 0) & ((a.c == 0) | np.isinf(a.c) | np.isinf(b.c))
    out = finish(c, e, dtype, known, contract.of("pow", dt), sharp=at_zero)
    return nonnegative(out, ~known & (b.e == 0) & (np.remainder(b.c, 2) == 0))


def angle(y: Bar, x: Bar, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of ``atan2``: undecided where the point's bar meets the negative x axis."""
    known = certain(y, x)
    c = np.arctan2(y.c, x.c)
    ratio = np.hypot(y.e, x.e) / np.hypot(y.c, x.c)
    cut = (np.abs(y.c) <= y.e) & (y.e > 0) & (x.c - x.e <= 0)
    e = np.where((ratio < 1) & ~cut, as_error(ratio * (np.pi / 2)), np.inf)
    e = np.where(np.isnan(c) & ~undecided(y, x), 0.0, e)
    sharp = known & (c == 0) & ((y.c == 0) | np.isinf(x.c))
    return finish(c, e, dtype, known, contract.of("atan2", dtype.compute), sharp=sharp)


def _quotient(a: Bar, b: Bar) -> tuple[Array, Array]:
    """Return the ends of the exact quotient's bar; infinite where the divisor may be zero."""
    q = a.c / b.c
    room = np.abs(b.c) - b.e
    e = as_error((np.abs(a.c) * b.e + np.abs(b.c) * a.e) / (np.abs(b.c) * room))
    e = np.where(room > 0, e + np.abs(q).astype(np.float64) * 2.0**-50, np.inf)
    return q - e, q + e


def modulo(
    f: Callable[[Array, Array], Array],
    whole: Callable[[Array], Array],
    a: Bar,
    b: Bar,
    dtype: DType,
    _contract: Contract,
) -> Bar:
    """Return the bar of a remainder whose quotient is rounded by ``whole``.

    Where the whole quotient is undecided, the bar spans a full period.
    """
    known = certain(a, b)
    c = f(a.c, b.c)
    e = np.zeros(np.shape(c))
    if not known.all():
        low, high = _quotient(a, b)
        n, m = whole(low), whole(high)
        e = np.where(n == m, a.e + np.abs(n) * b.e, np.abs(b.c) + b.e)
        sure = (np.abs(b.c) > b.e) & np.isfinite(a.c) & np.isfinite(b.c)
        nan = np.isnan(a.c) | np.isnan(b.c) | (np.isinf(a.c) & ~np.isnan(b.c))
        e = np.where(nan, 0.0, np.where(sure, e, np.inf))
        e = np.where(undecided(a, b), np.inf, e)
    return finish(c, e, dtype, known)


def floor_quotient(a: Bar, b: Bar, dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of ``floor_divide`` of floats: ``(a - remainder(a, b)) / b``, rounded.

    Exact while the quotient is far below the largest odd number of the dtype; beyond, the
    subtraction, the division and the last step may each be off by a last place.
    """
    known = certain(a, b)
    c = np.floor_divide(a.c, b.c)
    e = np.zeros(np.shape(c))
    if not known.all():
        low, high = _quotient(a, b)
        spread = close(c, np.floor(low), np.floor(high), known)
        sure = (np.abs(b.c) > b.e) & np.isfinite(a.c) & np.isfinite(b.c)
        e = np.where(sure, spread.e, np.inf)
        e = np.where((np.isnan(a.c) | np.isnan(b.c)) & ~undecided(a, b), 0.0, e)
    small = 2.0 ** (20 if dtype.compute is DType.F32 else 49)
    near = np.abs(c) + e < small
    out = finish(c, e, dtype, known, 2.0, sharp=near)
    return Bar(out.c, np.where(near & ~known & np.isfinite(out.c), np.maximum(e, LEAST), out.e))
