"""Search for a placement within a capacity: the algorithm of minimalloc.

Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
ASPLOS 2023.  Only canonical solutions are looked at: buffers are placed in ascending order of
offset, each as low as those below it allow, and none where another would fit underneath.  A
branch ends when, at some time, the floor and what is still to be placed exceed the capacity; it
falls apart into independent ones where nothing unplaced crosses a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from codegen.memory.arena import orders
from codegen.memory.arena.budget import Budget
from codegen.memory.arena.fit import place
from codegen.memory.arena.problem import FREE, I64, Placement, Problem, lower_bound, placement
from refimpl.errors import DidymaError

TURN = 2.0  # seconds below which a search gets all that is left
HARD = 1_000_000  # steps within a capacity, where there is no deadline
NEVER = 1 << 60  # floor of what is placed already
HEURISTICS: tuple[orders.Order, ...] = (
    orders.by_life_then_area, orders.by_heat_then_area, orders.by_heat,
)  # fmt: skip


class OutOfNodes(Exception):
    """The search was cut short."""


class Infeasible(Exception):
    """There is no placement; the argument holds the indices of buffers that cannot be together."""

    def __init__(self, core: I64) -> None:
        super().__init__(core)
        self.core = core


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Buffers to place, in preorder, and the sections (maximal sets alive together) they span.

    Section k holds ``entries[starts[k]:starts[k + 1]]``.
    """

    ids: I64
    entries: I64
    starts: I64
    sections: I64


@dataclass(slots=True, eq=False)
class Choice:
    """A point of the search: which buffer of a part goes next."""

    part: Part
    floor: int
    rank: int
    candidates: list[int]
    tried: int = 0
    saved: tuple[I64, I64, I64] | None = None
    parts: list[Part] = field(default_factory=list[Part])  # to be solved under the choice made


@dataclass(slots=True, eq=False)
class Search:
    """Everything about a problem that stays, and the state at a point of the search."""

    p: Problem
    capacity: int
    first: I64 = field(init=False)  # section
    last: I64 = field(init=False)
    entries: I64 = field(init=False)
    starts: I64 = field(init=False)
    overlaps: list[I64] = field(init=False)
    least: I64 = field(init=False)  # offset that a buffer can have, NEVER once it is placed
    remaining: I64 = field(init=False)  # bytes yet to be placed, by section
    crossing: I64 = field(init=False)  # unplaced buffers in sections s and s + 1
    offsets: I64 = field(init=False)
    rank: I64 = field(init=False)
    nodes: int = 0

    def __post_init__(self) -> None:
        p = self.p
        cuts = _section_times(p)
        self.first = np.searchsorted(cuts, p.lower, "left")
        self.last = np.searchsorted(cuts, p.upper, "left")
        sections = range(len(cuts))
        members = [np.flatnonzero((self.first <= s) & (self.last > s)) for s in sections]
        self.entries = np.concatenate(members)
        self.starts = np.cumsum([0, *map(len, members[:-1])])
        self.overlaps = []
        for i in range(p.count):
            o = np.flatnonzero((p.lower < p.upper[i]) & (p.upper > p.lower[i]))
            self.overlaps.append(o[o != i])

    def run(self, preorder: I64, limit: int, deadline: float | None) -> I64:
        """Return offsets; Infeasible, or OutOfNodes after ``limit`` steps or at the deadline."""
        p = self.p
        n, sections = p.count, len(self.starts)
        self.rank = np.empty(n, np.int64)
        self.rank[preorder] = np.arange(n)
        self.least = np.where(p.fixed == FREE, 0, p.fixed)
        self.offsets = np.zeros(n, np.int64)
        self.remaining = np.add.reduceat(p.size[self.entries], self.starts)
        change = np.zeros(sections + 1, np.int64)
        np.add.at(change, self.first, 1)
        np.add.at(change, self.last - 1, -1)
        self.crossing = np.cumsum(change)[:sections]
        self.nodes = 0
        whole = Part(preorder, self.entries, self.starts, np.arange(sections))
        for part in self.split(whole, preorder):
            if not self.feasible(part, 0) or not self.solve(part, limit, deadline):
                raise Infeasible(np.sort(part.ids))
        return self.offsets

    def solve(self, part: Part, limit: int, deadline: float | None) -> bool:
        """Place the buffers of a part; tell whether that is possible."""
        stack = [self.enter(part, 0, 0)]
        while True:
            c = stack[-1]
            if self.nodes >= limit:
                raise OutOfNodes
            if deadline is not None and self.nodes % 64 == 0 and time.monotonic() > deadline:
                raise OutOfNodes
            if self.advance(c):
                while not c.parts:  # solved: so is this part of the choice above
                    stack.pop()
                    if not stack:
                        return True
                    c = stack[-1]
                i = c.candidates[c.tried - 1]
                part = c.parts.pop()
                stack.append(self.enter(part, int(self.offsets[i]), int(self.rank[i])))
            else:
                stack.pop()
                if not stack:
                    return False

    def enter(self, part: Part, floor: int, rank: int) -> Choice:
        """Return the choices that keep to ascending offsets and leave no needless gap."""
        ids = part.ids
        least = self.least[ids]
        height = (least + self.p.size[ids]).min()
        ok = (least < height) & ((least > floor) | ((least == floor) & (self.rank[ids] >= rank)))
        chosen = ids[ok]
        chosen = chosen[np.argsort(least[ok], kind="stable")]
        return Choice(part, floor, rank, chosen.tolist())

    def advance(self, c: Choice) -> bool:
        """Undo the choice made and make the next that is feasible, if there is one."""
        if c.saved is not None:
            self.least, self.remaining, self.crossing = c.saved
            c.saved = None
        saved = (self.least, self.remaining, self.crossing)
        while c.tried < len(c.candidates):
            i = c.candidates[c.tried]
            c.tried += 1
            self.nodes += 1
            if self.put(i, c.part):
                c.saved = saved
                ids = c.part.ids
                c.parts = self.split(c.part, ids[ids != i])
                return True
            self.least, self.remaining, self.crossing = saved
        return False

    def put(self, i: int, part: Part) -> bool:
        """Place a buffer as low as it can be; tell whether the rest may still fit."""
        p, near = self.p, self.overlaps[i]
        offset = int(self.least[i])
        height = offset + int(p.size[i])
        align = p.alignment[near]
        floor = np.maximum(self.least[near], -(-height // align) * align)
        unplaced = floor < NEVER
        if (floor + p.size[near])[unplaced].max(initial=height) > self.capacity:
            return False
        fixed = p.fixed[near]
        if ((fixed != FREE) & (floor > fixed) & unplaced).any():
            return False
        self.least = self.least.copy()
        self.least[near] = floor
        self.least[i] = NEVER
        self.remaining = self.remaining.copy()
        self.remaining[self.first[i] : self.last[i]] -= p.size[i]
        self.crossing = self.crossing.copy()
        self.crossing[self.first[i] : self.last[i] - 1] -= 1
        self.offsets[i] = offset
        return self.feasible(part, offset)

    def feasible(self, part: Part, offset: int) -> bool:
        """Tell whether floor and remaining bytes stay within the capacity at every time."""
        low = np.minimum.reduceat(self.least[part.entries], part.starts)
        need = np.maximum(low, offset) + self.remaining[part.sections]
        return not ((need > self.capacity) & (low < NEVER)).any()

    def split(self, part: Part, ids: I64) -> list[Part]:
        """Parts that share no time, the earliest last."""
        if not len(ids):
            return []
        gaps = np.flatnonzero(self.crossing[:-1] == 0)
        group = np.searchsorted(gaps, self.first[ids], "left")
        names = np.unique(group)
        if len(names) == 1 and 2 * len(ids) > len(part.ids) and len(ids) < len(part.ids):
            return [Part(ids, part.entries, part.starts, part.sections)]
        return [self.part(ids[group == g]) for g in names[::-1].tolist()]

    def part(self, ids: I64) -> Part:
        """Return the part of these buffers, without what is placed and times without any."""
        low, high = int(self.first[ids].min()), int(self.last[ids].max())
        ends = np.append(self.starts, len(self.entries))
        entries = self.entries[ends[low] : ends[high]]
        where = np.repeat(np.arange(low, high), np.diff(ends[low : high + 1]))
        wanted = self.least[entries] < NEVER
        entries, where = entries[wanted], where[wanted]
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        return Part(ids, entries, starts, where[starts])


def _section_times(p: Problem) -> I64:
    """A time in each maximal set of buffers alive together: the last start before an end."""
    starts, ends = np.unique(p.lower), np.unique(p.upper)
    after = np.searchsorted(starts, ends, "left")  # starts before each end
    return starts[np.unique(after) - 1]


def within(
    p: Problem, capacity: int, *, nodes: int | None = None, deadline: float | None = None
) -> I64:
    """Return offsets within a capacity; Infeasible if there are none, OutOfNodes if unknown.

    Heuristics take turns, each time with twice the steps of the turn before.
    """
    search = Search(p, capacity)
    preorders = [h(p) for h in HEURISTICS]
    limit = p.count
    spent = 0
    while True:
        limit *= 2
        for preorder in preorders:
            left = limit if nodes is None else min(limit, nodes - spent)
            try:
                return search.run(preorder, left, deadline)
            except OutOfNodes:
                spent += search.nodes
                late = deadline is not None and time.monotonic() > deadline
                if late or (nodes is not None and spent >= nodes):
                    raise


def canonical(p: Problem, budget: Budget) -> Placement:
    """Search within the capacity; without one, within the lower bound and then ever more.

    DidymaError ``over-capacity`` names buffers that cannot be together within the capacity, or
    ``search-limit`` if it is not known whether they can.
    """
    if p.capacity is not None:
        return _hard(p, p.capacity, budget)
    bound, step = lower_bound(p), 0
    while True:
        target = bound + (bound * step >> 6)
        nodes = 20 * p.count if budget.deadline is None else None
        try:
            deadline = budget.part(0.5).deadline if budget.left(1.0) > TURN else budget.deadline
            return placement(p, within(p, target, nodes=nodes, deadline=deadline))
        except (Infeasible, OutOfNodes):
            step = 2 * step + 1
        if budget.over():
            return placement(p, place(p, orders.by_heat(p)))


def _hard(p: Problem, capacity: int, budget: Budget) -> Placement:
    nodes = HARD if budget.deadline is None else None
    try:
        return placement(p, within(p, capacity, nodes=nodes, deadline=budget.deadline))
    except Infeasible as e:
        core: list[int] = e.core.tolist()
        names = [p.names[i] for i in core]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        low, high = p.lower[e.core].min(), p.upper[e.core].max()
        raise DidymaError(
            "over-capacity",
            f"times {low} to {high}",
            got=f"no placement of {', '.join(names[:8])}{more} within {capacity} bytes",
            want="a larger capacity, or other lives",
        ) from None
    except OutOfNodes:
        raise DidymaError(
            "search-limit",
            "planner canonical",
            got=f"no placement within {capacity} bytes, nor a proof that there is none",
            want="more time",
        ) from None
