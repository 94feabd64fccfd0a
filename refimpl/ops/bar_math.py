"""Error bars of arithmetic and of the named functions; see ``bars`` for the rules they follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from refimpl.ir.types import Array, DType
from refimpl.ops.bars import (
    LEAST,
    OVER,
    TINY,
    Bar,
    Contract,
    as_error,
    certain,
    close,
    finish,
    settle,
)


def undecided(*bars: Bar) -> Array:
    """Elements with an undecided operand."""
    mask: Array = bars[0].e == np.inf
    for b in bars[1:]:
        mask = mask | (b.e == np.inf)
    return mask


def where_undecided(b: Bar, mask: Array) -> Bar:
    """Mark elements as undecided."""
    return Bar(b.c, np.where(mask, np.inf, b.e)) if mask.any() else b


def integers(f: Callable[..., Array], bars: Sequence[Bar]) -> Bar:
    """Exact function of integers or bools: undecided where an operand is not exact."""
    c = np.asarray(f(*(b.c for b in bars)))
    if not any(b.e.any() for b in bars):
        return Bar(c, np.zeros(c.shape))
    return Bar(c, np.where(certain(*bars), np.zeros(c.shape), np.inf))


def ends(f: Callable[..., Array], bars: Sequence[Bar]) -> Bar:
    """Exact function that is nondecreasing in every operand: the ends of the bars decide."""
    c = np.asarray(f(*(b.c for b in bars)))
    if not any(b.e.any() for b in bars):
        return Bar(c, np.zeros(c.shape))
    if c.dtype.kind != "f":
        return integers(f, bars)
    out = close(c, f(*(b.c - b.e for b in bars)), f(*(b.c + b.e for b in bars)), certain(*bars))
    return where_undecided(out, undecided(*bars))


def add(a: Bar, b: Bar, dtype: DType) -> Bar:
    """Sum; a product that overflows by itself may have been fused with it."""
    known = certain(a, b)
    out = finish(a.c + b.c, a.e + b.e, dtype, known)
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


def negative(a: Bar) -> Bar:
    """Negation."""
    return Bar(-a.c, a.e)


def subtract(a: Bar, b: Bar, dtype: DType) -> Bar:
    """Difference."""
    return add(a, negative(b), dtype)


def _fits(a: Array, b: Array) -> Array:
    """Products of f64 values that longdouble holds exactly: few enough significant bits."""

    def lowest(x: Array) -> Array:
        m = np.abs(np.ldexp(np.frexp(x.astype(np.float64))[0], 53)).astype(np.int64)
        return (m & -m).astype(np.float64)

    room = 2.0 ** (106 - np.finfo(np.longdouble).nmant - 1)
    fits: Array = (lowest(a) * lowest(b) >= room) | (a == 0) | (b == 0)
    return fits | ~np.isfinite(a) | ~np.isfinite(b)


def multiply(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Product; where contraction is allowed its overflow stays pending."""
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
    return finish(c, e, dtype, known, sharp=sharp, pending=contract.contraction)


def divide(a: Bar, b: Bar, dtype: DType, contract: Contract) -> Bar:
    """Quotient; undecided where the divisor may be zero."""
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
    return finish(c, e, dtype, known, contract.of("div", dtype.compute))


def _exact_points(x: Array, c: Array, known: Array) -> Array:
    """Where the C standard fixes a zero result: at 0, 1 and the infinities."""
    return known & (c == 0) & ((x == 0) | (x == 1) | np.isinf(x))


def monotone(
    name: str,
    f: Callable[[Array], Array],
    a: Bar,
    dtype: DType,
    contract: Contract,
    lo: float = -np.inf,
    hi: float = np.inf,
) -> Bar:
    """Monotone function on the domain [lo, hi], NaN outside; undecided across its edge.

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
    sharp = None if k == 0.5 else _exact_points(a.c, c, known)
    return finish(c, e, dtype, known, k, sharp=sharp)


def lipschitz(
    name: str,
    f: Callable[[Array], Array],
    a: Bar,
    dtype: DType,
    contract: Contract,
    width: float,
) -> Bar:
    """Error bar of a function of slope at most 1 whose values span at most ``width``."""
    c = f(a.c)
    known = a.e == 0
    e = np.where(a.e == np.inf, np.inf, np.minimum(a.e, width))
    sharp = _exact_points(a.c, c, known)
    return finish(c, e, dtype, known, contract.of(name, dtype.compute), sharp=sharp)


def folded(a: Bar) -> Bar:
    """Absolute value; a bar around zero is centred anew on the values it can have."""
    size = np.abs(a.c)
    across = (size < a.e) & (a.e != np.inf)
    if not across.any():
        return Bar(size, a.e)
    half = (size + a.e) / 2
    return Bar(np.where(across, half, size), np.where(across, as_error(half), a.e))


def tangent(a: Bar, dtype: DType, contract: Contract) -> Bar:
    """``tan``: monotone between its poles; undecided across one."""
    c = np.tan(a.c)
    known = a.e == 0
    low, high = np.tan(a.c - a.e), np.tan(a.c + a.e)
    sound = (a.e < 1.5) & (low <= c) & (c <= high)
    e = np.where(sound, np.maximum(high - c, c - low), np.inf)
    sharp = _exact_points(a.c, c, known)
    return finish(c, e, dtype, known, contract.of("tan", dtype.compute), sharp=sharp)


def signed(a: Bar, to: Bar) -> Bar:
    """``copysign``: both signs where the second operand's sign is open, as that of a NaN is."""
    c = np.copysign(a.c, to.c)
    either = ((to.e > 0) & (np.abs(to.c) <= to.e)) | np.isnan(to.c)
    e = np.where(either, 2 * np.abs(a.c) + a.e + LEAST, a.e)
    crossing = np.where((np.abs(a.c) < a.e), 2 * a.e, e)  # |x| is no further from |c| than x is
    return Bar(c, as_error(np.where(np.isnan(a.c) & (a.e == 0), 0.0, crossing)))
