"""Place buffers one after another into the gaps left by those before: best fit and variants.

The result depends on the order alone.  Three ways to compute it: ``_Rounds`` takes many buffers at
once, all whose conflicting predecessors are placed (after Jones and Plassmann 1993), and wins
where a buffer meets few others; ``_scan`` takes one at a time and looks at all that is placed;
``_plain`` does so without NumPy.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.memory.arena.problem import FREE, I64, Problem

Fit: TypeAlias = Literal["best", "first", "top"]
I32: TypeAlias = NDArray[np.int32]

UNPLACED = -1
FEW = 10  # buffers that Python places faster than NumPy


@dataclass(frozen=True, slots=True, eq=False)
class Conflicts:
    """Neighbours of buffer i: ``near[start[i]:start[i + 1]]``, those alive at one time with it."""

    start: I64
    near: I32


def pair_count(p: Problem) -> int:
    """Return the number of pairs alive together."""
    begun = np.searchsorted(np.sort(p.lower), p.upper, "left")
    ended = np.searchsorted(np.sort(p.upper), p.lower, "right")
    return (int((begun - ended).sum()) - p.count) // 2


def conflicts(p: Problem) -> Conflicts:
    """Find every pair alive together; the result takes 8 bytes a pair, the search more."""
    order = np.argsort(p.lower, kind="stable")
    low = p.lower[order]
    n = p.count
    later = np.searchsorted(low, p.upper[order], "left") - np.arange(1, n + 1)
    a = np.repeat(np.arange(n, dtype=np.int32), later)
    ends = np.cumsum(later)
    b = (np.arange(len(a)) - np.repeat(ends - later, later) + a + 1).astype(np.int32)
    ids = order.astype(np.int32)
    one, two = ids[np.concatenate([a, b])], ids[np.concatenate([b, a])]
    by = np.argsort(one, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(one, minlength=n), out=start[1:])
    return Conflicts(start, two[by])


PAIRS = 6_000_000  # above this, lists of neighbours take too much memory
SMALL = 2_000  # buffers; up to this, a scan of all of them is as fast
TINY = 64  # buffers; up to this, Python is faster than NumPy


def place(p: Problem, order: I64, fit: Fit = "best", known: Conflicts | None = None) -> I64:
    """Return offsets: fixed buffers first, then each in order.

    ``best`` takes the smallest gap that holds the buffer (the lowest of such), ``first`` the
    lowest, ``top`` none but the room above all it meets.  ``known`` spares finding neighbours.
    """
    fixed = p.fixed[order] != FREE
    order = np.concatenate([order[fixed], order[~fixed]])
    if p.count <= TINY:
        return _plain(p, order.tolist(), fit)
    if p.count <= SMALL:
        return _scan(p, order, fit)
    if known is None and pair_count(p) <= PAIRS:
        known = conflicts(p)
    return _scan(p, order, fit) if known is None else _Rounds(p, order, fit, known).run()


def ways(p: Problem, order: I64, fit: Fit) -> dict[str, I64]:
    """Return the offsets that each way to place buffers in an order computes: all the same."""
    return {
        "plain": _plain(p, order.tolist(), fit),
        "scan": _scan(p, order, fit),
        "rounds": _Rounds(p, order, fit, conflicts(p)).run(),
    }


def _plain(p: Problem, order: list[int], fit: Fit) -> I64:
    lower, upper, size = p.lower.tolist(), p.upper.tolist(), p.size.tolist()
    alignment, fixed = p.alignment.tolist(), p.fixed.tolist()
    placed: list[tuple[int, int, int, int]] = []  # (start, end, lower, upper), by start
    offsets = fixed.copy()
    for i in order:
        first, last, need, align = lower[i], upper[i], size[i], alignment[i]
        o = fixed[i]
        if o == FREE:
            reach, room = 0, -1
            for start, end, low, high in placed:
                if low < last and high > first:
                    floor = -(-reach // align) * align
                    gap = start - floor
                    if gap >= need and (room < 0 or gap < room) and fit != "top":
                        o, room = floor, gap
                        if fit == "first":
                            break
                    reach = max(reach, end)
            if room < 0:
                o = -(-reach // align) * align
        offsets[i] = o
        insort(placed, (o, o + need, first, last))
    return np.array(offsets, np.int64)


def _scan(p: Problem, order: I64, fit: Fit) -> I64:
    n = p.count
    times = np.unique(np.concatenate([p.lower, p.upper]))
    lower = np.searchsorted(times, p.lower).astype(np.int32)
    upper = np.searchsorted(times, p.upper).astype(np.int32)
    low, high = np.empty(n, np.int32), np.empty(n, np.int32)
    start, end = np.empty(n, np.int64), np.empty(n, np.int64)
    offsets = np.empty(n, np.int64)
    rows = zip(
        order.tolist(), lower[order], upper[order], p.size[order].tolist(),
        p.alignment[order].tolist(), p.fixed[order].tolist(), strict=True,
    )  # fmt: skip
    for k, (i, first, last, size, align, fixed) in enumerate(rows):
        o = fixed
        if fixed == FREE:
            m = np.flatnonzero((low[:k] < last) & (high[:k] > first))
            o = _gap(start[m], end[m], size, align, fit)
        offsets[i] = start[k] = o
        low[k], high[k], end[k] = first, last, o + size
    return offsets


def _gap(start: I64, end: I64, size: int, align: int, fit: Fit) -> int:
    """Return the offset of a buffer among address ranges that it must not overlap."""
    if not len(start):
        return 0
    if fit == "top":
        return -(-int(end.max()) // align) * align
    by = np.argsort(start)
    reach = np.maximum.accumulate(end[by])
    floor = np.empty_like(reach)
    floor[0] = 0
    floor[1:] = reach[:-1]
    if align > 1:
        floor = -(-floor // align) * align
    gap = start[by] - floor
    ok = np.flatnonzero(gap >= size)
    if not len(ok):
        return -(-int(reach[-1]) // align) * align
    return int(floor[ok[0] if fit == "first" else ok[gap[ok].argmin()]])


@dataclass(slots=True)
class _Rounds:
    p: Problem
    order: I64
    fit: Fit
    near: Conflicts
    offset: I64 = field(init=False)
    waits: I64 = field(init=False)  # number of neighbours that come before it

    def run(self) -> I64:
        n = self.p.count
        self.offset = np.full(n, UNPLACED, np.int64)
        rank = np.empty(n, np.int64)
        rank[self.order] = np.arange(n)
        who = np.repeat(np.arange(n), np.diff(self.near.start))
        self.waits = np.bincount(who[rank[self.near.near] < rank[who]], minlength=n)
        ready = np.flatnonzero(self.waits == 0)
        while len(ready):
            ready = self.few(ready) if len(ready) <= FEW else self.many(ready)
        return self.offset

    def few(self, ready: I64) -> I64:
        p, offset, waits = self.p, self.offset, self.waits
        following: list[int] = []
        for i in ready.tolist():
            near = self.near.near[self.near.start[i] : self.near.start[i + 1]]
            at = offset[near]
            placed = at >= 0
            before = near[placed]
            fixed = int(p.fixed[i])
            o = at[placed]
            offset[i] = (
                fixed if fixed != FREE
                else _gap(o, o + p.size[before], int(p.size[i]), int(p.alignment[i]), self.fit)
            )  # fmt: skip
            after = near[~placed]
            waits[after] -= 1
            following += after[waits[after] == 0].tolist()
        return np.array(following, np.int64)

    def many(self, ready: I64) -> I64:
        """Place all buffers that are ready; return those that become ready."""
        p, start = self.p, self.near.start
        count = start[ready + 1] - start[ready]
        seg = np.repeat(np.arange(len(ready)), count)
        ends = np.cumsum(count)
        at = np.arange(len(seg)) + np.repeat(start[ready] - (ends - count), count)
        near = self.near.near[at]
        taken = self.offset[near]
        placed = taken >= 0
        after = near[~placed]
        seg, low = seg[placed], taken[placed]
        chosen = self.gaps(ready, seg, low, low + p.size[near[placed]])
        fixed = p.fixed[ready]
        self.offset[ready] = np.where(fixed == FREE, chosen, fixed)
        np.subtract.at(self.waits, after, 1)
        return np.unique(after[self.waits[after] == 0]).astype(np.int64)

    def gaps(self, ready: I64, seg: I64, low: I64, high: I64) -> I64:
        """Return the offset of each ready buffer among the ranges [low, high) of its segment."""
        found = np.zeros(len(ready), np.int64)
        if not len(seg):
            return found
        span = int(high.max()) + 1
        narrow = span * len(ready) < 1 << 62
        by = np.argsort(seg * span + low) if narrow else np.lexsort((low, seg))
        seg, low, high = seg[by], low[by], high[by]
        reach = self.reach(seg, high, span)
        head = np.ones(len(seg), bool)
        head[1:] = seg[1:] != seg[:-1]
        first = np.flatnonzero(head)
        floor = np.zeros(len(seg), np.int64)
        floor[1:] = reach[:-1]
        floor[first] = 0
        last = np.append(first[1:], len(seg)) - 1
        align = self.p.alignment[ready]
        top = -(-reach[last] // align[seg[last]]) * align[seg[last]]
        found[seg[first]] = top
        if self.fit == "top":
            return found
        if align.max() > 1:
            floor = -(-floor // align[seg]) * align[seg]
        gap = low - floor
        ok = np.flatnonzero(gap >= self.p.size[ready][seg])[::-1]
        if self.fit == "best" and len(ok):
            # Last wins: the smallest gap, and of such the lowest.
            ok = ok[np.argsort(-gap[ok], kind="stable")]
        found[seg[ok]] = floor[ok]
        return found

    @staticmethod
    def reach(seg: I64, high: I64, span: int) -> I64:
        """Return the highest end so far within each segment."""
        if span * (int(seg[-1]) + 1) < 1 << 62:
            return np.maximum.accumulate(high + seg * span) - seg * span
        found = high.copy()
        for part in np.split(found, np.flatnonzero(np.diff(seg)) + 1):
            np.maximum.accumulate(part, out=part)
        return found
