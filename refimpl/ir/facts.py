"""What holds of sizes whatever their symbols are.

sympy tells the sign of sums of nonnegative terms alone.  Quotients rounded down and extremes, which
slices and windows leave behind, are replaced here by what they are never below.
"""

from __future__ import annotations

from typing import Any

import sympy

from refimpl.ir import dims
from refimpl.ir.dims import Dim

DEPTH = 6  # extremes and quotients taken apart in one answer


def never_negative(e: Any, depth: int = DEPTH) -> bool:
    """Tell whether a size, an int or an expression over nonnegative symbols, is at least 0.

    False where that is not seen: a symbol's range is not looked at.

    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> never_negative(n - 3 * sympy.floor(n / 3)), never_negative(n - sympy.Max(0, n - 8))
    (True, True)
    >>> never_negative(n - 1)
    False
    """
    e = sympy.sympify(e)
    if e.is_nonnegative is not None or depth == 0:
        return e.is_nonnegative is True
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
    q = sympy.cancel(sympy.sympify(a) / b)
    return dims.canonical(q) if sympy.fraction(q)[1] == 1 else None
