"""Questions about ranges of bytes whose ends may be symbolic: does one contain, or overlap, others?

Integers are compared as such.  Symbolic ends are compared by a proof for every binding of the
symbols (``didyma.refimpl.ir.dims``).  Where no proof is found, they are compared at the ends of the
symbols' ranges and at some bindings between, always the same ones; if the ranges have no more
bindings than that, at all of them, which is a proof, too.  The index of a ``Repeat`` is below its
extent there.  Whoever runs a program compares the sizes of that run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.dims.evaluation import FOLDS
from didyma.refimpl.ir.dims.polynomial import Poly
from didyma.refimpl.ir.dims.prover import Prover
from didyma.refimpl.verify.sizes import Sizes

BINDINGS = 14  # tried where there is no proof
_LOOKS = 5  # of these that a search for a proof looks at
Number: TypeAlias = int | Fraction


def _whole(x: Number) -> int:
    if x.denominator != 1:
        raise ArithmeticError(x)
    return int(x)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How questions about symbolic sizes were answered.

    ``proved`` of them for every binding of the symbols; ``sampled`` were answered yes without a
    proof, by ``BINDINGS`` bindings.  A no has a counterexample, and counts as proved.
    """

    proved: int = 0
    sampled: int = 0

    def __add__(self, other: Evidence) -> Evidence:
        """Return the counts of both together."""
        return Evidence(self.proved + other.proved, self.sampled + other.sampled)

    def __str__(self) -> str:
        """Return one line about it; empty where nothing was asked."""
        asked = self.proved + self.sampled
        if not self.sampled:
            return f"symbolic laws: {asked:,} proved" if asked else ""
        return f"symbolic laws: {self.sampled:,} of {asked:,} sampled at {BINDINGS} bindings"


class Ranges:
    """Answers questions about the sizes of one program, and counts how they were answered.

    ``extents`` are those of its indices, outer ones first; ``definitions`` are the symbols that its
    lines set once and for all, in their order.
    """

    def __init__(
        self, sizes: Sizes, extents: Mapping[str, Dim], definitions: Sequence[tuple[str, Dim]] = ()
    ) -> None:
        self.sizes = sizes
        self.extents = extents
        self.definitions = definitions
        self.evidence = Evidence()
        self._values: dict[Dim, tuple[int, ...]] = {}
        self._parts: dict[Any, Sequence[Number]] = {}
        self._bindings: list[dict[str, int]] | None = None
        self._looks: list[dict[str, Number]] = []  # the first of them, with values of atoms
        self._idle: list[frozenset[str]] = []  # indices of loops that do not run, at each binding
        self._all = False  # whether those are all bindings
        self._prover: Prover | None = None

    def at_least(self, a: Dim, b: Dim) -> bool:
        """Return whether ``a >= b`` at every binding."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        return self._answer(
            lambda: a is b or self._proved(a, b, (a, b)),
            lambda: all(x >= y for x, y in self._tried(a, b)),
        )

    def multiple(self, d: Dim, of: int) -> bool:
        """Return whether ``d`` is a multiple of a number at every binding."""
        if isinstance(d, int):
            return d % of == 0
        return self._answer(
            lambda: self._proofs().divisible(d, of),
            lambda: all(x % of == 0 for (x,) in self._tried(d)),
        )

    def apart(self, a: tuple[Dim, Dim], b: tuple[Dim, Dim]) -> bool:
        """Return whether two ranges share no byte at any binding; an empty one never does."""
        ends = (*a, *b)
        if all(isinstance(d, int) for d in ends):
            return _apart(*(int(d) for d in ends))
        if a == b and a[0] != a[1] and not self._apart_where_tried(*ends):
            return False
        return self._answer(
            lambda: (
                a[1] == b[0]
                or b[1] == a[0]
                or any(self._proved(x, y, ends) for x, y in ((b[0], a[1]), (a[0], b[1])))
                or any(x == y for x, y in (a, b))
            ),
            lambda: self._apart_where_tried(*ends),
        )

    def _apart_where_tried(self, *ends: Dim) -> bool:
        if self._bindings is None:
            self._draw()
        return all(_apart(*four) for four in self._tried(*ends))

    def covered(self, written: Sequence[tuple[Dim, Dim]], lo: Dim, hi: Dim) -> bool:
        """Return whether ranges together contain ``lo`` to ``hi`` at every binding."""
        if not dims.free((lo, hi, *(d for w in written for d in w))):
            return lo == hi or _covers((int(lo), int(hi)), ((int(b), int(e)) for b, e in written))
        return self._answer(
            lambda: lo == hi or (lo, hi) in written or self._chained(written, lo, hi),
            lambda: self._covered_where_tried(written, lo, hi),
        )

    def _answer(self, proof: Callable[[], bool], trial: Callable[[], bool]) -> bool:
        """Answer by a proof, or else by a trial; and count which it was."""
        if self._bindings is None:
            self._draw()
        proved = not self._all and proof()
        answer = proved or trial()
        exact = proved or self._all or not answer
        self.evidence += Evidence(int(exact), int(not exact))
        return answer

    def _proofs(self) -> Prover:
        if self._prover is None:
            self._prover = Prover(self.sizes.ranges, self.definitions, self.extents)
        return self._prover

    def _proved(self, a: Dim, b: Dim, asked: Iterable[Dim]) -> bool:
        """Return whether ``a >= b`` is proved where the loops of the indices asked about run."""
        mentioned = self.extents.keys() & dims.free(asked) if self.extents else ()
        seen = [k for k, idle in enumerate(self._idle[:_LOOKS]) if idle.isdisjoint(mentioned)]

        prover = self._proofs()

        def hopeless(p: Poly) -> bool:
            """Return whether a polynomial is negative at one of the bindings tried."""
            try:
                return any(prover.atoms.value(p, self._looks[k]) < 0 for k in seen)
            except ArithmeticError:  # an atom whose values are not known
                return False

        return prover.at_least(a, b, hopeless)

    def _chained(self, written: Sequence[tuple[Dim, Dim]], lo: Dim, hi: Dim) -> bool:
        """Return whether ranges are proved to follow one another from ``lo`` to ``hi``.

        Those with an index that ``lo`` and ``hi`` do not have may not have been written.
        """
        allowed = dims.free((lo, hi))
        candidates = [w for w in written if not (self.extents.keys() & dims.free(w)) - set(allowed)]
        at, advanced = lo, True
        while advanced:
            advanced = False
            for w in candidates:
                if self._proved(at, w[0], (lo, hi)) and self._proved(w[1], at, (lo, hi)):
                    candidates.remove(w)
                    at, advanced = w[1], True
                    break
        return at is not lo and self._proved(at, hi, (lo, hi))

    def _covered_where_tried(self, written: Sequence[tuple[Dim, Dim]], lo: Dim, hi: Dim) -> bool:
        """Return whether ranges together contain ``lo`` to ``hi`` at the bindings tried."""
        indices = self.extents.keys()
        here, there = indices & dims.free((lo, hi)), [indices & dims.free(w) for w in written]
        asked = zip(self.values(lo), self.values(hi), strict=True)
        ends = [zip(self.values(b), self.values(e), strict=True) for b, e in written]
        for idle, whole, *parts in zip(self._idle, asked, *ends, strict=True):
            done = [p for p, within in zip(parts, there, strict=True) if not within & idle]
            if not here & idle and not _covers(whole, done):
                return False
        return True

    def _tried(self, *ds: Dim) -> Iterator[tuple[int, ...]]:
        """Yield the sizes together at each binding at which the loops of their indices run.

        A loop that never runs at some size has no lines there that could be wrong.
        """
        rows = zip(*(self.values(d) for d in ds), strict=True)
        if not self.extents:
            return rows
        mentioned = self.extents.keys() & dims.free(ds)
        return (row for row, idle in zip(rows, self._idle, strict=True) if not mentioned & idle)

    def values(self, d: Dim) -> tuple[int, ...]:
        """Return a size at every binding tried."""
        if self._bindings is None:
            self._draw()
            assert self._bindings is not None
        if isinstance(d, int):
            return (d,) * len(self._bindings)
        row = self._values.get(d)
        if row is None:
            try:
                row = tuple(map(_whole, self._many(d, self._bindings)))
            except (ArithmeticError, LookupError):  # at some of them there is no such size
                row = tuple(_value(d, env) for env in self._bindings)
            self._values[d] = row
        return row

    def _many(self, e: Any, bindings: Sequence[Mapping[str, int]]) -> Sequence[Number]:
        """Return the values of an expression, each of whose parts is evaluated once."""
        row = self._parts.get(e)
        if row is None:
            if isinstance(e, sympy.Symbol):
                row = [env[e.name] for env in bindings]
            elif e.is_Rational:
                row = [Fraction(e.p, e.q) if e.q != 1 else int(e.p)] * len(bindings)
            else:
                fold = FOLDS[e.func]
                row = [
                    fold(x) for x in zip(*(self._many(a, bindings) for a in e.args), strict=True)
                ]
            self._parts[e] = row
        return row

    def _draw(self) -> None:
        """Choose the bindings to try: all there are, or else both ends and some between."""
        r = Random(0)
        ranges = self.sizes.ranges
        names = [n for n in ranges if n not in dict(self.definitions)]
        spans = [range(ranges[n][0], ranges[n][1] + 1) for n in names]
        self._all = math.prod(len(x) for x in spans) <= BINDINGS
        if self._all:
            drawn = [dict(zip(names, at, strict=True)) for at in itertools.product(*spans)]
        else:
            drawn = [
                {n: lo for n, (lo, _) in ranges.items()},
                {n: hi for n, (_, hi) in ranges.items()},
            ]
            for k in range(BINDINGS - 2):
                near = k % 3 == 0  # small sizes are where plans differ
                drawn.append(
                    {
                        n: r.randint(lo, min(hi, lo + 16) if near else hi)
                        for n, (lo, hi) in ranges.items()
                    }
                )
        for env in drawn:
            for name, d in self.definitions:
                env[name] = _value(d, env)
        self._bindings = drawn
        self._idle = [self._bound_indices(env) for env in drawn]
        self._looks = [dict[str, Number](env) for env in drawn[:_LOOKS]]

    def _bound_indices(self, env: dict[str, int]) -> frozenset[str]:
        """Bring indices below their extents; return those of loops that do not run."""
        idle: set[str] = set()
        for name, extent in self.extents.items():
            most = _value(extent, env)
            if most <= 0:
                idle.add(name)
            env[name] %= max(most, 1)
        return frozenset(idle)


def _covers(whole: tuple[int, int], parts: Iterable[tuple[int, int]]) -> bool:
    at, end = whole
    for start, stop in sorted(parts):
        if start <= at:
            at = max(at, stop)
    return at >= end


def _apart(a: int, b: int, c: int, d: int) -> bool:
    return a == b or c == d or b <= c or d <= a


def _value(d: Dim, env: Mapping[str, int]) -> int:
    try:
        return dims.evaluate(d, env)
    except (DidymaError, ArithmeticError, TypeError):  # no size at all there
        return -1
