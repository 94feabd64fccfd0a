"""Search for a placement within a capacity: minimalloc's, with turns of several orders."""

from __future__ import annotations

import time

from didyma.codegen.memory.arena import orders
from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.fit import place
from didyma.codegen.memory.arena.problem import I64, Placement, Problem, lower_bound, placement
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes, Search
from didyma.refimpl.errors import DidymaError

TURN = 2.0  # seconds below which a search gets all that is left
HARD = 1_000_000  # steps within a capacity, where there is no deadline
HEURISTICS: tuple[orders.Order, ...] = (
    orders.by_heat, orders.by_box, orders.by_meetings_then_size, orders.by_heat_then_meetings,
)  # fmt: skip


def within(
    p: Problem, capacity: int, *, nodes: int | None = None, deadline: float | None = None
) -> I64:
    """Return offsets within a capacity; Infeasible if there are none, OutOfNodes if unknown.

    Heuristics take turns, each time with twice the steps of the turn before.
    """
    searches: list[Search] = []
    limit = p.count
    spent = 0
    while True:
        limit *= 2
        for k, order in enumerate(HEURISTICS):
            if k == len(searches):
                searches.append(Search(p, capacity, order(p)))
            search = searches[k]
            left = limit if nodes is None else min(limit, nodes - spent)
            try:
                return search.run(left, deadline)
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
