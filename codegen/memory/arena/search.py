"""Depth-first search for a placement within a capacity, with conflict-directed backjumping.

The search is minimalloc's (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
Hardware-Accelerated Machine Learning", ASPLOS 2023).  Only canonical solutions are looked at:
buffers are placed in ascending order of offset, each as low as those below it allow, and none
where another would fit underneath.  A branch ends when, at some time, the floor and what is still
to be placed exceed the capacity; it falls apart into independent ones where nothing unplaced
crosses a time.

Three things are added.  A dead end is explained by a set of buffers: those of them that are yet to
be placed cannot all be, as long as they are no lower than they are now and those that are placed
lie where they do.  A choice that has no part in that is not revised (after Prosser 1993).  A
buffer that is in the way of nothing is placed without a choice.  Of two neighbours with one life
that lie on top of each other, the first in preorder is the lower, for they could change places.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from didyma.codegen.memory.arena.frame import SearchFrame, SearchPart, SearchState, bits_of, frame
from didyma.codegen.memory.arena.problem import I64, Problem

NEVER = 1 << 60  # least offset of a buffer that is placed
PLACED = np.uint64(1 << 59)
LOOK = 8  # nodes between two readings of the clock


class OutOfNodes(Exception):
    """Raised when the search ends at its limit of steps or its deadline."""


class Infeasible(Exception):
    """Raised if there is no placement; ``core`` are buffers that cannot be placed together."""

    def __init__(self, core: I64) -> None:
        super().__init__(core)
        self.core = core


@dataclass(slots=True, eq=False)
class SearchNode:
    """The choice of the next buffer of a part; sets of buffers are the bits of an int."""

    part: SearchPart
    floor: int
    rank: int
    state: SearchState  # before the choice
    candidates: list[int]
    lowest: int  # the buffer whose top is the lowest: why others are no candidates
    forced: bool = False
    tried: int = 0
    passed: int = 0  # candidates tried
    blame: int = 0  # cannot be placed with any of the choices made so far
    # to be solved under the choice made
    parts: list[SearchPart] = field(default_factory=list[SearchPart])


def _bits(s: int) -> Iterator[int]:
    while s:
        low = s & -s
        yield low.bit_length() - 1
        s ^= low


@dataclass(slots=True, eq=False)
class PlacementSearch:
    """Searches for a placement of a problem within a capacity, by an order of preference."""

    p: Problem
    capacity: int
    preorder: I64
    f: SearchFrame = field(init=False)
    now: SearchState = field(init=False)
    offsets: list[int] = field(init=False)
    nodes: int = 0

    def __post_init__(self) -> None:
        self.f = frame(self.p, self.capacity, self.preorder)

    def run(self, limit: int, deadline: float | None) -> I64:
        """Return offsets; Infeasible, or OutOfNodes after ``limit`` steps or at the deadline."""
        f = self.f
        n = len(f.size)
        self.now = f.begin
        self.offsets = [0] * n
        self.nodes = 0
        sections = np.arange(len(f.starts))
        core = self.broken(SearchPart(np.arange(n), f.entries, f.starts, sections), 0)
        if not core:
            gaps = np.flatnonzero(f.begin.crossing[:-1] == 0)
            for part in self.parts(np.arange(n), gaps):
                core = core or self.solve(part, limit, deadline)
        if core:
            raise Infeasible(np.sort(self.preorder[list(_bits(core))]))
        found = np.empty(n, np.int64)
        found[self.preorder] = self.offsets
        return found

    def solve(self, part: SearchPart, limit: int, deadline: float | None) -> int:
        """Place the buffers of a part; where that is impossible, return some that cannot be."""
        stack = [self.enter(part, 0, 0)]
        while True:
            c = stack[-1]
            if self.nodes >= limit:
                raise OutOfNodes
            if deadline is not None and self.nodes % LOOK == 0 and time.monotonic() > deadline:
                raise OutOfNodes
            if self.advance(c):
                while not c.parts:  # solved: so is this part of the choice above
                    stack.pop()
                    if not stack:
                        return 0
                    c = stack[-1]
                stack.append(self.enter(c.parts.pop(), *self.after(c)))
                continue
            why = c.blame
            stack.pop()
            while stack and not self.blamed(stack[-1], why):
                stack.pop()
            if not stack:
                return why

    def after(self, c: SearchNode) -> tuple[int, int]:
        """What comes after the choice made has this offset at least, and at it this rank."""
        if c.forced:
            return c.floor, c.rank
        i = c.candidates[c.tried - 1]
        return self.offsets[i], i

    def blamed(self, c: SearchNode, why: int) -> bool:
        """Return whether the choice made has to do with ``why`` there is no solution under it."""
        if c.forced:
            return False
        i = c.candidates[c.tried - 1]
        pinned = why >> i & 1
        if not (pinned or why & c.passed or self.touched(i, c, why)):
            return False
        c.passed |= 1 << i
        c.blame |= why | 1 << i
        if pinned:  # it is to blame as it lies, and might be raised by what it meets
            c.blame |= self.f.near_set[i]
        return True

    def touched(self, i: int, c: SearchNode, why: int) -> bool:
        """Return whether placing a buffer raised any of these, or the floor beneath one."""
        f, least = self.f, c.state.least
        offset = int(least[i])
        height = -(-(offset + int(f.size[i])) // f.step) * f.step
        raised = f.near_set[i] & bits_of(least <= height)
        return bool(why & raised) or (offset > c.floor and bool(why & bits_of(least <= c.floor)))

    def enter(self, part: SearchPart, floor: int, rank: int) -> SearchNode:
        """Return the choices that keep to ascending offsets and leave no needless gap."""
        f, now, ids = self.f, self.now, part.ids
        least = now.least[ids]
        top = least + f.size[ids]
        lowest = int(top.argmin())
        which = np.flatnonzero(least < top[lowest])
        pairs = sorted(zip(least[which].tolist(), ids[which].tolist(), strict=True))
        chosen: list[int] = [i for o, i in pairs if o > floor or (o == floor and i >= rank)]
        c = SearchNode(part, floor, rank, now, chosen, int(ids[lowest]))
        among = 0
        for i in chosen:
            among |= 1 << i
        for i in chosen:
            near = f.near_set[i] & now.left
            if not near & among and not (
                near and (now.least[f.near[i]] < now.least[i] + f.size[i]).any()
            ):
                c.candidates, c.forced = [i], True
                break
        else:
            if not chosen:
                c.blame = sum(1 << i for i in ids.tolist())
        return c

    def advance(self, c: SearchNode) -> bool:
        """Make the next choice that is feasible; else let ``blame`` say why there is none."""
        self.now = now = c.state
        while c.tried < len(c.candidates):
            i = c.candidates[c.tried]
            if c.tried and self.closed(c):
                return False
            c.tried += 1
            if not c.forced and self.idle(i, c):
                continue
            self.nodes += 1
            why = self.put(i, c)
            if not why:
                ids = c.part.ids
                c.parts = self.split(c.part, ids[ids != i], i)
                return True
            self.now = now
            if not self.blamed(c, why):
                c.blame = why
                return False
        self.closed(c)
        return False

    def closed(self, c: SearchNode) -> bool:
        """Return whether all of those to blame have been tried, so that the others need not be.

        What is no candidate because it is too low, or would leave a gap, may yet be raised by
        what it meets: that is to blame as well.
        """
        if c.forced:
            return True
        untried = 0
        for i in c.candidates[c.tried :]:
            untried |= 1 << i
        if c.blame & untried:
            return False
        f, least = self.f, c.state.least
        low = bits_of(least < c.floor) | bits_of(least == c.floor) & (1 << c.rank) - 1
        high = bits_of((least >= least[c.lowest] + f.size[c.lowest]) & (least < NEVER))
        done = before = 0
        while c.blame != before:
            before = c.blame
            if before & high:
                c.blame |= 1 << c.lowest | f.near_set[c.lowest]
            for i in _bits(before & low & ~done):
                c.blame |= f.near_set[i]
            done |= before & low
        return not c.blame & untried

    def idle(self, i: int, c: SearchNode) -> bool:
        """Return whether another choice has the same outcome as this one."""
        f, now = self.f, self.now
        for j in f.twins[i]:
            if now.left >> j & 1:
                if j < i and f.size[j] == f.size[i]:
                    c.blame |= 1 << i | 1 << j
                    c.passed |= 1 << i
                    return True
            elif j > i and self.offsets[j] + f.size[j] == now.least[i]:
                c.blame |= 1 << i | f.near_set[i]
                c.passed |= 1 << i
                return True
        return False

    def put(self, i: int, c: SearchNode) -> int:
        """Place a buffer as low as it can be; return who cannot be placed then, if anyone."""
        f, now, near = self.f, self.now, self.f.near[i]
        offset = int(now.least[i])
        height = offset + int(f.size[i])
        least = now.least.copy()
        old = least[near]
        if f.alignment is None:
            least[near] = np.maximum(old, height)
        else:
            align = f.alignment[near]
            least[near] = np.maximum(old, -(-height // align) * align)
        least[i] = NEVER
        late = (least - f.latest - 1).view(np.uint64) < PLACED
        if late.any():
            return 1 << int(late.argmax())
        first, last = f.first[i], f.last[i]
        remaining = now.remaining.copy()
        remaining[first:last] -= f.size[i]
        crossing = now.crossing.copy()
        crossing[first : last - 1] -= 1
        self.offsets[i] = offset
        self.now = SearchState(least, remaining, crossing, now.left ^ 1 << i)
        return self.broken(c.part, c.floor if c.forced else offset)

    def broken(self, part: SearchPart, floor: int) -> int:
        """Buffers of the section that most exceeds the capacity from the floor on, if one does."""
        now = self.now
        low = np.minimum.reduceat(now.least[part.entries], part.starts)
        need = np.maximum(low, floor) + now.remaining[part.sections]
        need[low >= NEVER] = 0
        at: int = need.argmax().item()
        spare = int(need[at]) - self.capacity - 1
        if spare < 0:
            return 0
        # It would be exceeded without some of them: they are not to blame.
        section: int = part.sections[at].item()
        who = self.f.members[section] & now.left
        ids = np.array(list(_bits(who)))
        by = ids[np.argsort(-now.least[ids], kind="stable")]
        for i, size in zip(by.tolist(), self.f.size[by].tolist(), strict=True):
            spare -= size
            if spare < 0:
                break
            who ^= 1 << i
        return who

    def split(self, part: SearchPart, ids: I64, i: int) -> list[SearchPart]:
        """Parts that share no time, the smallest last."""
        if not len(ids):
            return []
        first, last = self.f.first[i], self.f.last[i]
        inner = self.now.crossing[first : last - 1]
        if len(inner) and not inner.all():
            return self.parts(ids, np.flatnonzero(self.now.crossing[:-1] == 0))
        if 2 * len(ids) > len(part.ids):
            return [SearchPart(ids, part.entries, part.starts, part.sections)]
        return [self.part(ids)]

    def parts(self, ids: I64, gaps: I64) -> list[SearchPart]:
        """Parts between these gaps, the smallest last."""
        group = np.searchsorted(gaps, np.array(self.f.first)[ids], "left")
        names, counts = np.unique(group, return_counts=True)
        by = names[np.argsort(-counts, kind="stable")]
        return [self.part(ids[group == g]) for g in by.tolist()]

    def part(self, ids: I64) -> SearchPart:
        """Return the part of these buffers, without what is placed and times without any."""
        f = self.f
        which: list[int] = ids.tolist()
        low, high = min(f.first[i] for i in which), max(f.last[i] for i in which)
        ends = np.append(f.starts, len(f.entries))
        entries = f.entries[ends[low] : ends[high]]
        where = np.repeat(np.arange(low, high), np.diff(ends[low : high + 1]))
        wanted = self.now.least[entries] < NEVER
        entries, where = entries[wanted], where[wanted]
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        return SearchPart(ids, entries, starts, where[starts])
