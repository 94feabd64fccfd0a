"""Orders in which greedy planners place buffers: each function returns indices, first one first.

Problems come sorted (see ``registry.solve``), so that ties broken by index do not hang on the
order in which the buffers were given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from didyma.codegen.memory.arena.problem import I64, Problem, loads

Order: TypeAlias = Callable[[Problem], I64]


def _sorted(*keys: I64) -> I64:
    """Return indices sorted by the keys, each descending, the most important key first."""
    return np.lexsort([-k for k in reversed(keys)]).astype(np.int64)


def crowd(p: Problem) -> I64:
    """Return the most bytes alive during each buffer's life (minimalloc's section total)."""
    times, load = loads(p)
    table = [load]
    while 2 * (step := 1 << (len(table) - 1)) <= len(load):
        table.append(np.maximum(table[-1][:-step], table[-1][step:]))
    first, last = np.searchsorted(times, p.lower), np.searchsorted(times, p.upper)
    level = np.frexp(np.maximum(last - first, 1).astype(np.float64))[1] - 1
    found = np.empty(p.count, np.int64)
    for k, row in enumerate(table):
        at = np.flatnonzero(level == k)
        found[at] = np.maximum(row[first[at]], row[last[at] - (1 << k)])
    return found


def by_size(p: Problem) -> I64:
    """Take the largest first, then the first to be used: TensorFlow Lite's ``arena_planner.cc``."""
    return _sorted(p.size, -p.lower)


def by_size_then_life(p: Problem) -> I64:
    """Take the largest first, then the longest-lived: XLA's spatial order."""
    return _sorted(p.size, p.upper - p.lower)


def by_life(p: Problem) -> I64:
    """Take the longest-lived first, then the largest: XLA's temporal order."""
    return _sorted(p.upper - p.lower, p.size)


def by_area(p: Problem) -> I64:
    """Take the largest product of size and life first."""
    return _sorted(_area(p))


def by_heat(p: Problem) -> I64:
    """Take those alive at the most crowded time first, by life, then by area: minimalloc's TWA."""
    return _sorted(crowd(p), p.upper - p.lower, _area(p))


def by_heat_then_area(p: Problem) -> I64:
    """Take those alive at the most crowded time first, by area, then by life: minimalloc's TAW."""
    return _sorted(crowd(p), _area(p), p.upper - p.lower)


def by_life_then_area(p: Problem) -> I64:
    """Take the longest-lived first, then by area, then by crowd: minimalloc's WAT."""
    return _sorted(p.upper - p.lower, _area(p), crowd(p))


def meetings(p: Problem) -> I64:
    """Return, for each buffer, how many others are alive with it at some time."""
    begun = np.searchsorted(np.sort(p.lower), p.upper, "left")
    return (begun - np.searchsorted(np.sort(p.upper), p.lower, "right") - 1).astype(np.int64)


def spans(p: Problem) -> I64:
    """Return, for each buffer, the number of maximal sets of buffers alive together it is in."""
    starts, ends = np.unique(p.lower), np.unique(p.upper)
    cuts = starts[np.unique(np.searchsorted(starts, ends, "left")) - 1]
    return (np.searchsorted(cuts, p.upper) - np.searchsorted(cuts, p.lower)).astype(np.int64)


def by_box(p: Problem) -> I64:
    """Take the largest product of size and number of sets first: area that counts no idle time."""
    return _sorted(_product(p.size, spans(p)))


def by_meetings_then_size(p: Problem) -> I64:
    """Take those first that are alive with most others, then the largest."""
    return _sorted(meetings(p), p.size)


def by_heat_then_meetings(p: Problem) -> I64:
    """Take those alive at the most crowded time first, then those alive with most others."""
    return _sorted(crowd(p), meetings(p))


def by_start(p: Problem) -> I64:
    """Take the first to be used first, as an allocator at run time sees them."""
    return _sorted(-p.lower, p.size)


def by_breadth(p: Problem) -> I64:
    """Go from the most crowded time to the least, largest first within: Pisarchyk and Lee 2020.

    A buffer is met at the most crowded of its times, so ordering by that and then by size is the
    same but for ties between crowds.
    """
    return _sorted(crowd(p), p.size, -p.lower)


def _area(p: Problem) -> I64:
    return _product(p.size, p.upper - p.lower)


def _product(a: I64, b: I64) -> I64:
    # A float would round, and break ties at random.
    area = a.astype(np.float64) * b
    if area.max(initial=0.0) < 2.0**62:
        return a * b
    return np.unique(area, return_inverse=True)[1].astype(np.int64)


ORDERS: tuple[Order, ...] = (
    by_heat,
    by_size,
    by_size_then_life,
    by_life,
    by_area,
    by_breadth,
    by_heat_then_area,
    by_life_then_area,
)
