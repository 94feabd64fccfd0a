"""Proves that sizes are never negative, or multiples, whatever the symbols of a program are.

A size is a row: terms, each a whole or fractional factor and an atom, that is a product of symbols,
an extreme or a quotient rounded down.  A row is never negative if its interval is not.  Otherwise
an atom is taken apart, and what is left is proved: a symbol that a line sets is what it is set to;
``max(a, b)`` is at least ``a``, and at least ``b``; where it is subtracted, both must be proved; a
quotient rounded down is less than one below the quotient; an index is below its extent.  Rows that
are negative at some size tried are given up at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import sympy

from didyma.refimpl.ir.dims.expression import Dim, symbol
from didyma.refimpl.ir.dims.intervals import bounds
from didyma.refimpl.ir.dims.quasilinear import course

Number: TypeAlias = int | Fraction
Row: TypeAlias = Mapping[int, Number]  # by the number of an atom; ``ONE`` is that of the constant
Key: TypeAlias = frozenset[tuple[int, Number]]
Powers: TypeAlias = frozenset[tuple[Any, int]]
ONE = 0
STEPS = 400  # rows looked at for one answer
DEPTH = 100  # extremes taken apart one inside another
UNBOUNDED = 1 << 80


class Prover:
    """Answers for one program; ``False`` says no more than that no proof was found.

    ``settled`` are the symbols that lines set once and for all, in their order, and ``extents``
    those of its indices, whose lines are run for no other value.
    """

    def __init__(
        self,
        ranges: Mapping[str, tuple[int, int]],
        settled: Sequence[tuple[str, Dim]],
        extents: Mapping[str, Dim],
    ) -> None:
        self.extents = extents
        self.ranges = dict(ranges)
        self.names = {name for name, _ in settled}
        self.atoms: list[Any] = [sympy.Integer(1)]
        self.numbers: dict[Any, int] = {self.atoms[0]: ONE}
        self.divisors: dict[int, int] = {}
        self.settled: dict[int, Row] = {}  # later ones have higher numbers
        self.extremes: dict[int, bool] = {}  # whether it is a largest
        self.floors: set[int] = set()
        self.indexed: set[int] = set()
        self.rows: dict[Any, Row] = {}
        self.spans: dict[int, tuple[Number, Number]] = {ONE: (1, 1)}
        self.shifted: dict[int, Mapping[Powers, int]] = {}
        self.proved: set[Key] = set()
        for name, d in settled:
            row = self.row(d)
            self.ranges[name] = self._interval(row)
            atom = self.number(symbol(name))
            self.settled[atom], self.divisors[atom] = row, self.divisor(row)

    # ---- rows

    def number(self, atom: Any) -> int:
        """Number of an atom."""
        found = self.numbers.get(atom)
        if found is None:
            found = self.numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
            if atom.func in (sympy.Max, sympy.Min):
                self.extremes[found] = atom.func is sympy.Max
            elif atom.func is sympy.floor:
                self.floors.add(found)
            elif any(s.name in self.extents for s in atom.free_symbols):
                self.indexed.add(found)
        return found

    def row(self, e: Any) -> Row:
        """Terms of a size; symbols of one value are numbers."""
        if isinstance(e, int) or e.is_Integer:
            return {ONE: int(e)} if e else {}
        found = self.rows.get(e)
        if found is None:
            found = self.rows[e] = self._row(e)
        return found

    def _row(self, e: Any) -> Row:
        fixed = {
            s: self.ranges[s.name][0]
            for s in e.free_symbols
            if s.name not in self.names
            and s.name not in self.extents
            and self.ranges[s.name][0] == self.ranges[s.name][1]
        }
        if fixed:
            return self.row(sympy.expand(e.xreplace(fixed)))
        row: dict[int, Number] = {}
        for term in e.args if e.func is sympy.Add else (e,):
            factor, atom = term.as_coeff_Mul()
            number = int(factor) if factor.is_Integer else Fraction(factor.p, factor.q)
            row[self.number(atom)] = number
        return row

    def span(self, atom: int) -> tuple[Number, Number]:
        """Interval of an atom's values."""
        found = self.spans.get(atom)
        if found is None:
            e = self.atoms[atom]
            found = bounds(e, self.ranges) if e.is_integer else (-UNBOUNDED, UNBOUNDED)
            self.spans[atom] = found
        return found

    def _interval(self, row: Row) -> tuple[int, int]:
        lo = hi = Fraction(0)
        for atom, factor in row.items():
            a, b = (factor * x for x in self.span(atom))
            lo, hi = lo + min(a, b), hi + max(a, b)
        return math.ceil(lo), math.floor(hi)

    def least(self, row: Row) -> Number:
        """Lower end of a row's interval."""
        total: Number = 0
        for atom, factor in row.items():
            total += factor * self.span(atom)[0 if factor > 0 else 1]
        return total

    # ---- what atoms are

    def below_extent(self, atom: int) -> Row | None:
        """The most that an atom with an index can be; None if that is not seen."""
        e = self.atoms[atom]
        factors = e.args if e.func is sympy.Mul else (e,)
        for f in factors:
            if f.is_Symbol and f.name in self.extents:
                rest = sympy.Mul(*(g for g in factors if g is not f))
                if f in rest.free_symbols or self.least(self.row(rest)) < 0:
                    return None
                return self.row(sympy.expand((self.extents[f.name] - 1) * rest))
        return None

    def quotient(self, atom: int, *, down: bool) -> Row | None:
        """The least, or else the most, that a quotient rounded down can be.

        None where it is not seen how much is lost.
        """
        inside = self.row(self.atoms[atom].args[0])
        if not down:
            return inside
        if not all(self.atoms[a].is_integer for a in inside):
            return None
        parts = math.lcm(*(f.denominator for f in inside.values()))
        return sum_of(inside, {ONE: Fraction(1 - parts, parts)})

    def moved(self, atom: int) -> Mapping[Powers, int]:
        """An atom as a polynomial over how much its symbols are above their least values."""
        known = self.shifted.get(atom)
        if known is not None:
            return known
        found: dict[Powers, int] = {frozenset(): 1}
        e = self.atoms[atom]
        for f in e.args if e.func is sympy.Mul else (e,) if atom != ONE else ():
            base, power = f.as_base_exp()
            plain = base.is_Symbol and power.is_Integer and power > 0
            base, n = (base, int(power)) if plain else (f, 1)
            low = self.ranges[base.name][0] if plain else 0
            more: dict[Powers, int] = {}
            for powers, times in found.items():
                for k in range(0 if low else n, n + 1):
                    key = powers | {(base, k)} if k else powers
                    more[key] = times * math.comb(n, k) * low ** (n - k)
            found = more
        self.shifted[atom] = found
        return found

    def by_signs(self, row: Row) -> bool:
        """Prove a row by its signs when each symbol is its least value and a rest.

        That sees that ``n*m >= n``.  Of one symbol, all values are looked at.
        """
        moved: dict[Powers, Number] = {}
        for atom, factor in row.items():
            for powers, times in self.moved(atom).items():
                moved[powers] = moved.get(powers, 0) + factor * times
        bases = {base for powers in moved for base, _ in powers if not base.is_Symbol}
        if min(moved.values(), default=0) >= 0 and all(
            self.span(self.number(base))[0] >= 0 for base in bases
        ):
            return True
        names = {s.name for atom in row for s in self.atoms[atom].free_symbols}
        if len(names) != 1:
            return False
        (name,) = names
        rationals = (sympy.Rational(f.numerator, f.denominator) for f in row.values())
        terms = (f * self.atoms[a] for f, a in zip(rationals, row, strict=True))
        found = course(sympy.expand(sympy.Add(*terms)), self.ranges[name][0])
        return found is not None and found.never_negative

    # ---- answers

    def at_least(self, a: Dim, b: Dim, hopeless: Callable[[Row], bool]) -> bool:
        """Tell whether ``a >= b`` is proved; ``hopeless`` rows are negative somewhere."""
        return _Search(self, hopeless).never_negative(sum_of(self.row(a), self.row(b), -1))

    def multiple(self, d: Dim, of: int) -> bool:
        """Tell whether a size is proved to be a multiple of a number."""
        return self.divisor(self.row(d)) % of == 0

    def divisor(self, row: Row) -> int:
        """A number that a size, given as a row, is a multiple of; 0 of 0."""
        found = 0
        for atom, factor in row.items():
            if isinstance(factor, Fraction) or not self.atoms[atom].is_integer:
                return 1
            known = self.divisors.get(atom)
            if known is None:
                parts = self.atoms[atom].args if atom in self.extremes else ()
                known = math.gcd(*(self.divisor(self.row(p)) for p in parts)) if parts else 1
                self.divisors[atom] = known
            found = math.gcd(found, factor * known)
        return found


def sum_of(a: Row, b: Row, times: Number = 1) -> Row:
    """Return ``a + times * b``."""
    out = dict(a)
    for atom, factor in b.items():
        total = out.get(atom, 0) + times * factor
        if total:
            out[atom] = total if type(total) is int or total.denominator > 1 else int(total)
        else:
            del out[atom]
    return out


class _Search:
    """One search for a proof."""

    def __init__(self, prover: Prover, hopeless: Callable[[Row], bool]) -> None:
        self.p = prover
        self.hopeless = hopeless
        self.left = STEPS
        self.failed: set[Key] = set()

    def never_negative(self, row: Row, depth: int = DEPTH) -> bool:
        """Tell whether a row is proved never to be negative."""
        p = self.p
        passed: list[Key] = []
        proved = False
        while not (proved := p.least(row) >= 0):
            key = frozenset(row.items())
            if key in p.proved or key in self.failed:
                proved = key in p.proved
                break
            passed.append(key)
            self.left -= 1
            if self.left < 0 or self.hopeless(row):
                break
            extremes = sorted((p.extremes[a] is (row[a] > 0), a) for a in row if a in p.extremes)
            if extremes:
                one_will_do, atom = extremes[0]
                proved = depth > 0 and self.branches(row, atom, one_will_do, depth - 1)
                if proved or not one_will_do:
                    break
            following = self.following(row, stuck=bool(extremes))
            if following is None:
                proved = p.by_signs(row)
                break
            row = following
        (p.proved if proved else self.failed).update(passed)
        return proved

    def branches(self, row: Row, atom: int, one_will_do: bool, depth: int) -> bool:
        """Prove a row with one argument of an extreme in its place, or with each."""
        for argument in self.p.atoms[atom].args:
            if self.never_negative(_instead(row, atom, self.p.row(argument)), depth) is one_will_do:
                return one_will_do
        return not one_will_do

    def following(self, row: Row, *, stuck: bool) -> Row | None:
        """A row that is never above this one, with one atom less; None where there is none.

        Which argument of an extreme will do may hang on what is subtracted.  So where the search is
        ``stuck`` at one, a symbol that is subtracted goes first.
        """
        p = self.p
        lines = [a for a in row if a in p.settled and (row[a] < 0 or not stuck)]
        if lines:
            last = max(lines)
            return _instead(row, last, p.settled[last])
        for atom in row:
            end: Row | None = None
            if row[atom] < 0 and atom in p.indexed:
                end = p.below_extent(atom)
            elif atom in p.floors:
                end = p.quotient(atom, down=row[atom] > 0)
            if end is not None:
                return _instead(row, atom, end)
        return None


def _instead(row: Row, atom: int, by: Row) -> Row:
    """Return a row with something else in an atom's place."""
    return sum_of({a: f for a, f in row.items() if a != atom}, by, row[atom])
