"""Error bars of sums, in any order that a contract allows.

Source of the bounds: N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., ch. 3
and 4.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import BITS, LEAST, OVER, TINY, UNIT, Bar, Contract, as_error
from didyma.refimpl.ops.pieces import elementwise


def gamma(rounds: int, dtype: DType) -> float:
    """Return the relative error after a chain of correctly rounded ops (Higham's gamma)."""
    t = rounds * UNIT[dtype.compute]
    return t / (1 - t) if t < 0.5 else math.inf


def additions(n: int, contract: Contract) -> int:
    """Return the most inexact additions that any of n terms goes through."""
    return max(0, min(contract.chain(n), n - 1))


def coarser(dtype: DType, contract: Contract) -> int:
    """Return how many roundings of the compute dtype one of the dtype that sums are kept in is."""
    return 1 << (BITS[dtype.compute] - BITS[contract.kept(dtype)])


def fold(
    c: Array, e: Array, mass: Array, rounds: int, tinies: int, dtype: DType, known: Array
) -> Bar:
    """Return the bars of sums of terms, in any order that the contract allows.

    ``c`` is the sum of the centres by IEEE, ``e`` the sum of the errors of the finite terms, and
    ``mass`` the sum of their largest sizes.  Each term goes through at most ``rounds`` roundings,
    of which ``tinies`` in all may lose a subnormal.  ``known`` marks sums that no rounding can
    touch.  Partial sums may overflow where the whole does not: such elements are undecided,
    unless the terms have one sign.
    """
    return Bar(*elementwise(partial(_folded, rounds, tinies, dtype.compute), c, e, mass, known))


def _folded(
    rounds: int, tinies: int, dt: DType, c: Array, e: Array, mass: Array, known: Array
) -> tuple[Array, Array]:
    finite = np.isfinite(c)
    e = as_error(e)
    r = as_error(gamma(rounds, dt) * mass + tinies * TINY[dt])
    full = np.where(known, e, np.where(finite | (e == np.inf), e + r, e))
    over = OVER[dt]
    size = np.abs(c)
    if bool((mass + r >= over).any()):
        # What cancels within the centre's own precision must not be able to overflow either.
        one_sign = finite & (size * (1 + 2.0**-40) + e >= mass) & (mass < over * 2.0**38)
        surely = one_sign & (size - full >= over)
        risky = (mass + r >= over) & ~surely & ~np.isnan(c)
        c = np.where(surely, np.copysign(np.inf, c), c).astype(c.dtype)
        full = np.where(surely, 0.0, np.where(risky, np.inf, full))
        finite = np.isfinite(c)
    full = np.where(finite | (full == np.inf), full, 0.0)
    return c, np.where((c == 0) & (full == 0), LEAST, full)


def sum_bar(b: Bar, axes: tuple[int, ...], keepdims: bool, dtype: DType, contract: Contract) -> Bar:
    """Return the bar of a sum over axes; integers wrap in their own dtype."""
    if not dtype.is_float:
        c = np.asarray(b.c.sum(axis=axes, keepdims=keepdims, dtype=b.c.dtype))
        if not b.e.any():
            return Bar(c, np.zeros(c.shape))
        e = np.asarray(b.e.sum(axis=axes, keepdims=keepdims))
        return Bar(c, np.where(e > 0, np.inf, 0.0))
    n = math.prod(b.c.shape[a] for a in axes)
    c, e, mass, whole = sums(b, axes, keepdims)
    more = contract.rescaled(n) if n > 1 else 0
    small = whole & (mass <= 2.0 ** BITS[contract.kept(dtype)]) & (more == 0)
    known = (e == 0) & (small | (n <= 1))
    rounds = (additions(n, contract) + more) * coarser(dtype, contract)
    return fold(c, e, mass, rounds, 0, dtype, known)


def sums(b: Bar, axes: tuple[int, ...], keepdims: bool) -> tuple[Array, Array, Array, Array]:
    """Return sums of centres, errors and sizes of finite terms, and whether all terms are whole."""
    size = np.abs(b.c) + b.e
    finite = np.isfinite(b.c)
    if not finite.all():
        size = np.where(finite, size, 0)
    whole = (np.rint(b.c) == b.c) | ~finite
    return (
        np.asarray(b.c.sum(axis=axes, keepdims=keepdims)),
        np.asarray(b.e.sum(axis=axes, keepdims=keepdims)),
        np.asarray(size.sum(axis=axes, keepdims=keepdims)),
        np.asarray(whole.all(axis=axes, keepdims=keepdims)),
    )


def dot_bar(
    c: Array, e: Array, mass: Array, n: int, dtype: DType, contract: Contract, whole: Array
) -> Bar:
    """Return the bar of a sum of ``n`` products (matmul, convolution), fused or not.

    ``c``: sum of products of centres, by IEEE; ``e``: the operands' propagated errors,
    sum of |a| eb + |b| ea + ea eb; ``mass``: sum of (|a| + ea)(|b| + eb); of finite terms each.
    ``whole`` marks elements all of whose factors are whole numbers: with a small mass these sums
    are exact in any order.
    """
    known = (e == 0) & ((whole & (mass <= 2.0 ** BITS[contract.kept(dtype)])) | (n == 0))
    rounds = (additions(n, contract) + 1) * coarser(dtype, contract)
    return fold(c, e, mass, rounds, n, dtype, known)
