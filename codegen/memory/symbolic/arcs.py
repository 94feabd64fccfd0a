"""Which of the buffers below another decide its offset: terms that never matter are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.codegen.memory.symbolic.ring import Ring
from didyma.codegen.memory.symbolic.stack import Order
from didyma.refimpl.ir.dims.polynomial import Poly, plus

MOST_TERMS = 20  # terms of one offset
MOST_SUMS = 24  # sums of sizes kept for one end; beyond, it is a number only known from below


@dataclass(frozen=True, slots=True)
class Orientation:
    """An order of the buffers and, of each, those whose ends its offset is the greatest of.

    ``top`` are the buffers whose ends the peak is the greatest of.
    """

    order: Order
    below: tuple[tuple[int, ...], ...]
    top: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of sizes: as a polynomial, and its values at some bindings."""

    poly: Poly
    values: tuple[int, ...]

    def plus(self, other: Sum) -> Sum:
        """Add."""
        values = tuple(a + b for a, b in zip(self.values, other.values, strict=True))
        return Sum(plus(self.poly, other.poly), values)


Ends: TypeAlias = tuple[Sum, ...]  # the end is the greatest of these


@dataclass
class Arcs:
    """Reduces orders over one conflict graph; ``sizes`` as sums, by buffer."""

    ring: Ring
    conflicts: Sequence[frozenset[int]]
    sizes: Sequence[Sum]

    def reduce(self, order: Order) -> Orientation:
        """Drop the terms of offsets that no binding may need.

        Where more than ``MOST_TERMS`` are left, buffers below are stacked on one another though
        they do not conflict: sound for every size, if not for the peak.
        """
        extra: list[set[int]] = [set() for _ in order]
        while True:
            done = self._attempt(order, extra)
            if isinstance(done, Orientation):
                return done
            lower, upper = done
            extra[upper].add(lower)

    def _attempt(self, order: Order, extra: Sequence[set[int]]) -> Orientation | tuple[int, int]:
        zero = Sum({}, (0,) * len(self.sizes[0].values) if self.sizes else ())
        place = {v: k for k, v in enumerate(order)}
        under = [0] * len(order)  # bit set of all that are below, through any number of others
        below: list[tuple[int, ...]] = [()] * len(order)
        starts: list[Ends] = [()] * len(order)
        ends: list[Ends] = [()] * len(order)
        for i in order:
            direct = [j for j in self.conflicts[i] | extra[i] if place[j] < place[i]]
            for j in direct:
                under[i] |= under[j] | 1 << j
            kept = self._needed(direct, under, ends)
            if len(kept) > MOST_TERMS:
                return _cheapest(kept, place, starts, ends)
            below[i] = kept
            starts[i] = self._outline(i, (e for j in kept for e in ends[j])) or (zero,)
            ends[i] = tuple(s.plus(self.sizes[i]) for s in starts[i])
        top = self._needed(order, under, ends)
        return Orientation(order, tuple(below), top)

    def _needed(
        self, direct: Sequence[int], under: Sequence[int], ends: Sequence[Ends]
    ) -> tuple[int, ...]:
        implied = 0
        for j in direct:
            implied |= under[j]
        kept = [j for j in sorted(direct) if not implied >> j & 1]
        # the lowest ends go first, so that what remains to compare with is high
        for j in sorted(kept, key=lambda j: sum(max(e.values) for e in ends[j])):
            others = [e for k in kept if k != j for e in ends[k]]
            if others and all(any(self.at_most(a, b) for b in others) for a in ends[j]):
                kept.remove(j)
        return tuple(kept)

    def _outline(self, i: int, sums: Iterable[Sum]) -> Ends:
        kept: list[Sum] = []
        for s in sorted(sums, key=lambda s: -max(s.values, default=0)):
            if not any(self.at_most(s, k) for k in kept):
                kept = [k for k in kept if not self.at_most(k, s)] + [s]
        if len(kept) <= MOST_SUMS:
            return tuple(kept)
        values = tuple(max(column) for column in zip(*(k.values for k in kept), strict=True))
        return (Sum(self.ring.bounded_below(kept[0].poly), values),)

    def at_most(self, a: Sum, b: Sum) -> bool:
        """Tell whether ``a <= b`` is proven; bindings that show otherwise are looked at first."""
        if any(x > y for x, y in zip(a.values, b.values, strict=True)):
            return False
        return self.ring.nonnegative(plus(b.poly, a.poly, -1))


def _cheapest(
    kept: Sequence[int], place: dict[int, int], starts: Sequence[Ends], ends: Sequence[Ends]
) -> tuple[int, int]:
    """The pair, lower and upper, that is stacked already or nearly so."""

    def push(pair: tuple[int, int]) -> tuple[float, int, int]:
        lower, upper = pair
        high = [max(c) for c in zip(*(e.values for e in ends[lower]), strict=True)]
        low = [max(c) for c in zip(*(s.values for s in starts[upper]), strict=True)]
        return max((h - b) / max(h, 1) for h, b in zip(high, low, strict=True)), lower, upper

    pairs = [(j, k) for j in kept for k in kept if place[j] < place[k]]
    return min(pairs, key=push)
