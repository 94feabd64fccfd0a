"""Stacking buffers: an order says which of two conflicting buffers is below the other.

Every acyclic orientation of the conflict graph is that of some order, and the offsets of an order
are longest paths: each buffer lies on the highest of those that conflict with it and come first.
No two can overlap, whatever the sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

Order: TypeAlias = tuple[int, ...]  # buffers, each after all that are below it
BufferSizes: TypeAlias = Sequence[int]  # of every buffer, aligned, at one binding

UNBOUNDED = 1 << 200


@dataclass(frozen=True, slots=True)
class Stack:
    """Lifetimes in steps at which something is born: only there can the load be greatest."""

    first: tuple[int, ...]
    end: tuple[int, ...]
    steps: int
    conflicts: tuple[frozenset[int], ...]  # of each buffer

    @staticmethod
    def of(lifetimes: Sequence[tuple[int, int]]) -> Stack:
        """Compress half-open lifetimes.

        >>> s = Stack.of([(3, 9), (5, 6), (7, 9)])
        >>> s.first, s.end, s.steps
        ((0, 1, 2), (3, 2, 3), 3)
        """
        births = sorted({a for a, _ in lifetimes})
        first = tuple(bisect_left(births, a) for a, _ in lifetimes)
        end = tuple(bisect_left(births, b) for _, b in lifetimes)
        return Stack(first, end, len(births), _conflicts(first, end))

    @property
    def count(self) -> int:
        """Number of buffers."""
        return len(self.first)

    def load(self, sizes: BufferSizes) -> list[int]:
        """Bytes alive at each step; no placement's peak is below the greatest."""
        change = [0] * (self.steps + 1)
        for a, b, s in zip(self.first, self.end, sizes, strict=True):
            change[a] += s
            change[b] -= s
        now, loads = 0, [0] * self.steps
        for t in range(self.steps):
            now += change[t]
            loads[t] = now
        return loads

    def peak(self, order: Order, sizes: BufferSizes, limit: float = UNBOUNDED) -> int:
        """Greatest end of an order's buffers; some end above the limit, if one is."""
        top = [0] * self.steps
        first, end = self.first, self.end
        for v in order:
            a, b = first[v], end[v]
            high = max(top[a:b]) + sizes[v]
            if high > limit:
                return high
            top[a:b] = [high] * (b - a)
        return max(top, default=0)

    def offsets(self, order: Order, sizes: BufferSizes) -> list[int]:
        """Offset of every buffer."""
        top, out = [0] * self.steps, [0] * self.count
        for v in order:
            a, b = self.first[v], self.end[v]
            out[v] = max(top[a:b])
            top[a:b] = [out[v] + sizes[v]] * (b - a)
        return out

    def chain(self, order: Order, sizes: BufferSizes, random: Random) -> list[int]:
        """Buffers from the bottom to the peak, each on the one before; one such chain of many."""
        off = self.offsets(order, sizes)
        place = {v: k for k, v in enumerate(order)}
        end = [o + s for o, s in zip(off, sizes, strict=True)]
        v = random.choice([i for i, e in enumerate(end) if e == max(end)])
        chain = [v]
        while off[v] > 0:
            below = [
                j for j in sorted(self.conflicts[v]) if end[j] == off[v] and place[j] < place[v]
            ]
            v = random.choice(below)
            chain.append(v)
        return chain[::-1]

    def fit(self, turns: Sequence[int], sizes: BufferSizes, *, best: bool) -> Order:
        """Place buffers in turn into the best (else the first) gap; return who is below whom."""
        off = [0] * self.count
        placed: set[int] = set()
        for i in turns:
            taken = sorted((off[j], off[j] + sizes[j]) for j in self.conflicts[i] & placed)
            top, gap = 0, UNBOUNDED
            for a, b in taken:
                if sizes[i] <= a - top < gap:
                    gap, off[i] = a - top, top
                    if not best:
                        break
                top = max(top, b)
            if gap == UNBOUNDED:
                off[i] = top
            placed.add(i)
        # of two at one offset one is empty, or they do not conflict: the empty one goes below
        return tuple(sorted(range(self.count), key=lambda i: (off[i], sizes[i], i)))

    def turns(self, sizes: BufferSizes) -> Iterator[list[int]]:
        """Orders in which static planners place: by size (TensorFlow Lite), duration (XLA), area,
        and the load met in a lifetime before these (minimalloc).
        """
        loads = self.load(sizes)
        life = [b - a for a, b in zip(self.first, self.end, strict=True)]
        met = [max(loads[a:b]) for a, b in zip(self.first, self.end, strict=True)]
        everyone = range(self.count)
        yield sorted(everyone, key=lambda i: (-sizes[i], self.first[i]))
        yield sorted(everyone, key=lambda i: (-life[i], -sizes[i]))
        yield sorted(everyone, key=lambda i: -sizes[i] * life[i])
        yield sorted(everyone, key=lambda i: (-met[i], -life[i], -sizes[i] * life[i]))
        yield sorted(everyone, key=lambda i: (-met[i], -sizes[i] * life[i]))
        yield sorted(everyone, key=lambda i: (-met[i], -sizes[i], self.first[i]))


def _conflicts(first: Sequence[int], end: Sequence[int]) -> tuple[frozenset[int], ...]:
    found: list[set[int]] = [set() for _ in first]
    alive: list[int] = []
    for i in sorted(range(len(first)), key=first.__getitem__):
        alive = [j for j in alive if end[j] > first[i]]
        for j in alive:
            found[i].add(j)
            found[j].add(i)
        if end[i] > first[i]:
            alive.append(i)
    return tuple(map(frozenset, found))
