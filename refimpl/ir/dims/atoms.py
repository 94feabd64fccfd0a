"""The canonical form in which questions about sizes are answered.

A size is read once from its sympy expression: it becomes a polynomial over symbols and atoms.  An
atom is what is no polynomial: a quotient rounded down, an extreme or a remainder of polynomials.
Equal atoms have one name, and a quotient keeps no multiple inside that can stand outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import sympy

from didyma.refimpl.ir.dims.expression import Dim, Ranges
from didyma.refimpl.ir.dims.polynomial import (
    Monomial,
    Number,
    Poly,
    constant,
    denominator,
    is_constant,
    plus,
    times,
)

UNBOUNDED = 1 << 80
AtomKind: TypeAlias = Literal["floor", "max", "min", "mod", "opaque"]
Span: TypeAlias = tuple[Number, Number]


@dataclass(frozen=True, slots=True)
class Atom:
    """What is no polynomial, with polynomials below and above it.

    ``number`` counts the atoms of a table.  ``parts`` are the arguments: of a ``mod`` the dividend
    and the divisor, a positive constant; of an ``opaque`` atom, which stands for its expression or
    for a number that is only bounded, none.  ``low`` and ``high`` are None where no polynomial is
    known; ``span`` is the interval of the values.
    """

    number: int
    kind: AtomKind
    expression: Any
    parts: tuple[Poly, ...]
    span: Span
    low: Poly | None
    high: Poly | None
    is_integer: bool = True

    @property
    def is_extreme(self) -> bool:
        """Return whether the atom is a maximum or a minimum."""
        return self.kind in ("max", "min")


class Atoms:
    """A table of the atoms in the sizes that it has read, under declared ranges.

    Symbols with a single value are read as that number, but for those in ``kept``.
    """

    def __init__(self, ranges: Ranges, kept: frozenset[str] = frozenset()) -> None:
        self.ranges = dict(ranges)
        self.kept = kept
        self.by_name: dict[str, Atom] = {}
        self._names: dict[Any, str] = {}
        self._polys: dict[Any, Poly] = {}
        self._spans: dict[Monomial, Span] = {(): (1, 1)}
        self._symbols: dict[str, frozenset[str]] = {}  # in each atom that was asked about

    # ---- reading

    def read(self, d: Dim) -> Poly:
        """Return a size as a polynomial; KeyError for a symbol without a range."""
        if isinstance(d, int):
            return constant(d)
        return self._read(d)

    def _read(self, e: Any) -> Poly:
        found = self._polys.get(e)
        if found is None:
            found = self._polys[e] = self._parse(e)
        return found

    def _parse(self, e: Any) -> Poly:
        if e.is_Symbol:
            lo, hi = self.ranges[e.name]
            return constant(lo) if lo == hi and e.name not in self.kept else {(e.name,): 1}
        if e.is_Rational:
            return constant(Fraction(int(e.p), int(e.q)))
        if e.func is sympy.Add:
            out: Poly = {}
            for a in e.args:
                out = plus(out, self._read(a))
            return out
        if e.func is sympy.Mul:
            return self._product(map(self._read, e.args))
        if e.func is sympy.Pow and e.exp.is_Integer and e.exp > 0:
            return self._product([self._read(e.base)] * int(e.exp))
        if e.func is sympy.floor:
            return self.floor(self._read(e.args[0]))
        if e.func is sympy.ceiling:
            return plus({}, self.floor(plus({}, self._read(e.args[0]), -1)), -1)
        if e.func in (sympy.Max, sympy.Min):
            kind: AtomKind = "max" if e.func is sympy.Max else "min"
            return self.extreme(kind, [self._read(a) for a in e.args])
        if e.func is sympy.Mod and e.args[1].is_Integer and e.args[1] > 0:
            return self._remainder(self._read(e.args[0]), int(e.args[1]))
        return self._opaque(e)

    def _product(self, factors: Iterator[Poly] | Sequence[Poly]) -> Poly:
        out: Poly = {(): 1}
        for f in factors:
            out = times(out, f)
        return out

    def floor(self, p: Poly) -> Poly:
        """Return a polynomial rounded down."""
        outside: dict[Monomial, Number] = {}
        inside: dict[Monomial, Number] = {}
        for m, c in p.items():
            if m and (c.denominator > 1 or not self.is_integer(m)):
                inside[m] = c
            elif whole := math.floor(c):
                outside[m] = whole
            if not m and c.denominator > 1:
                inside[m] = c - math.floor(c)
        if is_constant(inside):
            return outside
        span = tuple(map(math.floor, self.interval(inside)))
        low: Poly | None = None
        if all(map(self.is_integer, inside)):
            parts = denominator(inside)
            low = plus(inside, {(): Fraction(1 - parts, parts)})
        atom = self._atom("floor", None, (inside,), (span[0], span[1]), low, inside)
        return plus(outside, atom)

    def extreme(self, kind: AtomKind, parts: Sequence[Poly]) -> Poly:
        """Return the largest or the smallest of polynomials."""
        pick = max if kind == "max" else min
        if all(map(is_constant, parts)):
            return constant(pick(p.get((), 0) for p in parts))
        ends = [self.interval(p) for p in parts]
        span = (pick(lo for lo, _ in ends), pick(hi for _, hi in ends))
        return self._atom(kind, None, tuple(parts), span, *map(constant, span))

    def _remainder(self, p: Poly, by: int) -> Poly:
        if is_constant(p):
            return constant(p.get((), 0) % by)
        whole = all(c.denominator == 1 and self.is_integer(m) for m, c in p.items())
        span = (0, by - 1 if whole else by)
        parts = (p, constant(by))
        return self._atom("mod", None, parts, span, {}, constant(span[1]), is_integer=whole)

    def _opaque(self, e: Any) -> Poly:
        span = self._opaque_span(e)
        return self._atom(
            "opaque", e, (), span, *map(constant, span), is_integer=bool(e.is_integer)
        )

    def _opaque_span(self, e: Any) -> Span:
        if e.func is sympy.Mod:
            return 0, max(0, math.ceil(self.interval(self._read(e.args[1]))[1]) - 1)
        if e.func is sympy.Pow:
            (a, b), (k, n) = (self.interval(self._read(x)) for x in e.args)
            if a >= 0 and k >= 0:
                return a ** int(k), b ** int(n)
            if k == n < 0 < b:  # one over a divisor: a size, which is positive where it divides
                return Fraction(b) ** int(k), Fraction(max(a, 1)) ** int(k)
        return -UNBOUNDED, UNBOUNDED

    def bounded_below(self, low: Poly) -> Poly:
        """Return a new atom of which no more is known than that it is an integer >= ``low``."""
        span = (self.interval(low)[0], UNBOUNDED)
        return self._atom("opaque", len(self.by_name), (), span, low, None)

    def _atom(
        self,
        kind: AtomKind,
        e: Any,
        parts: tuple[Poly, ...],
        span: Span,
        low: Poly | None,
        high: Poly | None,
        *,
        is_integer: bool = True,
    ) -> Poly:
        key = (kind, e, tuple(frozenset(p.items()) for p in parts))
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"@{len(self.by_name)}"
            self.by_name[name] = Atom(
                len(self.by_name), kind, e, parts, span, low, high, is_integer
            )
        return {(name,): 1}

    def is_integer(self, m: Monomial) -> bool:
        """Return whether a monomial's values are integers."""
        return all(name not in self.by_name or self.by_name[name].is_integer for name in m)

    def symbols(self, names: Iterable[str]) -> set[str]:
        """Return the symbols among names and in the arguments of the atoms among them."""
        found: set[str] = set()
        for name in names:
            atom = self.by_name.get(name)
            if atom is None:
                found.add(name)
            elif name in self._symbols:
                found |= self._symbols[name]
            else:
                found |= self._symbols.setdefault(name, self._within(atom))
        return found

    def _within(self, atom: Atom) -> frozenset[str]:
        if atom.parts:
            return frozenset(self.symbols(n for p in atom.parts for m in p for n in m))
        if isinstance(atom.expression, sympy.Basic):
            return frozenset(s.name for s in atom.expression.free_symbols)
        return frozenset()

    # ---- intervals

    def span(self, m: Monomial) -> Span:
        """Return the interval of a monomial's values."""
        found = self._spans.get(m)
        if found is None:
            atom = self.by_name.get(m[-1])
            lo, hi = self.ranges[m[-1]] if atom is None else atom.span
            if len(m) > 1:
                a, b = self.span(m[:-1])
                corners = (a * lo, a * hi, b * lo, b * hi)
                lo, hi = min(corners), max(corners)
            found = self._spans[m] = (lo, hi)
        return found

    def interval(self, p: Poly) -> Span:
        """Return an interval that contains every value of a polynomial."""
        lo: Number = 0
        hi: Number = 0
        for m, c in p.items():
            a, b = self.span(m)
            lo += c * (a if c > 0 else b)
            hi += c * (b if c > 0 else a)
        return lo, hi

    def bounds(self, d: Dim) -> tuple[int, int]:
        """Return an interval of integers that contains every value of a size."""
        if isinstance(d, int):
            return d, d
        lo, hi = self.interval(self._read(d))
        return math.ceil(lo), math.floor(hi)

    def least(self, p: Poly) -> Number:
        """Return the lower end of the interval."""
        total: Number = 0
        for m, c in p.items():
            total += c * self.span(m)[0 if c > 0 else 1]
        return total

    # ---- values

    def value(self, p: Poly, env: dict[str, Number]) -> Number:
        """Return the value of a polynomial; ``env`` binds its symbols and keeps atoms' values."""
        total: Number = 0
        for m, c in p.items():
            for name in m:
                found = env.get(name)
                if found is None:
                    found = env[name] = self._value(self.by_name[name], env)
                c *= found
            total += c
        return total

    def _value(self, atom: Atom, env: dict[str, Number]) -> Number:
        args = [self.value(p, env) for p in atom.parts]
        match atom.kind:
            case "floor":
                return math.floor(args[0])
            case "max":
                return max(args)
            case "min":
                return min(args)
            case "mod":
                return args[0] % args[1]
            case "opaque":
                raise ArithmeticError(atom.expression)

    # ---- divisors

    def divisor(self, p: Poly, of: Mapping[str, int]) -> int:
        """Return a number that divides a polynomial's values; 0 where they are 0.

        ``of`` gives divisors of symbols.
        """
        found = 0
        for m, c in p.items():
            if c.denominator > 1 or not self.is_integer(m):
                return 1
            found = math.gcd(found, int(c) * math.prod(self._divisor(name, of) for name in m))
        return found

    def _divisor(self, name: str, of: Mapping[str, int]) -> int:
        atom = self.by_name.get(name)
        if atom is None or not atom.is_extreme:
            return of.get(name, 1)
        return math.gcd(*(self.divisor(p, of) for p in atom.parts))
