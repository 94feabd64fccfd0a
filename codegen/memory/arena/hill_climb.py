"""The planner ``hill_climb``: local search over orders."""

from __future__ import annotations

from random import Random

import numpy as np

from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.fit import PAIRS, Conflicts, conflicts, pair_count, place
from didyma.codegen.memory.arena.orders import by_size
from didyma.codegen.memory.arena.problem import I64, Placement, Problem, lower_bound, placement

ATTEMPTS = 500
WORK = 200_000  # buffers placed in all attempts together
WIDEST = 4_000  # buffers; beyond, one attempt takes too long for a search to get anywhere


def hill_climb(p: Problem, budget: Budget) -> Placement:
    """Swap a buffer of the highest end with one placed before it, up to 500 times; keep the best.

    TVM USMP, ``src/tir/usmp/algo/hill_climb.cc``.  A worse order is accepted with a probability
    that falls with the number of attempts.  Large problems get their first placement alone.
    """
    order = by_size(p)
    if p.count > WIDEST or pair_count(p) > PAIRS:
        return placement(p, place(p, order, "first"))
    known = conflicts(p)  # the candidates to swap with
    random, bound = Random(0), lower_bound(p)
    current = best = placement(p, place(p, order, "first", known))
    for attempt in range(1, min(ATTEMPTS, WORK // p.count)):
        if best.peak == bound or budget.over():
            break
        tried = _swapped(p, order, current, known, random)
        found = placement(p, place(p, tried, "first", known))
        worse = 50 * (found.peak - current.peak) // max(1, found.peak) // attempt
        if found.peak < current.peak or random.randrange(100) < worse:
            order, current = tried, found
        if found.peak < best.peak:
            best = found
    return best


def _swapped(p: Problem, order: I64, now: Placement, known: Conflicts, random: Random) -> I64:
    """Return the order with two places changed."""
    rank = np.empty(p.count, np.int64)
    rank[order] = np.arange(p.count)
    i = random.choice(np.flatnonzero(now.offsets + p.size == now.peak).tolist())
    near = known.near[known.start[i] : known.start[i + 1]]
    before = near[rank[near] < rank[i]].tolist()
    if not before:
        return order
    j = random.choice(before)
    far = known.near[known.start[j] : known.start[j + 1]]
    second = far[rank[far] < rank[i]].tolist()
    k = random.choice(second) if second and random.random() < 0.75 else i
    tried = order.copy()
    tried[rank[j]], tried[rank[k]] = k, j
    return tried
