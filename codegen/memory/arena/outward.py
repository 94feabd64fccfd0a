"""Pack buffers outward from the most crowded time.

What is alive then is stacked without a gap, longest-lived lowest.  From there two allocators run,
one forward in time and one backward, each giving a buffer the smallest free block that holds it.
No conflict is ever looked at, so the cost is that of n allocations: it is for traces in which
buffers meet tens of thousands of others, such as those of training.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.codegen.memory.arena.problem import FREE, I64, Problem, loads

END = 1 << 62


@dataclass(slots=True)
class Blocks:
    """The free blocks of an unbounded arena; adjacent ones merge."""

    by_start: dict[int, int] = field(default_factory=lambda: {0: END})
    by_end: dict[int, int] = field(default_factory=lambda: {END: 0})
    by_size: list[tuple[int, int]] = field(default_factory=lambda: [(END, 0)])

    def take(self, size: int) -> int:
        """Return the start of the smallest block that holds ``size`` bytes, the lowest of such."""
        room, start = self.by_size.pop(bisect_left(self.by_size, (size, 0)))
        end = self.by_start.pop(start)
        if room == size:
            del self.by_end[end]
        else:
            self.by_start[start + size] = end
            self.by_end[end] = start + size
            insort(self.by_size, (room - size, start + size))
        return start

    def give(self, start: int, end: int) -> None:
        """Free a block."""
        before = self.by_end.pop(start, None)
        if before is not None:
            self.drop(before, start)
            start = before
        after = self.by_start.get(end)
        if after is not None:
            self.drop(end, after)
            del self.by_end[after]
            end = after
        self.by_start[start] = end
        self.by_end[end] = start
        insort(self.by_size, (end - start, start))

    def drop(self, start: int, end: int) -> None:
        """Remove a block that is to be merged."""
        del self.by_start[start]
        del self.by_size[bisect_left(self.by_size, (end - start, start))]


def outward(p: Problem) -> I64 | None:
    """Return offsets, or None where some are fixed."""
    if not p.count or (p.fixed != FREE).any():
        return None
    unit = int(p.alignment.max())
    size = -(-p.size // unit) * unit
    times, load = loads(p)
    peak = times[int(load.argmax())]
    centre = np.flatnonzero((p.lower <= peak) & (p.upper > peak))
    centre = centre[np.lexsort((-size[centre], p.lower[centre] - p.upper[centre]))]
    offsets = np.zeros(p.count, np.int64)
    offsets[centre] = np.cumsum(size[centre]) - size[centre]
    stack = [(int(offsets[i]), int(size[i])) for i in centre.tolist()]
    after = np.flatnonzero(p.lower > peak)
    before = np.flatnonzero(p.upper <= peak)
    for side, first, last in ((after, p.lower, p.upper), (before, -p.upper, -p.lower)):
        order = side[np.lexsort((-size[side], first[side]))]
        ends = list(zip(last[centre].tolist(), *zip(*stack, strict=True), strict=True))
        rows = zip(
            order.tolist(), first[order].tolist(), last[order].tolist(), size[order].tolist(),
            strict=True,
        )  # fmt: skip
        _run(ends, rows, offsets)
    return offsets


def _run(
    busy: Sequence[tuple[int, int, int]],
    rows: Iterable[tuple[int, int, int, int]],
    offsets: I64,
) -> None:
    """Allocate in order; ``busy`` holds (end of life, start, size) of what is there already."""
    blocks = Blocks()
    for _, _, size in busy:
        blocks.take(size)  # the stack has no gaps, so each lands where it is
    heap = list(busy)
    heapq.heapify(heap)
    for i, first, last, size in rows:
        while heap and heap[0][0] <= first:
            _, start, freed = heapq.heappop(heap)
            blocks.give(start, start + freed)
        start = blocks.take(size)
        offsets[i] = start
        heapq.heappush(heap, (last, start, size))
