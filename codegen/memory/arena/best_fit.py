"""The planner ``best_fit``: best fit in several orders."""

from __future__ import annotations

from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.fit import PAIRS, conflicts, pair_count, place
from didyma.codegen.memory.arena.orders import ORDERS
from didyma.codegen.memory.arena.problem import Placement, Problem, lower_bound, placement


def best_fit(p: Problem, budget: Budget) -> Placement:
    """Keep the best of all orders: by size and by life as XLA's ``heap_simulator`` does, by area,
    by breadth, and by crowd, life and area as minimalloc's preorders.

    Ends early at the lower bound, or, past the first order, at the deadline.
    """
    bound = lower_bound(p)
    known = conflicts(p) if pair_count(p) <= PAIRS else None
    best: Placement | None = None
    for order in ORDERS:
        found = placement(p, place(p, order(p), "best", known))
        if best is None or found.peak < best.peak:
            best = found
        if best.peak == bound or budget.over():
            break
    assert best is not None
    return best
