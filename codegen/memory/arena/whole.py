"""Planners that reuse whole allocations; each buffer gets a slot, and slots lie end to end."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from didyma.codegen.memory.arena import orders
from didyma.codegen.memory.arena.problem import FREE, I64, Placement, Problem, placement


def end_to_end(p: Problem, slot: I64) -> Placement:
    """Lay the slots of free buffers end to end, above all fixed buffers."""
    free = p.fixed == FREE
    count = int(slot.max(initial=-1)) + 1
    size, align = np.zeros(count, np.int64), np.ones(count, np.int64)
    np.maximum.at(size, slot[free], p.size[free])
    np.maximum.at(align, slot[free], p.alignment[free])
    at = np.zeros(count, np.int64)
    base = int((p.fixed + p.size)[~free].max(initial=0))
    for k, (s, a) in enumerate(zip(size.tolist(), align.tolist(), strict=True)):
        base = -(-base // a) * a
        at[k] = base
        base += s
    offsets = p.fixed.copy()
    offsets[free] = at[slot[free]]
    return placement(p, offsets)


def by_time(p: Problem, give: Callable[[int, int], None], take: Callable[[int], int | None]) -> I64:
    """Return the slot of every free buffer, by start.

    ``give`` hears of a dead buffer and its slot; ``take`` returns the slot for a buffer, or None
    for a new one.
    """
    slot = np.full(p.count, -1, np.int64)
    busy: list[tuple[int, int]] = []
    count = 0
    first, last, fixed = p.lower.tolist(), p.upper.tolist(), p.fixed.tolist()
    for i in orders.by_start(p).tolist():
        if fixed[i] != FREE:
            continue
        while busy and busy[0][0] <= first[i]:
            dead = heapq.heappop(busy)[1]
            give(dead, int(slot[dead]))
        found = take(i)
        if found is None:
            found, count = count, count + 1
        slot[i] = found
        heapq.heappush(busy, (last[i], i))
    return slot


def none(p: Problem) -> Placement:
    """Give every buffer an allocation of its own."""
    return end_to_end(p, np.arange(p.count, dtype=np.int64))


def linear_scan(p: Problem) -> Placement:
    """Reuse whole allocations: by start, most recently freed first, first fit.

    PyTorch NNC, ``torch/csrc/jit/tensorexpr/codegen.cpp``: ``AllocBufsWithMemReuse``.
    """
    size = p.size.tolist()
    room: dict[int, int] = {}  # bytes of a slot
    free: list[int] = []  # the last to be freed is last

    def give(dead: int, slot: int) -> None:
        room.setdefault(slot, size[dead])
        free.append(slot)

    def take(i: int) -> int | None:
        for k in reversed(range(len(free))):
            if room[free[k]] >= size[i]:
                return free.pop(k)
        return None

    return end_to_end(p, by_time(p, give, take))


def size_class(p: Problem) -> Placement:
    """Reuse allocations of the same size and alignment, most recently freed first.

    PyTorch Inductor, ``torch/_inductor/codegen/wrapper.py``: ``MemoryPlanningState``.  There an
    allocation goes back when nothing reuses it again; the allocator beneath is modelled as one
    that knows when, and takes the best gap in order of size.
    """
    key = list(zip(p.size.tolist(), p.alignment.tolist(), strict=True))
    free: dict[tuple[int, int], list[int]] = {}

    def give(dead: int, slot: int) -> None:
        free.setdefault(key[dead], []).append(slot)

    def take(i: int) -> int | None:
        pool = free.get(key[i])
        return pool.pop() if pool else None

    return _pooled(p, by_time(p, give, take))


def _pooled(p: Problem, slot: I64) -> Placement:
    from didyma.codegen.memory.arena.greedy import greedy_by_size  # it needs no slots

    fixed = np.flatnonzero(slot < 0)
    slot = slot.copy()
    slot[fixed] = slot.max(initial=-1) + 1 + np.arange(len(fixed))
    _, any_of, at = np.unique(slot, return_index=True, return_inverse=True)
    q = p.pick(any_of)
    low, high = q.lower.copy(), q.upper.copy()
    np.minimum.at(low, at, p.lower)
    np.maximum.at(high, at, p.upper)
    pool = Problem(q.names, low, high, q.size, q.alignment, q.fixed)
    return placement(p, greedy_by_size(pool).offsets[at])


def storage_id(p: Problem) -> Placement:
    """Reuse storage tokens that are up to 16 times larger or smaller; a smaller one grows.

    TVM, ``src/relay/backend/token_allocator.cc``: ``TokenAllocator1D``.
    """
    size = p.size.tolist()
    room: list[int] = []
    free: list[tuple[int, int]] = []  # (bytes, slot)

    def give(dead: int, slot: int) -> None:
        del dead
        insort(free, (room[slot], slot))

    def take(i: int) -> int | None:
        k = bisect_left(free, (size[i], -1))
        if k < len(free) and free[k][0] <= 16 * size[i]:
            return free.pop(k)[1]
        if k > 0 and 16 * free[k - 1][0] >= size[i]:
            slot = free.pop(k - 1)[1]
            room[slot] = size[i]
            return slot
        room.append(size[i])
        return None

    return end_to_end(p, by_time(p, give, take))
