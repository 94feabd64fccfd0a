"""Memory as the plan checker sees it: of each byte, which value owns it and whether it wrote it.

States are forked at branches and loops, and joined again: where two paths disagree on a byte,
nobody owns it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["caller", "output", "heap", "arena"]  # an output is a caller's
Access: TypeAlias = tuple[int, int, int, int, bool]  # start, stop, stream, tick, written

NOBODY = ""
EITHER = "?"  # owner of bytes on which two paths disagree


@dataclass(slots=True)
class Extent:
    """The bytes of one allocation; ``ranges`` cover them in order: start, stop, owner, written."""

    size: int
    kind: Kind
    device: str
    alive: bool = True
    ranges: list[tuple[int, int, str, bool]] = field(
        default_factory=list[tuple[int, int, str, bool]]
    )
    log: list[Access] = field(default_factory=list[Access])

    def __post_init__(self) -> None:
        if not self.ranges and self.size:
            self.ranges = [(0, self.size, NOBODY, False)]

    def copy(self) -> Extent:
        """Return another extent of the same content."""
        return Extent(self.size, self.kind, self.device, self.alive, [*self.ranges], [*self.log])

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
        """Yield who owns the bytes of a range, and whether it wrote them."""
        for a, b, o, w in self.ranges:
            if a < stop and b > start:
                yield o, w

    def join(self, other: Extent) -> None:
        """Forget what holds here and not there."""
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
class Place:
    """Where a value lies; ``owner`` is the value itself, or the one it is a view of."""

    extent: int
    start: int
    stop: int
    owner: str


@dataclass(slots=True)
class State:
    """All memory at one point of a path through a program.

    ``clocks`` says of each stream which tick of each other one it has seen.
    """

    env: dict[str, int]
    extents: dict[int, Extent] = field(default_factory=dict[int, Extent])
    at: dict[str, Place] = field(default_factory=dict[str, Place])
    arenas: dict[str, int] = field(default_factory=dict[str, int])
    made: set[str] = field(default_factory=set[str])
    clocks: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])

    def fork(self) -> State:
        """Return a state that goes its own way."""
        return State(
            dict(self.env),
            {k: e.copy() for k, e in self.extents.items()},
            dict(self.at),
            dict(self.arenas),
            set(self.made),
            {s: dict(c) for s, c in self.clocks.items()},
        )

    def tick(self, stream: int) -> None:
        """Count a piece of a stream's work."""
        clock = self.clocks.setdefault(stream, {})
        clock[stream] = clock.get(stream, 0) + 1

    def meet(self, streams: Iterable[int]) -> None:
        """Let every stream, and these, have seen all work of every other."""
        last = {s: clock.get(s, 0) for s, clock in self.clocks.items()}
        for s in {*streams, *last}:
            self.clocks.setdefault(s, {}).update(last)

    def join(self, other: State) -> set[str]:
        """Keep what holds in both; return the values that have bytes in one of them, or move."""
        lost = self.at.keys() ^ other.at.keys()
        own: set[int] = set()  # allocations that each path made for itself
        for name in self.at.keys() & other.at.keys():
            if self.at[name] != other.at[name]:
                if self._owned(name) and other._owned(name):
                    own.add(self.at[name].extent)
                else:
                    lost.add(name)
        for name in lost & self.at.keys():
            del self.at[name]
        for k, e in self.extents.items():
            twin = other.extents.get(k)
            if twin is not None and k not in own:
                e.join(twin)
        self.made |= other.made
        for s in other.clocks:  # each way has ended with all streams waited for
            clock = self.clocks.setdefault(s, {})
            clock[s] = max(clock.get(s, 0), other.clocks[s].get(s, 0))
        self.meet(self.clocks)
        return lost

    def _owned(self, name: str) -> bool:
        """Tell whether a value, or what it is a view of, has an allocation of its own."""
        at = self.at[name]
        e = self.extents[at.extent]
        held = {o for o, _ in e.holders(0, e.size)}
        return e.kind == "heap" and e.alive and held <= {at.owner}
