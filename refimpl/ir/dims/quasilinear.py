"""The exact values of a size of one symbol, for every value of the symbol from its least on.

A size made of a symbol by sums, integer factors, quotients rounded down, extremes and remainders
is eventually quasi-linear: from some value on it is a line for each residue of a period.  So its
first values and a slope determine all of them, and what is true of these is true everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from didyma.refimpl.ir.dims.atoms import Atoms
from didyma.refimpl.ir.dims.polynomial import Poly, denominator, times

Array: TypeAlias = NDArray[np.int64]

LONGEST = 1 << 14  # values that are computed
LARGEST = 1 << 50  # of a value, and of the last of those computed


class _TooLong(Exception):
    """More values would be needed, or larger ones, than are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class QuasiLinear:
    """The values of an eventually quasi-linear sequence up to the end of its first period.

    The last ``period`` of ``values`` repeat for ever, each time greater by ``slope``.
    """

    values: Array
    period: int
    slope: int

    @property
    def never_zero(self) -> bool:
        """Return whether all values are known to have one sign and none to be 0."""
        return bool((self.values > 0).all() and self.slope >= 0) or bool(
            (self.values < 0).all() and self.slope <= 0
        )

    @property
    def never_negative(self) -> bool:
        """Return whether no value is below 0."""
        return self.slope >= 0 and bool((self.values >= 0).all())

    def first_negative(self, count: int) -> int | None:
        """Return the index of the first negative value, if it is among the first ``count``."""
        values = self.longer(len(self.values), self.period).values[:count]
        below = np.flatnonzero(values < 0)
        if len(below):
            return int(below[0])
        if self.slope >= 0 or count <= len(values):
            return None
        last = values[-self.period :]
        turns = last // -self.slope + 1  # after which each residue is negative
        at = len(values) - self.period + np.arange(self.period) + turns * self.period
        return int(at.min()) if at.min() < count else None

    def divides(self, by: int) -> bool:
        """Return whether all values are multiples of a number."""
        return self.slope % by == 0 and not (self.values % by).any()

    def line(self) -> tuple[int, int] | None:
        """Return the first value and the step between values, if it is the same everywhere."""
        long = self.longer(len(self.values) + 1, self.period).values
        steps = np.diff(long)
        return (int(long[0]), int(steps[0])) if (steps == steps[0]).all() else None

    def longer(self, start: int, period: int) -> QuasiLinear:
        """Write out ``start`` values before a period that is a multiple of the present one."""
        have = len(self.values)
        first = have - self.period
        turns, at = np.divmod(np.arange(have, start + period) - first, self.period)
        values = np.concatenate([self.values, self.values[first + at] + self.slope * turns])
        return QuasiLinear(values, period, self.slope * (period // self.period))


def _extended(a: QuasiLinear, start: int, period: int) -> QuasiLinear:
    if start + period > LONGEST or abs(a.slope) * (start + period) > LARGEST:
        raise _TooLong
    return a.longer(start, period)


def _aligned(a: QuasiLinear, b: QuasiLinear) -> tuple[QuasiLinear, QuasiLinear]:
    period = math.lcm(a.period, b.period)
    start = max(len(a.values) - a.period, len(b.values) - b.period)
    return _extended(a, start, period), _extended(b, start, period)


def _sum(a: QuasiLinear, b: QuasiLinear) -> QuasiLinear:
    a, b = _aligned(a, b)
    return QuasiLinear(a.values + b.values, a.period, a.slope + b.slope)


def _times(a: QuasiLinear, factor: int) -> QuasiLinear:
    if max(abs(a.slope), int(abs(a.values).max()), 1) * abs(factor) > LARGEST:
        raise _TooLong
    return QuasiLinear(a.values * factor, a.period, a.slope * factor)


def _quotient(a: QuasiLinear, by: int) -> QuasiLinear:
    start = len(a.values) - a.period
    a = _extended(a, start, a.period * (by // math.gcd(a.slope, by)))
    return QuasiLinear(a.values // by, a.period, a.slope // by)


def _extreme(pick: Callable[..., Array], sign: int, a: QuasiLinear, b: QuasiLinear) -> QuasiLinear:
    a, b = _aligned(a, b)
    rise = a.slope - b.slope
    if rise:
        # The lines of a residue cross in this many periods, if they do.
        ahead = (b.values - a.values)[-a.period :]
        turns = max(0, int((-(-ahead // rise) if rise > 0 else ahead // rise).max()) + 1)
        start = len(a.values) - a.period + turns * a.period
        a, b = _extended(a, start, a.period), _extended(b, start, b.period)
    slope = max(sign * a.slope, sign * b.slope) * sign
    return QuasiLinear(pick(a.values, b.values), a.period, slope)


_ONE = QuasiLinear(np.array([1]), 1, 0)
_LARGEST, _SMALLEST = partial(_extreme, np.maximum, 1), partial(_extreme, np.minimum, -1)


def quasilinear(p: Poly, atoms: Atoms, least: int) -> QuasiLinear | None:
    """Return the values of a polynomial of one symbol from the symbol's value ``least`` on.

    None where it has several symbols, a product of them, a fractional coefficient or too many or
    too large values.  ``atoms`` is the table in which it was read.

    >>> from didyma.refimpl.ir.dims.expression import ceildiv, floordiv, sub, symbol
    >>> n, atoms = symbol("n"), Atoms({"n": (0, 9)})
    >>> found = quasilinear(atoms.read(sub(ceildiv(n, 2), floordiv(n, 2))), atoms, 0)
    >>> found.values.tolist(), found.period, found.slope
    ([0, 1], 2, 0)
    """
    if len(atoms.symbols([name for m in p for name in m])) > 1:
        return None
    try:
        return _values(p, atoms, least)
    except _TooLong:
        return None


def _values(p: Poly, atoms: Atoms, least: int) -> QuasiLinear | None:
    total = _times(_ONE, int(p.get((), 0)))
    for m, c in p.items():
        if len(m) > 1 or c.denominator > 1:
            return None
        if m:
            term = _of_name(m[0], atoms, least)
            if term is None:
                return None
            total = _sum(total, _times(term, int(c)))
    return total


def _of_name(name: str, atoms: Atoms, least: int) -> QuasiLinear | None:
    atom = atoms.by_name.get(name)
    if atom is None:
        return QuasiLinear(np.array([least]), 1, 1)
    if atom.kind == "opaque":
        return None
    first = atom.parts[0]
    if atom.kind == "floor":
        by = denominator(first)
        inside = _values(times(first, {(): by}), atoms, least)
        return inside and _quotient(inside, by)
    parts = [_values(p, atoms, least) for p in atom.parts]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    if atom.kind == "mod":
        by = int(atom.parts[1][()])
        return _sum(known[0], _times(_quotient(known[0], by), -by))
    return reduce(_LARGEST if atom.kind == "max" else _SMALLEST, known)
