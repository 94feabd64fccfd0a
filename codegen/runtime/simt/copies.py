"""Asynchronous copies from global to shared memory, in groups that a thread waits for.

As PTX has ``cp.async``: a thread's copies are in the group that its next commit closes, and a wait
ends when at most so many of its last groups are under way.  Only then, and after a barrier for the
other threads of the block, may the elements be touched.  Here the bytes move when the copy starts;
what touches them before the wait is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt.memory import ONE, Flight, LaneArray, Lanes, Report, Warps
from didyma.refimpl.interp import scalar_ring

KINDS = COPY, PRODUCT, STORE, STORED = range(4)  # of what is under way
_NEVER = np.iinfo(np.int64).max  # the group of a lane that takes no part


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Elements of an array that a copy has yet to write, or to read, each for the lane ``who``."""

    array: LaneArray
    at: Lanes
    who: Lanes
    writes: bool

    def part(self, lanes: NDArray[np.bool_]) -> Moved:
        """Return the elements of some lanes."""
        mine = lanes[self.who]
        return replace(self, at=self.at[mine], who=self.who[mine])

    def land(self, warps: Warps) -> None:
        """Let the copy of these elements end."""
        end = self.array.landed if self.writes else self.array.left
        end(self.at, self.who, warps)


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A copy or a product under way, and the group that it is in, in each lane.

    ``kind`` says whose groups these are: of copies, products of four warps, or stores of boxes,
    which read shared memory and, as another kind, write global memory.
    """

    name: str
    line: int
    moved: tuple[Moved, ...]
    group: Lanes
    kind: int


@dataclass(slots=True)
class Copies:
    """What is under way of the threads that run together.

    ``closed`` counts the groups of each kind and lane.
    """

    closed: Lanes
    under_way: list[Copy] = field(default_factory=list[Copy])

    def start(
        self, name: str, line: int, who: Lanes, moved: Sequence[Moved], kind: int = COPY
    ) -> None:
        """Let lanes start a copy, or a product."""
        group = np.full(self.closed.shape[1], _NEVER)
        group[who] = self.closed[kind, who]
        for x in moved:
            if x.array.flight is None:
                counts = np.zeros((2, x.array.data.size), np.int32)
                x.array.flight = Flight(counts[0], counts[1], self.name)
            count = x.array.flight.arriving if x.writes else x.array.flight.leaving
            np.add.at(count, x.at, ONE)
        self.under_way.append(Copy(name, line, tuple(moved), group, kind))

    def commit(self, who: Lanes, *kinds: int) -> None:
        """Close the groups of each lane that are of some kinds."""
        for kind in kinds:
            self.closed[kind, who] += 1

    def wait(self, warps: Warps, who: Lanes, most: int, *kinds: int) -> None:
        """End all groups of lanes, of some kinds, but their last ``most``, and the open one."""
        for kind in kinds:
            first = np.zeros(self.closed.shape[1], np.int64)
            first[who] = self.closed[kind, who] - most
            self._end(warps, first, kind)

    def left(self, kind: int) -> list[Copy]:
        """Return what is under way of a kind."""
        return [c for c in self.under_way if c.kind == kind]

    def end(self, warps: Warps) -> None:
        """End whatever is under way: the threads have ended."""
        last = np.full(int(self.closed.shape[1]), _NEVER)
        for kind in KINDS:
            self._end(warps, last, kind)

    def _end(self, warps: Warps, first: Lanes, kind: int) -> None:
        """End what is in groups of a kind before the first that stay, of each lane."""
        left: list[Copy] = []
        for c in self.under_way:
            done = (c.group < first) & (c.kind == kind)
            if not done.any():
                left.append(c)
                continue
            for x in c.moved:
                x.part(done).land(warps)
            group = np.where(done, _NEVER, c.group)
            if (group != _NEVER).any():
                left.append(replace(c, moved=tuple(x.part(~done) for x in c.moved), group=group))
        self.under_way = left

    def name(self, array: LaneArray, at: Lanes) -> str:
        """Return the intrinsic and the line of the copy that moves one of some elements."""
        for c in self.under_way:
            if any(x.array is array and np.isin(at, x.at).any() for x in c.moved):
                return f"{c.name} of line {c.line}"
        raise AssertionError("no copy moves them")


@dataclass(frozen=True, slots=True)
class Place:
    """Elements in a row that each lane names by its first, in an array."""

    array: LaneArray
    first: Lanes

    def located(
        self, many: int, wanted: NDArray[np.bool_], warps: Warps, who: Lanes, report: Report
    ) -> tuple[Lanes, Lanes] | None:
        """Return where ``many`` elements of each lane are, and whose; None where some are not.

        Only those that are ``wanted`` (lanes, many) are looked for.
        """
        at = (self.first[:, None] + np.arange(many))[wanted]
        each = np.broadcast_to(who[:, None], wanted.shape)[wanted]
        found, mine = self.array.locate(at, warps, each, report)
        return (found, mine) if found.size == at.size else None

    def check(self, nbytes: int, space: str, report: Report) -> bool:
        """Report addresses that a copy of so many bytes cannot take; return whether none is."""
        a = self.array
        if a.kind != space:
            text = f"{a.kind} {a.name} is where an address in {space} memory has to be"
            report("misaligned", text, self.first.size)
            return False
        off = self.first * a.data.itemsize % nbytes != 0
        if a.alignment % nbytes:
            off[:] = True
        if off.any():
            text = f"{a.kind} {a.name}[{int(self.first[off][0])}], of alignment {a.alignment}, is"
            report("misaligned", f"{text} at no multiple of {nbytes} bytes", int(off.sum()))
        return not off.any()


def zeros_like(values: Lanes, size: int) -> Lanes:
    """Return so many zeros of the dtype of values, which may be records of the ring."""
    if values.dtype.names:
        return np.asarray(scalar_ring.embedded(np.zeros(size, values.dtype["value"])))
    return np.zeros(size, values.dtype)
