"""Polynomials over names, with whole or fractional coefficients, and proofs of their sign.

A polynomial maps monomials to coefficients other than 0.  A monomial is a sorted tuple of names, in
which a name stands as often as its power says; that of a constant is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias, TypeVar

Number: TypeAlias = int | Fraction
Monomial: TypeAlias = tuple[str, ...]
Poly: TypeAlias = Mapping[Monomial, Number]
N = TypeVar("N", int, Number)

SPLITS = 8  # halvings of a box before a proof is given up


def constant(c: N) -> dict[Monomial, N]:
    """Return a constant polynomial."""
    return {(): c if c.__class__ is int else _reduced(c)} if c else {}


def _reduced(c: Any) -> Any:
    """Return a number as an int if it is one."""
    return c if c.denominator > 1 else int(c)


def is_constant(p: Poly) -> bool:
    """Return whether a polynomial is a number."""
    return not any(p)


def plus(a: Mapping[Monomial, N], b: Mapping[Monomial, N], factor: N = 1) -> dict[Monomial, N]:
    """Return ``a + factor * b``."""
    out = dict(a)
    for m, c in b.items():
        total: Any = out.get(m, 0) + factor * c
        if total:
            out[m] = total if total.__class__ is int else _reduced(total)
        else:
            out.pop(m, None)
    return out


def joined(a: Monomial, b: Monomial) -> Monomial:
    """Return the product of two monomials."""
    return tuple(sorted(a + b)) if a and b else a or b


def times(a: Mapping[Monomial, N], b: Mapping[Monomial, N]) -> dict[Monomial, N]:
    """Return the product."""
    out: dict[Monomial, N] = {}
    for m, c in a.items():
        for n, d in b.items():
            key = joined(m, n)
            total: Any = out.get(key, 0) + c * d
            if total:
                out[key] = total if total.__class__ is int else _reduced(total)
            else:
                out.pop(key, None)
    return out


def coefficient(p: Mapping[Monomial, N], name: str) -> dict[Monomial, N] | None:
    """Return the factor of a name, or None if the polynomial is not linear in it."""
    out: dict[Monomial, N] = {}
    for m, c in p.items():
        if (count := m.count(name)) > 1:
            return None
        if count:
            out[tuple(n for n in m if n != name)] = c
    return out


def without(m: Monomial, part: Iterable[str]) -> Monomial | None:
    """Return a monomial divided by another; None where it is no multiple of that.

    >>> without(("m", "n", "n"), ("n",)), without(("m",), ("n",))
    (('m', 'n'), None)
    """
    left = list(m)
    for name in part:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)


def instead(p: Poly, m: Monomial, name: str, by: Poly) -> dict[Monomial, Number]:
    """Return a polynomial in which ``by`` replaces one factor ``name`` of the monomial ``m``."""
    rest = without(m, (name,))
    assert rest is not None
    out: dict[Monomial, Number] = {k: c for k, c in p.items() if k != m}
    return plus(out, times(by, {rest: 1}) if rest else by, p[m])


def at(p: Poly, values: Mapping[str, int]) -> dict[Monomial, Number]:
    """Return a polynomial with values for some of its names.

    >>> at({("m", "n"): 2, ("m",): 1, (): 5}, {"n": 3})
    {('m',): 7, (): 5}
    """
    out: dict[Monomial, Number] = {}
    for m, c in p.items():
        rest = tuple(name for name in m if name not in values)
        total = out.get(rest, 0) + c * math.prod(values[name] for name in m if name in values)
        if total:
            out[rest] = total
        else:
            out.pop(rest, None)
    return out


def denominator(p: Poly) -> int:
    """Return the least common denominator of the coefficients."""
    return math.lcm(*(c.denominator for c in p.values()))


# ---- signs on a box


def nonnegative_on(p: Poly, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether ``p >= 0`` is proved for all integers in the ranges of its names.

    By Bernstein coefficients over the box of the ranges, which is halved a few times.

    >>> square = {("n", "n"): 1, ("n",): -4, (): 4}
    >>> nonnegative_on(square, {"n": (2, 99)}), nonnegative_on({**square, (): 3}, {"n": (2, 99)})
    (True, False)
    """
    names = sorted({name for m in p for name in m})
    powers = {tuple(m.count(name) for name in names): c for m, c in p.items()}
    return _nonnegative(powers, [ranges[name] for name in names], SPLITS)


Powers: TypeAlias = Mapping[tuple[int, ...], Number]
Box: TypeAlias = Sequence[tuple[int, int]]


def _nonnegative(p: Powers, box: Box, splits: int) -> bool:
    b = _bernstein(p, box)
    if all(c >= 0 for c in b.values()):
        return True
    degree = [max(k[i] for k in b) for i in range(len(box))]
    corners = product(*((0, d) if d else (0,) for d in degree))
    if splits == 0 or any(b[c] < 0 for c in corners):
        return False
    widths = [(hi - lo) / (1 + abs(lo)) for lo, hi in box]
    at = widths.index(max(widths))
    lo, hi = box[at]
    if lo == hi:
        return False
    mid = math.isqrt((lo + 1) * (hi + 1)) - 1 if lo >= 0 else (lo + hi) // 2
    mid = min(max(mid, lo), hi - 1)  # only integers count: what lies between halves does not
    halves = ([*box[:at], h, *box[at + 1 :]] for h in ((lo, mid), (mid + 1, hi)))
    return all(_nonnegative(p, half, splits - 1) for half in halves)


def _bernstein(p: Powers, box: Box) -> dict[tuple[int, ...], Number]:
    """Return Bernstein coefficients over a box.

    The polynomial lies between the least and the greatest, and takes those at the corners (Cargo
    and Shisha, 1966).
    """
    grid: dict[tuple[int, ...], Number] = dict(p) or {(0,) * len(box): 0}
    for i, (lo, hi) in enumerate(box):
        n = max(k[i] for k in grid)
        lines: dict[tuple[int, ...], list[Number]] = {}
        for k, c in grid.items():
            line = lines.setdefault((*k[:i], *k[i + 1 :]), [0] * (n + 1))
            for j in range(k[i] + 1):  # x = lo + (hi - lo) t
                line[j] += c * math.comb(k[i], j) * lo ** (k[i] - j) * (hi - lo) ** j
        grid = {
            (*rest[:i], r, *rest[i:]): _coefficient(line, r)
            for rest, line in lines.items()
            for r in range(n + 1)
        }
    return grid


def _coefficient(powers: Sequence[Number], r: int) -> Number:
    n = len(powers) - 1
    parts = (a * Fraction(math.comb(r, j), math.comb(n, j)) for j, a in enumerate(powers[: r + 1]))
    return sum(parts, Fraction(0))
