"""The memory that the plan checker replays: each byte has an owner, and was written or not.

The state is forked at branches and loops and joined after them; a byte on whose owner two paths
disagree has no owner from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

AllocationKind: TypeAlias = Literal["caller", "output", "heap", "arena"]  # an output is a caller's
Touch: TypeAlias = tuple[int, int, int, int, bool]  # start, stop, stream, tick, written

NOBODY = ""
EITHER = "?"  # owner of bytes on which two paths disagree


@dataclass(slots=True)
class Allocation:
    """The bytes of one allocation; ``ranges`` cover them in order: start, stop, owner, written."""

    size: int
    kind: AllocationKind
    device: str
    alive: bool = True
    ranges: list[tuple[int, int, str, bool]] = field(
        default_factory=list[tuple[int, int, str, bool]]
    )
    log: list[Touch] = field(default_factory=list[Touch])

    def __post_init__(self) -> None:
        if not self.ranges and self.size:
            self.ranges = [(0, self.size, NOBODY, False)]

    def copy(self) -> Allocation:
        """Return a copy that can change on its own."""
        return Allocation(
            self.size, self.kind, self.device, self.alive, [*self.ranges], [*self.log]
        )

    def set(self, start: int, stop: int, owner: str, written: bool) -> None:
        """Give the bytes of a range to a value."""
        if start >= stop:
            return
        if start <= 0 and stop >= self.size:
            self.ranges = [(0, self.size, owner, written)]
            return
        kept: list[tuple[int, int, str, bool]] = []
        placed = False
        for a, b, o, w in self.ranges:
            if a < start:
                kept.append((a, min(b, start), o, w))
            if b > start and not placed:
                kept.append((start, min(stop, self.size), owner, written))
                placed = True
            if b > stop:
                kept.append((max(a, stop), b, o, w))
        self.ranges = kept

    def holders(self, start: int, stop: int) -> Iterator[tuple[str, bool]]:
        """Yield the owners of the bytes of a range, each with whether it wrote them."""
        for a, b, o, w in self.ranges:
            if a < stop and b > start:
                yield o, w

    def join(self, other: Allocation) -> None:
        """Keep of each byte only what holds in both: its owner, and that it was written."""
        self.alive = self.alive and other.alive
        self.log += [x for x in other.log if x not in self.log]
        if self.ranges == other.ranges:
            return
        cuts = sorted({x for a, b, _, _ in (*self.ranges, *other.ranges) for x in (a, b)})
        joined: list[tuple[int, int, str, bool]] = []
        for start, stop in pairwise(cuts):
            (o, w), (p, v) = next(self.holders(start, stop)), next(other.holders(start, stop))
            joined.append((start, stop, o if o == p else EITHER, w and v))
        self.ranges = joined


@dataclass(frozen=True, slots=True)
class Location:
    """The bytes of a value; ``owner`` is the value itself, or the one of which it is a view."""

    allocation: int
    start: int
    stop: int
    owner: str


@dataclass(slots=True)
class MemoryState:
    """All memory at one point of a path through a program.

    ``at`` has the bytes of each value, ``defined`` the values that ever had bytes.  ``clocks`` has,
    for each stream, the last tick of each other stream that it has waited for.
    """

    env: dict[str, int]
    allocations: dict[int, Allocation] = field(default_factory=dict[int, Allocation])
    at: dict[str, Location] = field(default_factory=dict[str, Location])
    arenas: dict[str, int] = field(default_factory=dict[str, int])
    defined: set[str] = field(default_factory=set[str])
    clocks: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])

    def fork(self) -> MemoryState:
        """Return a copy that can change on its own."""
        return MemoryState(
            dict(self.env),
            {k: e.copy() for k, e in self.allocations.items()},
            dict(self.at),
            dict(self.arenas),
            set(self.defined),
            {s: dict(c) for s, c in self.clocks.items()},
        )

    def tick(self, stream: int) -> None:
        """Count one more piece of work of a stream."""
        clock = self.clocks.setdefault(stream, {})
        clock[stream] = clock.get(stream, 0) + 1

    def synchronise(self, streams: Iterable[int]) -> None:
        """Let every stream, ``streams`` among them, wait for all work of every other."""
        last = {s: clock.get(s, 0) for s, clock in self.clocks.items()}
        for s in {*streams, *last}:
            self.clocks.setdefault(s, {}).update(last)

    def join(self, other: MemoryState) -> set[str]:
        """Keep what holds in both; return the values without bytes in one, or with other bytes."""
        lost = self.at.keys() ^ other.at.keys()
        own: set[int] = set()  # allocations that each path made for itself
        for name in self.at.keys() & other.at.keys():
            if self.at[name] != other.at[name]:
                if self._owned(name) and other._owned(name):
                    own.add(self.at[name].allocation)
                else:
                    lost.add(name)
        for name in lost & self.at.keys():
            del self.at[name]
        for k, e in self.allocations.items():
            twin = other.allocations.get(k)
            if twin is not None and k not in own:
                e.join(twin)
        self.defined |= other.defined
        for s in other.clocks:  # each path ended with all streams waited for
            clock = self.clocks.setdefault(s, {})
            clock[s] = max(clock.get(s, 0), other.clocks[s].get(s, 0))
        self.synchronise(self.clocks)
        return lost

    def _owned(self, name: str) -> bool:
        """Return whether a value, or what it is a view of, has an allocation to itself."""
        at = self.at[name]
        e = self.allocations[at.allocation]
        owners = {o for o, _ in e.holders(0, e.size)}
        return e.kind == "heap" and e.alive and owners <= {at.owner}
