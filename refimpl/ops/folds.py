"""Products and extremes over axes: values by the written rules, and their bars.

Bars of sums are in ``bars``.  Source of the bounds: N. J. Higham, *Accuracy and Stability of
Numerical Algorithms*, 2nd ed., ch. 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import OVER, TINY, UNIT, Bar, Contract, as_error, close, settle
from didyma.refimpl.ops.bars import finish as rounded_once

Axes = tuple[int, ...]


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the identity of max: -inf, or the smallest integer."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def has_negative_zero(x: Array) -> bool:
    """Return whether any element is -0."""
    return x.dtype.kind == "f" and bool(((x == 0) & np.signbit(x)).any())


def extreme(largest: bool, x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return the max or min over axes: NaN if any is NaN, -0 below +0, the identity if empty."""
    dtype = x.dtype
    if dtype.kind == "f":
        identity: Any = -np.inf if largest else np.inf
    else:
        identity = np.iinfo(dtype).min if largest else np.iinfo(dtype).max
    fold = np.max if largest else np.min
    out = np.asarray(fold(x, axis=axes, keepdims=keepdims, initial=identity))
    if dtype.kind == "f" and bool((out == 0).any()):
        winner = (x == 0) & (np.signbit(x) != largest)
        seen = np.any(winner, axis=axes, keepdims=keepdims)
        zero = np.where(seen == largest, 0.0, -0.0).astype(dtype)
        out = np.where(out == 0, zero, out)
    return out


def extreme_bar(
    largest: bool, b: Bar, axes: Axes, keepdims: bool, dtype: DType, _contract: Contract
) -> Bar:
    """Return the bar of the max or min over axes, from the ends of the elements' bars."""
    b = settle(b, dtype)
    c = extreme(largest, b.c, axes, keepdims)
    if not b.e.any():
        return Bar(c, np.zeros(c.shape))
    wide = b.c if dtype.is_float else b.c.astype(np.longdouble)
    low = extreme(largest, wide - b.e, axes, keepdims)
    high = extreme(largest, wide + b.e, axes, keepdims)
    known = np.all(b.e == 0, axis=axes, keepdims=keepdims)
    e = close(c.astype(wide.dtype), low, high, known).e
    e = np.where(np.any(b.e == np.inf, axis=axes, keepdims=keepdims), np.inf, e)
    if dtype.is_float:
        sure_nan = np.isnan(b.c) & (b.e < np.inf)
        e = np.where(np.any(sure_nan, axis=axes, keepdims=keepdims), 0.0, e)
    return Bar(c, e)


@dataclass(frozen=True, slots=True)
class Factors:
    """What the bar of products depends on besides its centre.

    ``high``: product of the largest magnitudes, ``low`` of the centres' magnitudes; ``worst`` of
    those above 1 and ``least`` of those below: every partial product lies between them.
    """

    n: int | Array
    high: Array
    low: Array
    worst: Array
    least: Array
    unknown: Array  # whether some factor is undecided
    special: Array  # whether some factor is surely infinite or NaN
    signless: Array  # whether some factor may be zero or have either sign
    sharp: Array  # whether all factors are exact whole numbers


def product_bar(c: Array, f: Factors, dtype: DType) -> Bar:
    """Return the bar of float products, in any order, with centres ``c`` in the compute dtype.

    Each of the n - 1 roundings reaches the result, whatever the order; a partial product that
    loses bits to underflow may yet be multiplied by the largest of the others.
    """
    dt = dtype.compute
    steps = np.maximum(np.asarray(f.n) - 1, 0)
    g = steps * UNIT[dt] / (1 - np.minimum(steps * UNIT[dt], 0.5))
    spread = np.where(f.high > f.low, f.high - f.low, 0.0)
    e = as_error(spread + g * f.high + steps * TINY[dt] * f.worst * (1 + g))
    e = np.where(f.sharp & (f.worst <= 1 / UNIT[dt]) | (steps == 0), as_error(spread), e)
    risky = ~f.special & (f.worst * (1 + g) >= OVER[dt])
    surely = risky & (f.least >= 1) & (f.low * (1 - g) - spread >= OVER[dt])
    c = np.where(surely, np.copysign(np.inf, c), c).astype(c.dtype)
    e = np.where(risky, np.where(surely, 0.0, np.inf), e)
    # An infinity times what may be zero, of either sign, or lost to underflow may be anything.
    lost = (np.isinf(c) & (f.least < 4 * TINY[dt])) | f.signless
    e = np.where(f.special, np.where(lost, np.inf, 0.0), e)
    return Bar(c, np.where(f.unknown, np.inf, e))


def prod_bar(b: Bar, axes: Axes, keepdims: bool, dtype: DType, _contract: Contract) -> Bar:
    """Return the bar of products over axes; integers wrap."""

    def fold(x: Array) -> Array:
        return np.asarray(np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype))

    def some(x: Array) -> Array:
        return np.asarray(np.any(x, axis=axes, keepdims=keepdims))

    c = fold(b.c)
    if not dtype.is_float:
        return Bar(c, np.where(some(b.e > 0), np.inf, 0.0))
    n = math.prod(b.c.shape[a] for a in axes)
    return product_bar(c, factors(b, n, fold, some), dtype)


def factors(b: Bar, n: int | Array, fold: Any, some: Any) -> Factors:
    """Return the facts about factors; ``fold`` is their product and ``some`` their ``any``."""
    finite = np.isfinite(b.c)
    near = np.where(finite, np.abs(b.c), 1.0).astype(np.longdouble)
    far = np.where(finite & (b.e < np.inf), near + b.e, near)
    return Factors(
        n,
        high=fold(far),
        low=fold(near),
        worst=fold(np.maximum(far, 1.0)),
        least=fold(np.minimum(np.maximum(near - np.where(finite, b.e, 0.0), 0.0), 1.0)),
        unknown=some(b.e == np.inf),
        special=some(~finite & (b.e < np.inf)),
        signless=some((b.e > 0) & (b.e >= np.abs(b.c))),
        sharp=~some((np.rint(b.c) != b.c) | (b.e > 0)),
    )


def divided(total: Bar, count: Array, dtype: DType) -> Bar:
    """Return the bar of sums divided by their numbers of terms; NaN where that is 0."""
    c = total.c / count.astype(total.c.dtype)
    exact = (total.e == 0) & (count <= 1 / UNIT[dtype.compute])  # larger counts are rounded, too
    k = 0.5 if bool((count <= 2**24).all()) else 1.0
    out = rounded_once(c, total.e / count, dtype, exact, k)
    none = np.broadcast_to(count == 0, c.shape)
    return Bar(np.where(none, np.nan, out.c).astype(c.dtype), np.where(none, 0.0, out.e))
