"""Proofs about sizes, for every binding of their symbols.

A difference of sizes is a polynomial over symbols and atoms (``atoms``).  It is never negative if
its interval is not, or if all its values are known exactly and none is (``quasilinear``).  Where
neither decides, something in it is replaced by what makes it no greater, and the rest is proved: a
symbol that a line of a program sets is replaced by what it is set to; ``max(a, b)`` by ``a`` or by
``b``, one of which suffices; where it is subtracted, both must be proved; a quotient rounded down
by the quotient or by what is less than one below it; an index by its extent less one.  What is left
is proved by the signs of its terms, or by Bernstein coefficients.  Polynomials that are negative at
a binding tried before are given up at once.

A symbol that a line sets to 0 or 1, both of which is proved, chooses between sizes.  Then each
choice is proved by itself, with those set later from it that it settles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from didyma.refimpl.ir.dims.atoms import UNBOUNDED, Atoms
from didyma.refimpl.ir.dims.expression import Dim, Ranges
from didyma.refimpl.ir.dims.polynomial import (
    Monomial,
    Number,
    Poly,
    at,
    constant,
    denominator,
    instead,
    is_constant,
    nonnegative_on,
    plus,
    times,
    without,
)
from didyma.refimpl.ir.dims.quasilinear import quasilinear

Key: TypeAlias = frozenset[tuple[Monomial, Number]]
Hopeless: TypeAlias = Callable[[Poly], bool]
STEPS = 400  # polynomials looked at for one answer
DEPTH = 100  # extremes taken apart one inside another
CASES = 32  # of choices, looked at one by one


class Prover:
    """Answers questions about sizes; ``False`` says no more than that no proof was found.

    ``definitions`` are the symbols that lines of a program set once and for all, in their order,
    and ``extents`` those of its indices, whose lines are run for no other value.  Symbols with a
    single value are numbers here, but for those in ``kept``.
    """

    def __init__(
        self,
        ranges: Ranges,
        definitions: Sequence[tuple[str, Dim]] = (),
        extents: Mapping[str, Dim] | None = None,
        kept: Iterable[str] = (),
    ) -> None:
        self.extents = extents or {}
        names = frozenset(name for name, _ in definitions)
        self.atoms = Atoms(ranges, names.union(self.extents, kept))
        self.divisors: dict[str, int] = {}
        self.definitions: dict[str, tuple[int, Poly]] = {}  # with its place in the order
        self.proved: set[Key] = set()
        self.choices: dict[str, tuple[str, ...]] = {}  # with those that their definitions name
        self._cases: dict[tuple[str, ...], list[dict[str, int]]] = {}
        self._moved: dict[Monomial, Poly] = {}
        for k, (name, d) in enumerate(definitions):
            p = self.atoms.read(d)
            self.atoms.ranges[name] = self.atoms.bounds(d)
            self.definitions[name] = k, p
            self.divisors[name] = self.atoms.divisor(p, self.divisors)
            if ranges[name] == (0, 1) and self._is_zero_or_one(p):
                self.choices[name] = self._chosen(p)
                self.atoms.ranges[name] = (0, 1)

    def _is_zero_or_one(self, p: Poly) -> bool:
        whole = all(c.denominator == 1 and self.atoms.is_integer(m) for m, c in p.items())
        return whole and self.nonnegative(p) and self.nonnegative(plus({(): 1}, p, -1))

    def at_least(self, a: Dim, b: Dim, hopeless: Hopeless | None = None) -> bool:
        """Return whether ``a >= b`` is proved; ``hopeless`` polynomials are negative somewhere."""
        return self.nonnegative(plus(self.atoms.read(a), self.atoms.read(b), -1), hopeless)

    def nonnegative(self, p: Poly, hopeless: Hopeless | None = None) -> bool:
        """Return whether a polynomial is proved never to be negative."""
        return _Search(self, hopeless).nonnegative(p)

    def divisible(self, d: Dim, by: int) -> bool:
        """Return whether a size is proved to be a multiple of a number."""
        return self.atoms.divisor(self.atoms.read(d), self.divisors) % by == 0

    # ---- proofs of one polynomial as it is

    def exact(self, p: Poly) -> bool | None:
        """Return whether a polynomial of one symbol is never negative, from all of its values.

        None where it has several symbols, is linear, or has too many values.
        """
        atoms = self.atoms
        if all(name not in atoms.by_name for m in p for name in m):
            return None
        names = atoms.symbols([name for m in p for name in m])
        if len(names) != 1:
            return None
        (name,) = names
        lo, hi = atoms.ranges[name]
        found = quasilinear(times(p, constant(denominator(p))), atoms, lo)
        if found is None:
            return None
        if found.never_negative:
            return True
        free = name not in self.definitions and name not in self.extents
        return False if free and found.first_negative(hi - lo + 1) is not None else None

    def by_signs(self, p: Poly) -> bool:
        """Prove a polynomial by its signs when each symbol is its least value and a rest.

        That sees that ``n*m >= n``.
        """
        moved: dict[Monomial, Number] = {}
        for m, c in p.items():
            for key, times_ in self.moved(m).items():
                moved[key] = moved.get(key, 0) + c * times_
        atoms = self.atoms
        met = {name for m in moved for name in m if name in atoms.by_name}
        return min(moved.values(), default=0) >= 0 and all(
            atoms.by_name[name].span[0] >= 0 for name in met
        )

    def moved(self, m: Monomial) -> Poly:
        """Return a monomial over how much its symbols are above their least values."""
        found = self._moved.get(m)
        if found is None:
            found = {(): 1}
            for name in m:
                low = 0 if name in self.atoms.by_name else self.atoms.ranges[name][0]
                found = times(found, {(name,): 1, (): low} if low else {(name,): 1})
            self._moved[m] = found
        return found

    def on_box(self, p: Poly) -> bool:
        """Prove a polynomial over symbols with bounded ranges by its Bernstein coefficients."""
        ranges = self.atoms.ranges
        names = {name for m in p for name in m}
        if not names <= ranges.keys() or any(ranges[n][1] >= UNBOUNDED for n in names):
            return False
        return nonnegative_on(p, ranges)

    # ---- choices

    def cases(self, p: Poly) -> list[Poly] | None:
        """Return a polynomial at each combination of its choices; None if it has none, or many.

        A choice that is settled by those before it has one value.
        """
        names = self._chosen(p) if self.choices else ()
        if not names:
            return None
        if names not in self._cases:
            found: list[dict[str, int]] = [{}]
            for name in names:
                _, definition = self.definitions[name]
                found = [
                    {**case, name: value}
                    for case in found
                    for value in _values(at(definition, case))
                ]
                if len(found) > CASES:
                    found = []
            self._cases[names] = found
        return [at(p, case) for case in self._cases[names]] or None

    def _chosen(self, p: Poly) -> tuple[str, ...]:
        """Return the choices in a polynomial, and in their definitions, in their order."""
        here = {name for m in p for name in m if name in self.choices}
        every = here.union(*(self.choices[name] for name in here))
        return tuple(sorted(every, key=lambda name: self.definitions[name][0]))

    # ---- replacements

    def rest(self, m: Monomial, name: str) -> Monomial | None:
        """Return a monomial without one factor, if that is never negative."""
        rest = without(m, (name,))
        return rest if rest is not None and self.atoms.span(rest)[0] >= 0 else None

    def extremes(self, p: Poly) -> Iterator[tuple[bool, int, Monomial, str]]:
        """Yield the extremes in a polynomial, with whether one of their arguments suffices."""
        for m, c in p.items():
            for name in dict.fromkeys(m):
                atom = self.atoms.by_name.get(name)
                if atom and atom.is_extreme and self.rest(m, name) is not None:
                    yield (atom.kind == "max") is (c > 0), atom.number, m, name

    def defined_symbol(self, p: Poly, *, subtracted: bool) -> Poly | None:
        """Replace the symbol that is set last by what it is set to."""
        if not self.definitions:
            return None
        found = [
            (self.definitions[name][0], m, name)
            for m, c in p.items()
            for name in m
            if name in self.definitions and (c < 0 or not subtracted)
        ]
        if not found:
            return None
        _, m, name = max(found)
        return instead(p, m, name, self.definitions[name][1])

    def smaller(self, p: Poly, *, products: bool) -> Poly | None:
        """Replace an index or an atom by a polynomial that makes the whole no greater.

        What is subtracted goes first.  With ``products`` atoms in products are replaced, too, and
        all that have bounds.
        """
        for up in (True, False):
            for m, c in p.items():
                for name in dict.fromkeys(m) if up is (c < 0) else ():
                    by = self._bound(m, name, up=up, products=products)
                    if by is not None:
                        return instead(p, m, name, by)
        return None

    def _bound(self, m: Monomial, name: str, *, up: bool, products: bool) -> Poly | None:
        atom = self.atoms.by_name.get(name)
        if atom is not None:
            if products or (atom.kind == "floor" and len(m) == 1):
                return (atom.high if up else atom.low) if self.rest(m, name) is not None else None
            return None
        if not up or name not in self.extents:
            return None
        rest = self.rest(m, name)
        if rest is None or name in self.atoms.symbols(rest):
            return None
        return plus(self.atoms.read(self.extents[name]), {(): -1})


def _values(p: Poly) -> tuple[int, ...]:
    """Return the values of what is 0 or 1: both, unless it is known."""
    return (int(p.get((), 0)),) if is_constant(p) else (0, 1)


class _Search:
    """One search for a proof."""

    def __init__(self, prover: Prover, hopeless: Hopeless | None) -> None:
        self.p = prover
        self.hopeless = hopeless
        self.left = STEPS
        self.failed: set[Key] = set()

    def nonnegative(self, row: Poly, depth: int = DEPTH) -> bool:
        """Return whether a polynomial is proved never to be negative."""
        p = self.p
        passed: list[Key] = []
        proved = False
        while not (proved := p.atoms.least(row) >= 0):
            key = frozenset(row.items())
            if key in p.proved or key in self.failed:
                proved = key in p.proved
                break
            passed.append(key)
            self.left -= 1
            if self.left < 0 or (self.hopeless and self.hopeless(row)):
                break
            if (exact := p.exact(row)) is not None:
                proved = exact
                break
            if (cases := p.cases(row)) is not None:
                proved = depth > 0 and all(self.nonnegative(case, depth - 1) for case in cases)
                break
            extremes = sorted(p.extremes(row))
            if extremes:
                one_will_do, _, m, name = extremes[0]
                proved = depth > 0 and self.branches(row, m, name, one_will_do, depth - 1)
                if proved or not one_will_do:
                    break
            following = self.following(row, stuck=bool(extremes))
            if following is None:
                proved = p.by_signs(row)
                if proved:
                    break
                following = p.smaller(row, products=True)
                if following is None:
                    proved = p.on_box(row)
                    break
            row = following
        (p.proved if proved else self.failed).update(passed)
        return proved

    def branches(self, row: Poly, m: Monomial, name: str, one_will_do: bool, depth: int) -> bool:
        """Prove a polynomial with one argument of an extreme in its place, or with each."""
        for argument in self.p.atoms.by_name[name].parts:
            if self.nonnegative(instead(row, m, name, argument), depth) is one_will_do:
                return one_will_do
        return not one_will_do

    def following(self, row: Poly, *, stuck: bool) -> Poly | None:
        """Return a polynomial that is never above this one, with less in it; None without one.

        Which argument of an extreme suffices may depend on what is subtracted.  So where the search
        is ``stuck`` at one, a symbol that is subtracted is replaced first.
        """
        found = self.p.defined_symbol(row, subtracted=stuck)
        return found if found is not None else self.p.smaller(row, products=False)
