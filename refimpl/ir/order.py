"""Which sizes are never below zero, whatever their symbols are.

sympy answers for sums of nonnegative terms alone.  Quotients rounded down and extremes, which
slices and windows leave behind, are replaced here by what they are never below.
"""

from __future__ import annotations

from typing import Any

import sympy

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
