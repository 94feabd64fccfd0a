"""Sizes as a plan computes them: Python source, the largest number met, the direction of growth.

What holds of sizes is proved by the algebra of sizes (``didyma.refimpl.ir.dims``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.dims.atoms import Atom
from didyma.refimpl.ir.dims.polynomial import (
    Monomial,
    Number,
    Poly,
    constant,
    denominator,
    plus,
    times,
)
from didyma.refimpl.ir.dims.prover import Prover

Direction: TypeAlias = int  # +1: never falls as the symbol grows; -1: never rises; 0: either


@dataclass
class Ring:
    """Sizes over declared symbols as polynomials, and what a planner asks about them."""

    declared: Sequence[DimVar]
    names: Mapping[str, str]  # Python identifier of each symbol
    prover: Prover = field(init=False)
    _proofs: dict[frozenset[tuple[Monomial, Number]], bool] = field(
        default_factory=dict[frozenset[tuple[Monomial, Number]], bool]
    )

    def __post_init__(self) -> None:
        ranges = {v.name: (v.lo, v.hi) for v in self.declared}
        self.prover = Prover(ranges, kept=ranges)

    @property
    def atoms(self) -> Mapping[str, Atom]:
        """Atoms of the sizes read so far, by their names."""
        return self.prover.atoms.by_name

    def read(self, d: Dim) -> Poly:
        """Return a size as a polynomial; DidymaError ``unbound-dim``, ``bad-dim``."""
        for name in dims.free(d):
            if name not in self.names:
                raise DidymaError(
                    "unbound-dim", name, got=f"declared: {sorted(self.names)}", want="a range"
                )
        p = self.prover.atoms.read(d)
        self._check(p, d)
        return p

    def _check(self, p: Poly, d: Dim) -> None:
        for name in {name for m in p for name in m if name in self.atoms}:
            atom = self.atoms[name]
            if atom.kind == "opaque":
                raise DidymaError(
                    "bad-dim", dims.text(d), got=str(atom.expression),
                    want="+ * // min max over symbols",
                )  # fmt: skip
            for part in atom.parts:
                self._check(part, d)

    def bounded_below(self, p: Poly) -> Poly:
        """Return a new number of which no more is known than that it is at least ``p``."""
        return self.prover.atoms.bounded_below(p)

    def aligned(self, p: Poly, alignment: int) -> Poly:
        """Return the least multiple of the alignment from ``p`` on, which must be an integer.

        >>> r = Ring([DimVar("n", 1, 9)], {"n": "n"})
        >>> r.source(r.aligned(r.read(dims.symbol("n") * 4), 64))
        '64*((4*n + 63) // 64)'
        """
        if all(c.denominator == 1 and c.numerator % alignment == 0 for c in p.values()):
            return p
        up = plus(p, constant(alignment - 1))
        rows = self.prover.atoms.floor(times(up, constant(Fraction(1, alignment))))
        return times(rows, constant(alignment))

    # ---- Python source

    def source(self, p: Poly) -> str:
        """Return Python source of a polynomial whose values are integers."""
        num, den = self._fraction(p)
        return num if den == 1 else f"({num} // {den})"

    def _fraction(self, p: Poly) -> tuple[str, int]:
        """Return Python source of an integer numerator, and the denominator."""
        den = denominator(p)
        rows = [([self._name(name) for name in m], int(c * den)) for m, c in p.items()]
        rows.sort(key=_degrees, reverse=True)
        text = " + ".join(_term(*row) for row in rows).replace("+ -", "- ") or "0"
        return (text if len(rows) == 1 and text[0] != "-" else f"({text})"), den

    def _name(self, name: str) -> str:
        atom = self.atoms.get(name)
        if atom is None:
            return self.names[name]
        if atom.kind == "floor":
            num, den = self._fraction(atom.parts[0])
            return f"({num} // {den})"
        parts = [self.source(p) for p in atom.parts]
        return (
            f"({' % '.join(parts)})" if atom.kind == "mod" else f"{atom.kind}({', '.join(parts)})"
        )

    def magnitude(self, p: Poly) -> int:
        """Return a number that no number met in evaluating a polynomial exceeds."""
        den = denominator(p)
        total: Number = 0
        met = {name for m in p for name in m}
        ends = {name: self.prover.atoms.span((name,)) for name in met}
        for m, c in p.items():
            term = (c if c > 0 else -c) * den
            for name in m:
                lo, hi = ends[name]
                term *= max(1, -math.floor(lo), math.ceil(hi))
            total += term
        inner = (q for name in met if name in self.atoms for q in self.atoms[name].parts)
        return max(math.ceil(total), *map(self.magnitude, inner), 0)

    # ---- growth

    def directions(self, p: Poly) -> dict[str, Direction]:
        """Say which way a polynomial goes as each of its symbols grows."""
        found: dict[str, list[Direction]] = {}
        for m, c in p.items():
            sign = 1 if c > 0 else -1
            grows = all(self.nonnegative({(name,): 1}) for name in m)
            for name in dict.fromkeys(m):
                for s, d in self._directions_of(name).items():
                    found.setdefault(s, []).append(sign * d if grows else 0)
        out = {s: _common(ds) for s, ds in found.items()}
        plain = all(name not in self.atoms for m in p for name in m)
        for s in (s for s, d in out.items() if d == 0 and plain):
            slope = _difference(p, s)
            if self.nonnegative(slope):
                out[s] = 1
            elif self.nonnegative(plus({}, slope, -1)):
                out[s] = -1
        return out

    def _directions_of(self, name: str) -> Mapping[str, Direction]:
        atom = self.atoms.get(name)
        if atom is None:
            return {name: 1}
        if atom.kind == "mod":
            return dict.fromkeys(self.prover.atoms.symbols([name]), 0)
        ways = [self.directions(part) for part in atom.parts]
        return {s: _common([w[s] for w in ways if s in w]) for s in {s for w in ways for s in w}}

    def nonnegative(self, p: Poly) -> bool:
        """Return whether ``p >= 0`` is proved for every binding within the ranges; remembered."""
        if all(c > 0 and not m for m, c in p.items()):
            return True
        key = frozenset(p.items())
        if key not in self._proofs:
            self._proofs[key] = self.prover.nonnegative(p)
        return self._proofs[key]


def _degrees(row: tuple[Sequence[str], int]) -> tuple[list[tuple[str, int]], int]:
    names, c = row
    return [(name, names.count(name)) for name in sorted(set(names))], c


def _term(names: Sequence[str], c: int) -> str:
    return "*".join(names) if c == 1 and names else "*".join([str(c), *names])


def _common(ds: Sequence[Direction]) -> Direction:
    return ds[0] if len(set(ds)) == 1 else 0


def _difference(p: Poly, s: str) -> Poly:
    """``p`` at ``s + 1`` less ``p``."""
    out: Poly = {}
    for m, c in p.items():
        moved: Poly = {tuple(name for name in m if name != s): c}
        for _ in range(m.count(s)):
            moved = times(moved, {(s,): 1, (): 1})
        out = plus(out, moved)
    return plus(out, p, -1)
