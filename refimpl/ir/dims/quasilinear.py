"""Sizes of one symbol, exactly: which numbers they are, from the symbol's least value on.

A size made of the symbol by sums, whole factors, quotients rounded down and extremes is, from some
value on, a line for each residue of a period.  So finitely many numbers and a slope say all of it,
and what holds of them holds for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.int64]


LONGEST = 1 << 14  # numbers that are looked at
LARGEST = 1 << 50  # of them


class _Unseen(Exception):
    """A course of more numbers, or larger ones, than are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Numbers, of which the last ``period`` go on for ever, each time by ``slope`` more."""

    values: Array
    period: int
    slope: int

    @property
    def is_zero(self) -> bool:
        """Tell whether all numbers are 0."""
        return self.slope == 0 and not self.values.any()

    @property
    def never_zero(self) -> bool:
        """Tell whether all numbers are known to be other than 0."""
        return bool((self.values > 0).all() and self.slope >= 0) or bool(
            (self.values < 0).all() and self.slope <= 0
        )

    @property
    def never_negative(self) -> bool:
        """Tell whether no number is below 0."""
        return self.slope >= 0 and bool((self.values >= 0).all())

    def divides(self, by: int) -> bool:
        """Tell whether all numbers are multiples of a number."""
        return self.slope % by == 0 and not (self.values % by).any()

    def line(self) -> tuple[int, int] | None:
        """First number and what each next one is more, if that is the same everywhere."""
        long = self.longer(len(self.values) + 1, self.period).values
        steps = np.diff(long)
        return (int(long[0]), int(steps[0])) if (steps == steps[0]).all() else None

    def longer(self, start: int, period: int) -> Course:
        """Write out so many numbers before the period, which may become a multiple of itself."""
        have = len(self.values)
        first = have - self.period
        turns, at = np.divmod(np.arange(have, start + period) - first, self.period)
        values = np.concatenate([self.values, self.values[first + at] + self.slope * turns])
        return Course(values, period, self.slope * (period // self.period))


def _seen(a: Course, start: int, period: int) -> Course:
    if start + period > LONGEST:
        raise _Unseen
    return a.longer(start, period)


def _together(a: Course, b: Course) -> tuple[Course, Course]:
    period = math.lcm(a.period, b.period)
    start = max(len(a.values) - a.period, len(b.values) - b.period)
    return _seen(a, start, period), _seen(b, start, period)


def _sum(a: Course, b: Course) -> Course:
    a, b = _together(a, b)
    return Course(a.values + b.values, a.period, a.slope + b.slope)


def _times(a: Course, factor: int) -> Course:
    if max(abs(a.slope), int(abs(a.values).max()), 1) * abs(factor) > LARGEST:
        raise _Unseen
    return Course(a.values * factor, a.period, a.slope * factor)


def _quotient(a: Course, by: int) -> Course:
    start = len(a.values) - a.period
    a = _seen(a, start, a.period * (by // math.gcd(a.slope, by)))
    return Course(a.values // by, a.period, a.slope // by)


def _extreme(pick: Callable[..., Array], sign: int) -> Callable[[Course, Course], Course]:
    def run(a: Course, b: Course) -> Course:
        a, b = _together(a, b)
        rise = a.slope - b.slope
        if rise:
            # The lines of a residue cross in this many periods, if they do.
            ahead = (b.values - a.values)[-a.period :]
            turns = max(0, int((-(-ahead // rise) if rise > 0 else ahead // rise).max()) + 1)
            start = len(a.values) - a.period + turns * a.period
            a, b = _seen(a, start, a.period), _seen(b, start, b.period)
        slope = max(sign * a.slope, sign * b.slope) * sign
        return Course(pick(a.values, b.values), a.period, slope)

    return run


_LARGEST, _SMALLEST = _extreme(np.maximum, 1), _extreme(np.minimum, -1)


@lru_cache(maxsize=4096)
def course(e: Any, least: int = 0) -> Course | None:
    """Course of a size of one symbol that is at least so much; None for what has none known.

    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> found = course(sympy.floor(n / 2 + sympy.Rational(1, 2)) - sympy.floor(n / 2))
    >>> found.values.tolist(), found.period, found.slope
    ([0, 1], 2, 0)
    """
    if len(e.free_symbols) > 1:
        return None
    try:
        return _course(e, least)
    except _Unseen:
        return None


def _course(e: Any, least: int) -> Course | None:
    if e.is_Integer:
        return _times(Course(np.array([1]), 1, 0), int(e))
    if e.is_Symbol:
        return Course(np.array([least]), 1, 1)
    if e.func is sympy.floor:
        above, below = e.args[0].as_numer_denom()
        inside = _course(sympy.expand(above), least) if below.is_Integer else None
        return inside and _quotient(inside, int(below))
    parts = [_course(a, least) for a in e.args]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    if e.func is sympy.Add:
        return reduce(_sum, known)
    if e.func in (sympy.Max, sympy.Min):
        return reduce(_LARGEST if e.func is sympy.Max else _SMALLEST, known)
    if e.func is sympy.Mul and len(known) == 2 and e.args[0].is_Integer:
        return _times(known[1], int(e.args[0]))
    if e.func is sympy.Mod and e.args[1].is_Integer and e.args[1] > 0:
        by = int(e.args[1])
        return _sum(known[0], _times(_quotient(known[0], by), -by))
    return None
