"""Facets that say what ops mean in the ring (``ring``), on operands with error bars.

A rule yields payloads that every correct implementation has.  Where the bars leave a decision open
and the outcomes have different payloads, it is UNKNOWN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring, ring_rules
from didyma.refimpl.ops.bar_math import undecided
from didyma.refimpl.ops.bars import LEAST, Bar
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.refimpl.ops.spec import RingRule, Use


def where_decided(decided: Array, payload: Array) -> Array:
    """Return payloads where a decision is made, UNKNOWN elsewhere."""
    return np.asarray(ring.where(decided, payload, UNKNOWN))


def of_result(_bars: Sequence[Bar], _payloads: Sequence[Array], _use: Use[Any], out: Bar) -> Array:
    """Return the payloads of results that are decided numbers: the rule of what yields those."""
    return where_decided(out.e <= LEAST, ring.embed(out.c))


def _sign_known(b: Bar) -> Array:
    """Return where all numbers inside a bar have one sign; the sign of a NaN is unspecified."""
    return np.asarray(((b.e == 0) & (b.c == b.c)) | (np.abs(b.c) > b.e))


def _quotient_known(name: str, a: Bar, b: Bar) -> Array:
    """Return where all quotients inside two bars have one whole part."""
    q = a.c / b.c
    error = (a.e + np.abs(q) * b.e) / (np.abs(b.c) - b.e) + np.abs(q) * 2.0**-40
    whole = np.floor if name == "floormod" else np.trunc
    same = (whole(q - error) == whole(q + error)) & (np.abs(b.c) > b.e)
    return np.asarray(((a.e == 0) & (b.e == 0)) | same)


def larger(largest: bool, payloads: Sequence[Array], bars: Sequence[Bar]) -> Array:
    """Return the payloads of the larger or smaller of two numbers, where the bars decide it."""
    (p, q), (a, b) = payloads, bars
    found = ring_rules.extreme(largest, p, q, a.c, b.c)
    if not (a.e.any() or b.e.any()):
        return np.asarray(found)
    apart = (a.c - a.e > b.c + b.e) | (b.c - b.e > a.c + a.e)
    return where_decided(apart | (p == q), found)


def scalar(name: str) -> RingRule[Any]:
    """Return the rule of an elementwise op that a scalar operation of loop programs computes."""

    def run(bars: Sequence[Bar], payloads: Sequence[Array], use: Use[Any], out: Bar) -> Array:
        if name in ("min", "max"):
            return larger(name == "max", payloads, bars)
        if name in ring_rules.WHOLE or name == "floordiv":
            return of_result(bars, payloads, use, out)
        if len(bars) == 1:
            found = ring_rules.unary(name, payloads[0], bars[0].c, out.c)
        else:
            (p, q), (a, b) = payloads, bars
            found = ring_rules.binary(name, p, q, a.c, b.c, out.c)
        if name in ("abs", "copysign"):
            decided = np.logical_and.reduce(np.broadcast_arrays(*(_sign_known(b) for b in bars)))
            return where_decided(decided | (found == ring.negate(found)), found)
        if not any(b.e.any() for b in bars):
            return np.asarray(found)
        if name in ("floormod", "truncmod"):
            return where_decided(_quotient_known(name, bars[0], bars[1]), found)
        if name in ring_rules.LIMITED:
            return where_decided(~undecided(*bars), found)
        return np.asarray(found)

    return run


def extreme_of(largest: bool, p: Array, bar: Bar, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the payloads of extremes over axes: of all that may win, if they have one payload."""
    c = bar.c if largest else -bar.c
    low, high = c - bar.e, c + bar.e
    best = np.max(low, axis=axes, keepdims=True, initial=-np.inf)
    wins = ~(high < best)
    most = np.max(np.where(wins, p, ring.ZERO), axis=axes, keepdims=keepdims, initial=0)
    least = np.min(np.where(wins, p, UNKNOWN), axis=axes, keepdims=keepdims, initial=UNKNOWN)
    return where_decided(most == least, most)


def total(p: Array, _bar: Bar, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the payloads of sums over axes."""
    return np.asarray(ring.sum_of(p, axes, keepdims=keepdims))


def mean(p: Array, axes: tuple[int, ...], keepdims: bool, count: Array) -> Array:
    """Return the payloads of sums over axes divided by numbers of terms."""
    return np.asarray(ring.divide(ring.sum_of(p, axes, keepdims=keepdims), ring.embed(count)))


def product(p: Array, _bar: Bar, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the payloads of products over axes."""
    kept = [a for a in range(p.ndim) if a not in axes]
    terms = math.prod(p.shape[a] for a in axes)
    line = np.transpose(p, [*kept, *axes]).reshape([*(p.shape[a] for a in kept), terms])
    found = ring.product_of(line, -1)
    shape = [1 if a in axes else n for a, n in enumerate(p.shape)]
    return np.asarray(found).reshape(shape) if keepdims else np.asarray(found)
