"""Proofs about sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, Ranges
from didyma.refimpl.ir.types import TensorType


def at_least(a: Dim, b: Dim, ranges: Ranges) -> bool:
    """Tell whether ``a >= b`` is proven for every binding within the ranges.

    Interval arithmetic first; failing that, each symbol is written as its lower bound plus
    something nonnegative, and a sum whose terms are nonnegative is too: this sees n*m >= n.

    >>> n, m = dims.symbol("n"), dims.symbol("m")
    >>> at_least(n * m, n, {"n": (0, 8), "m": (1, 8)}), at_least(n, m, {"n": (1, 8), "m": (1, 8)})
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    difference = dims.sub(a, b)
    if isinstance(difference, int):
        return difference >= 0
    if dims.bounds(difference, ranges)[0] >= 0:
        return True
    symbols = [dims.symbol(name) for name in dims.free(difference)]
    shifted = sympy.expand(difference.subs({s: s + ranges[s.name][0] for s in symbols}))
    terms = shifted.args if shifted.func is sympy.Add else (shifted,)
    return all(t.is_nonnegative for t in terms)


@dataclass
class Sizes:
    """Answers about sizes under declared ranges, remembered for one plan."""

    ranges: Ranges
    _known: dict[tuple[Dim, Dim], bool] = field(default_factory=dict[tuple[Dim, Dim], bool])

    def fits(self, wanted: TensorType, held: TensorType) -> bool:
        """Tell whether a buffer of type ``wanted`` fits where one of type ``held`` was."""
        if wanted == held:
            return True
        a, b = held.nbytes, wanted.nbytes
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        key = (a, b)
        if key not in self._known:
            self._known[key] = at_least(a, b, self.ranges)
        return self._known[key]
