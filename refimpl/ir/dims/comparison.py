"""What holds of sizes whatever their symbols are.

sympy tells the sign of sums of nonnegative terms alone.  Quotients rounded down and extremes, which
slices and windows leave behind, are replaced here by what they are never below; and sizes of one
symbol are known exactly, by their courses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

from didyma.refimpl.ir.dims import expression as dims
from didyma.refimpl.ir.dims.expression import Dim, Ranges
from didyma.refimpl.ir.dims.intervals import bounds
from didyma.refimpl.ir.dims.quasilinear import course

DEPTH = 6  # extremes and quotients taken apart in one answer


def never_negative(e: Any, depth: int = DEPTH) -> bool:
    """Tell whether a size, an int or an expression over nonnegative symbols, is at least 0.

    False where that is not seen: a symbol's range is not looked at.

    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> never_negative(n - 3 * sympy.floor(n / 3)), never_negative(n - sympy.Max(0, n - 8))
    (True, True)
    >>> never_negative(n - 1), never_negative(sympy.floor(n / 3) + 1 - sympy.floor((n + 2) / 3))
    (False, True)
    """
    e = sympy.sympify(e)
    if e.is_nonnegative is not None or depth == 0:
        return e.is_nonnegative is True
    if (known := course(e)) is not None:
        return known.never_negative
    terms: tuple[Any, ...] = e.args if e.func is sympy.Add else (e,)
    for term in terms:
        factor, atom = term.as_coeff_Mul()
        if atom.func in (sympy.Max, sympy.Min):
            # A sum is not negative if it is not with every argument, or with some argument.
            every = (atom.func is sympy.Max) == (factor < 0)
            rest = e - term
            answers = (
                never_negative(sympy.expand(rest + factor * a), depth - 1) for a in atom.args
            )
            return all(answers) if every else any(answers)
        if atom.func is sympy.floor:
            _, parts = atom.args[0].as_numer_denom()
            least = atom.args[0] - (0 if factor < 0 else 1 - 1 / parts)
            return never_negative(sympy.expand(e - term + factor * least), depth - 1)
    return False


def always_equal(a: Dim, b: Dim, ranges: Ranges) -> bool | None:
    """Tell whether two sizes are equal for all values of their symbols, or for none.

    None where some values make them equal and others do not, as far as is seen.

    >>> n = dims.symbol("n")
    >>> always_equal(dims.add(dims.maximum(n - 1, 0), dims.minimum(n, 1)), n, {"n": (0, 9)})
    True
    >>> always_equal(n, 2 * n + 1, {"n": (0, 9)}), always_equal(n, 2 * n, {"n": (0, 9)})
    (False, None)
    """
    more = dims.sub(a, b)
    low, high = bounds(more, ranges)
    if low == high or low > 0 or high < 0:
        return low == high == 0
    names = dims.free(more)
    if len(names) != 1:
        return None
    known = course(more, ranges[names[0]][0])
    if known is not None and known.never_zero:
        return False
    low, high = ranges[names[0]]
    return True if len(roots(more, low, high)) == high - low + 1 else None


def roots(d: Dim, low: int, high: int) -> range:
    """Return values of a size's one symbol at which it is 0: all from some on, or up to some.

    >>> n = dims.symbol("n")
    >>> roots(dims.sub(n, dims.minimum(n, 64)), 1, 1000), roots(dims.minimum(0, n - 3), 1, 9)
    (range(1, 65), range(3, 10))
    >>> roots(n, 1, 9)
    range(1, 1)
    """
    known = course(sympy.sympify(d), low)
    if known is None:
        return range(low, low)
    other = np.flatnonzero(known.longer(len(known.values), known.period).values)
    if not len(other):
        return range(low, high + 1)
    if other[-1] < len(known.values) - known.period:
        return range(min(low + int(other[-1]) + 1, high + 1), high + 1)
    return range(low, min(low + int(other[0]), high + 1))


def linear_form(d: Dim) -> Dim:
    """Return a size without quotients and extremes where they leave a straight line.

    >>> n = dims.symbol("n")
    >>> linear_form(dims.add(dims.maximum(n - 1, 0), dims.minimum(n, 1)))
    n
    """
    names = dims.free(d)
    e: Any = d
    if isinstance(d, int) or len(names) != 1 or not e.has(sympy.Max, sympy.Min, sympy.floor):
        return d
    known = course(d)
    line = None if known is None else known.line()
    return d if line is None else dims.add(line[0], dims.mul(line[1], dims.symbol(names[0])))


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where that is a size for all values of the symbols; None where it is not.

    >>> f = sympy.floor(dims.symbol("n") / 2)
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
        return dims.canonical(above)
    known = course(above) if below.is_Integer else None
    if known is None or not known.divides(int(below)):
        return None
    return dims.floordiv(dims.canonical(above), int(below))
