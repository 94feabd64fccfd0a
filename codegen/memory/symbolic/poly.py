"""Polynomials over declared sizes, with Python ints and fractions alone.

A polynomial maps monomials to coefficients; a monomial is a sorted tuple of (generator, exponent).
Generators are symbols, and whatever is not polynomial (floors, maxima, rounding up to the
alignment), each with polynomials below and above it.  sympy is met once, in :meth:`Ring.read`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar

Mono: TypeAlias = tuple[tuple[str, int], ...]
Number: TypeAlias = int | Fraction
Poly: TypeAlias = Mapping[Mono, Number]
Direction: TypeAlias = int  # +1: never falls as the symbol grows; -1: never rises; 0: either

ZERO: Poly = {}
SPLITS = 8  # halvings of a box before a proof is given up


def constant(c: Number) -> Poly:
    """Return a constant polynomial."""
    return {(): _whole(c)} if c else {}


def _whole(c: Number) -> Number:
    return int(c) if c.denominator == 1 else c


def combine(a: Poly, b: Poly, times: Number = 1) -> Poly:
    """Return ``a + times * b``."""
    out = dict(a)
    for m, c in b.items():
        total = out.get(m, 0) + times * c
        if total:
            out[m] = total if isinstance(total, int) else _whole(total)
        else:
            out.pop(m, None)
    return out


def _times(a: Mono, b: Mono) -> Mono:
    powers = dict(a)
    for g, e in b:
        powers[g] = powers.get(g, 0) + e
    return tuple(sorted(powers.items()))


def multiply(a: Poly, b: Poly) -> Poly:
    """Return the product."""
    out: Poly = {}
    for (m, c), (n, d) in product(a.items(), b.items()):
        out = combine(out, {_times(m, n): c * d})
    return out


@dataclass(frozen=True, slots=True)
class Generator:
    """Something that is no polynomial: Python source, and polynomials below and above it."""

    source: str
    low: Poly
    high: Poly | None
    directions: Mapping[str, Direction]
    magnitude: int  # no number met in evaluating the source is larger


@dataclass
class Ring:
    """Polynomials over declared symbols and the generators met so far."""

    declared: Sequence[DimVar]
    names: Mapping[str, str]  # Python identifier of each symbol
    generators: dict[str, Generator] = field(default_factory=dict[str, Generator])
    _proofs: dict[tuple[tuple[Mono, Number], ...], bool] = field(
        default_factory=dict[tuple[tuple[Mono, Number], ...], bool]
    )

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Inclusive range of every symbol."""
        return {v.name: (v.lo, v.hi) for v in self.declared}

    def read(self, d: Dim) -> Poly:
        """Return a size as a polynomial; DidymaError ``unbound-dim``, ``bad-dim``."""
        return constant(d) if isinstance(d, int) else self._read(d)

    def _read(self, e: Any) -> Poly:
        if isinstance(e, sympy.Symbol):
            if e.name not in self.names:
                raise DidymaError(
                    "unbound-dim", e.name, got=f"declared: {sorted(self.names)}", want="a range"
                )
            return {((e.name, 1),): 1}
        if e.is_Rational:
            return constant(Fraction(int(e.p), int(e.q)))
        if e.func is sympy.Add:
            out: Poly = {}
            for a in e.args:
                out = combine(out, self._read(a))
            return out
        if e.func is sympy.Mul:
            out = constant(1)
            for a in e.args:
                out = multiply(out, self._read(a))
            return out
        if e.func is sympy.Pow and e.args[1].is_Integer and e.args[1] >= 0:
            out, base = constant(1), self._read(e.args[0])
            for _ in range(int(e.args[1])):
                out = multiply(out, base)
            return out
        return self._generator(e)

    def _generator(self, e: Any) -> Poly:
        parts = [self._read(a) for a in e.args]
        ways = [self.directions(p) for p in parts]
        low, high = (constant(b) for b in dims.bounds(e, self.ranges))
        if e.func in (sympy.floor, sympy.ceiling):
            num, den = self.fraction(parts[0])
            slack = constant(Fraction(den - 1, den))
            if e.func is sympy.floor:
                source, low, high = f"{num} // {den}", combine(parts[0], slack, -1), parts[0]
            else:
                source, low, high = f"-(-{num} // {den})", parts[0], combine(parts[0], slack)
        elif e.func in (sympy.Max, sympy.Min):
            name = "max" if e.func is sympy.Max else "min"
            source = f"{name}({', '.join(map(self.source, parts))})"
        elif e.func is sympy.Mod:
            source = f"{self.source(parts[0])} % {self.source(parts[1])}"
            ways = [dict.fromkeys(self.names, 0)]
        else:
            raise DidymaError(
                "bad-dim", str(e), got=str(e.func), want="+ * // min max over symbols"
            )
        most = max(map(self.magnitude, parts))
        together = {s: _agree([w[s] for w in ways if s in w]) for s in {s for w in ways for s in w}}
        return self.add(Generator(f"({source})", low, high, together, most))

    def add(self, g: Generator) -> Poly:
        """Return a generator as a polynomial; equal sources are one generator."""
        key = f"@{g.source}"
        self.generators.setdefault(key, g)
        return {((key, 1),): 1}

    def aligned(self, p: Poly, alignment: int) -> Poly:
        """Return the least multiple of the alignment from ``p`` on, which must be an integer.

        >>> r = Ring([DimVar("n", 1, 9)], {"n": "n"})
        >>> r.source(r.aligned(r.read(dims.symbol("n") * 4), 64))
        '(-(-4*n // 64) * 64)'
        """
        if all(c.denominator == 1 and c.numerator % alignment == 0 for c in p.values()):
            return p
        if not p.keys() - {()}:
            return constant(-(-p[()] // alignment) * alignment)
        num, den = self.fraction(p)
        inner = num if den == 1 else f"({num} // {den})"
        source = f"(-(-{inner} // {alignment}) * {alignment})"
        high = combine(p, constant(alignment - 1))
        most = self.magnitude(p) + alignment
        return self.add(Generator(source, p, high, self.directions(p), most))

    def fraction(self, p: Poly) -> tuple[str, int]:
        """Return Python source of an integer numerator, and the denominator."""
        den = math.lcm(*(c.denominator for c in p.values()))
        terms = [self._term(m, int(c * den)) for m, c in sorted(p.items(), reverse=True)]
        text = " + ".join(terms).replace("+ -", "- ") or "0"
        return (text if len(terms) == 1 and text[0] != "-" else f"({text})"), den

    def source(self, p: Poly) -> str:
        """Return Python source of a polynomial whose values are integers."""
        num, den = self.fraction(p)
        return num if den == 1 else f"({num} // {den})"

    def _term(self, m: Mono, c: int) -> str:
        factors = [
            self.generators[g].source if g in self.generators else self.names[g]
            for g, e in m
            for _ in range(e)
        ]
        if c == 1 and factors:
            return "*".join(factors)
        return "*".join([str(c), *factors])

    def magnitude(self, p: Poly) -> int:
        """Return a number that no number met in evaluating a polynomial exceeds."""
        den = math.lcm(*(c.denominator for c in p.values()))
        ranges = self.ranges
        total = 0
        for m, c in p.items():
            term = abs(int(c * den))
            for g, e in m:
                made = self.generators.get(g)
                most = made.magnitude if made else max(map(abs, ranges[g]))
                term *= max(most, 1) ** e
            total += term
        return total

    def directions(self, p: Poly) -> dict[str, Direction]:
        """Say which way a polynomial goes as each of its symbols grows."""
        found: dict[str, list[Direction]] = {}
        for m, c in p.items():
            sign = 1 if c > 0 else -1
            for g, _ in m:
                inner = self.generators[g].directions if g in self.generators else {g: 1}
                grows = all(self._nonnegative_generator(h) for h, _ in m)
                for s, d in inner.items():
                    found.setdefault(s, []).append(sign * d if grows else 0)
        out = {s: _agree(ds) for s, ds in found.items()}
        plain = all(g not in self.generators for m in p for g, _ in m)
        for s in (s for s, d in out.items() if d == 0 and plain):
            slope = _difference(p, s)
            if self.nonnegative(slope):
                out[s] = 1
            elif self.nonnegative(combine(ZERO, slope, -1)):
                out[s] = -1
        return out

    def _nonnegative_generator(self, g: str) -> bool:
        if g not in self.generators:
            return self.ranges[g][0] >= 0
        return self.nonnegative(self.generators[g].low)

    def nonnegative(self, p: Poly) -> bool:
        """Tell whether ``p >= 0`` is proven for every binding within the ranges.

        Generators give way to the bound that makes the polynomial smaller; then Bernstein
        coefficients over the box, halved a few times.  Remembered.
        """
        if all(c > 0 and not m for m, c in p.items()):
            return True
        key = tuple(sorted(p.items()))
        if key not in self._proofs:
            self._proofs[key] = self._prove(p)
        return self._proofs[key]

    def _prove(self, p: Poly) -> bool:
        plain = self._without_generators(p)
        if plain is None:
            return False
        symbols = sorted({g for m in plain for g, _ in m})
        box = [self.ranges[s] for s in symbols]
        powers = {tuple(dict(m).get(s, 0) for s in symbols): c for m, c in plain.items()}
        return _positive_on(powers, box, SPLITS)

    def _without_generators(self, p: Poly) -> Poly | None:
        """A polynomial in symbols that is nowhere above ``p``; None if none is found."""
        while met := [(m, c) for m, c in p.items() if any(g in self.generators for g, _ in m)]:
            for m, c in met:
                g = next(g for g, _ in m if g in self.generators)
                rest = tuple((h, e - (h == g)) for h, e in m if e > (h == g))
                if not all(self._nonnegative_generator(h) for h, _ in rest):
                    return None
                bound = self.generators[g].low if c > 0 else self.generators[g].high
                if bound is None:
                    return None
                p = combine(p, {m: c}, -1)
                p = combine(p, multiply(bound, {rest: c}))
        return p


def _agree(ds: Sequence[Direction]) -> Direction:
    return ds[0] if len(set(ds)) == 1 else 0


def _difference(p: Poly, s: str) -> Poly:
    """``p`` at ``s + 1`` less ``p``."""
    out: Poly = {}
    for m, c in p.items():
        shifted: Poly = {tuple(x for x in m if x[0] != s): c}
        for _ in range(dict(m).get(s, 0)):
            shifted = multiply(shifted, {((s, 1),): 1, (): 1})
        out = combine(out, shifted)
    return combine(out, p, -1)


Powers: TypeAlias = Mapping[tuple[int, ...], Number]
Box: TypeAlias = Sequence[tuple[int, int]]


def _positive_on(p: Powers, box: Box, splits: int) -> bool:
    b = _bernstein(p, box)
    if all(c >= 0 for c in b.values()):
        return True
    degree = [max(k[i] for k in b) for i in range(len(box))]
    corners = product(*((0, d) if d else (0,) for d in degree))
    if splits == 0 or any(b[c] < 0 for c in corners):
        return False
    at = max(range(len(box)), key=_width(box))
    lo, hi = box[at]
    if lo == hi:
        return False
    mid = math.isqrt((lo + 1) * (hi + 1)) - 1 if lo >= 0 else (lo + hi) // 2
    mid = min(max(mid, lo), hi - 1)  # only whole numbers count: what lies between halves does not
    halves = ([*box[:at], h, *box[at + 1 :]] for h in ((lo, mid), (mid + 1, hi)))
    return all(_positive_on(p, half, splits - 1) for half in halves)


def _width(box: Box) -> Callable[[int], float]:
    def width(i: int) -> float:
        lo, hi = box[i]
        return (hi - lo) / (1 + abs(lo))

    return width


def _bernstein(p: Powers, box: Box) -> dict[tuple[int, ...], Number]:
    """Bernstein coefficients over a box: the polynomial lies between the least and the greatest,
    and takes those at the corners (Cargo and Shisha, 1966).
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
