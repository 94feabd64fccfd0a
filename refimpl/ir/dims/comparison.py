"""Answers about one or two sizes: order, equality, divisibility.

Each is proved for every binding of the symbols within their ranges.  ``Prover`` answers many such
questions about the sizes of one program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from didyma.refimpl.ir.dims.atoms import UNBOUNDED, Atoms
from didyma.refimpl.ir.dims.expression import (
    Dim,
    Ranges,
    add,
    canonical,
    floordiv,
    free,
    mul,
    sub,
    symbol,
)
from didyma.refimpl.ir.dims.prover import Prover
from didyma.refimpl.ir.dims.quasilinear import QuasiLinear, quasilinear


def bounds(d: Dim, ranges: Ranges) -> tuple[int, int]:
    """Return an interval that contains every value of a size, for symbols within their ranges.

    >>> bounds(2 * symbol("n") + 1, {"n": (1, 8)})
    (3, 17)
    """
    return (d, d) if isinstance(d, int) else Atoms(ranges).bounds(d)


def at_least(a: Dim, b: Dim, ranges: Ranges) -> bool:
    """Return whether ``a >= b`` is proved for every binding within the ranges.

    >>> n, m = symbol("n"), symbol("m")
    >>> at_least(n * m, n, {"n": (0, 8), "m": (1, 8)}), at_least(n, m, {"n": (1, 8), "m": (1, 8)})
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return Prover(ranges).at_least(a, b)


def never_negative(d: Dim) -> bool:
    """Return whether a size is proved to be at least 0, whatever the ranges of its symbols are.

    >>> n = symbol("n")
    >>> never_negative(n - 3 * floordiv(n, 3)), never_negative(n - sympy.Max(0, n - 8))
    (True, True)
    >>> never_negative(n - 1), never_negative(floordiv(n, 3) + 1 - floordiv(n + 2, 3))
    (False, True)
    """
    return d >= 0 if isinstance(d, int) else _never_negative(d)


@lru_cache(maxsize=4096)
def _never_negative(d: sympy.Expr) -> bool:
    return at_least(d, 0, dict.fromkeys(free(d), (0, UNBOUNDED)))


def divisible(d: Dim, by: int) -> bool:
    """Return whether a size is proved to be a multiple of a number for every binding.

    >>> n = symbol("n")
    >>> divisible(64 * n + 16, 16), divisible(4 * n, 16)
    (True, False)
    """
    if isinstance(d, int):
        return d % by == 0
    return Prover(dict.fromkeys(free(d), (0, UNBOUNDED))).divisible(d, by)


def always_equal(a: Dim, b: Dim, ranges: Ranges) -> bool | None:
    """Return whether two sizes are equal for every binding within the ranges, or for none.

    None where it is neither, or where that is not seen.

    >>> n = symbol("n")
    >>> always_equal(add(sympy.Max(n - 1, 0), sympy.Min(n, 1)), n, {"n": (0, 9)})
    True
    >>> always_equal(n, 2 * n + 1, {"n": (0, 9)}), always_equal(n, 2 * n, {"n": (0, 9)})
    (False, None)
    """
    more = sub(a, b)
    low, high = bounds(more, ranges)
    if low == high or low > 0 or high < 0:
        return low == high == 0
    names = free(more)
    if len(names) != 1:
        return None
    low, high = ranges[names[0]]
    found = exact_values(more, low)
    if found is not None and found.never_zero:
        return False
    return True if len(roots(more, low, high)) == high - low + 1 else None


def exact_values(d: Dim, least: int = 0) -> QuasiLinear | None:
    """Return the values of a size of one symbol that is at least ``least``; None if not known."""
    names = free(d)
    if len(names) > 1:
        return None
    atoms = Atoms(dict.fromkeys(names, (least, UNBOUNDED)))
    return quasilinear(atoms.read(d), atoms, least)


def roots(d: Dim, low: int, high: int) -> range:
    """Return values of a size's one symbol at which it is 0: all from some on, or up to some.

    >>> n = symbol("n")
    >>> roots(n - sympy.Min(n, 64), 1, 1000), roots(sympy.Min(0, n - 3), 1, 9)
    (range(1, 65), range(3, 10))
    >>> roots(n, 1, 9)
    range(1, 1)
    """
    found = exact_values(d, low)
    if found is None:
        return range(low, low)
    other = np.flatnonzero(found.longer(len(found.values), found.period).values)
    if not len(other):
        return range(low, high + 1)
    if other[-1] < len(found.values) - found.period:
        return range(min(low + int(other[-1]) + 1, high + 1), high + 1)
    return range(low, min(low + int(other[0]), high + 1))


def linear_form(d: Dim) -> Dim:
    """Return a size of one symbol without quotients and extremes, if its values are on a line.

    >>> n = symbol("n")
    >>> linear_form(add(sympy.Max(n - 1, 0), sympy.Min(n, 1)))
    n
    """
    names = free(d)
    e: Any = d
    if isinstance(d, int) or len(names) != 1 or not e.has(sympy.Max, sympy.Min, sympy.floor):
        return d
    found = exact_values(d)
    line = None if found is None else found.line()
    return d if line is None else add(line[0], mul(line[1], symbol(names[0])))


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Return ``a / b`` where that is a size for all values of the symbols, else None.

    >>> f = floordiv(symbol("n"), 2)
    >>> exact_quotient(8 * f + 8, f + 1), exact_quotient(8, 3)
    (8, None)
    """
    if b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return None if a % b else a // b
    quotient: Any = sympy.cancel(sympy.sympify(a) / b)
    above, below = quotient.as_numer_denom()
    if below == 1:
        return canonical(above)
    whole = canonical(above)
    found = exact_values(whole) if below.is_Integer else None
    if found is None or not found.divides(int(below)):
        return None
    return floordiv(whole, int(below))
