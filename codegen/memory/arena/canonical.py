"""The planner ``canonical``: minimalloc's search, with several orders in turn."""

from __future__ import annotations

import time

from didyma.codegen.memory.arena import orders
from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.fit import place
from didyma.codegen.memory.arena.problem import I64, Placement, Problem, lower_bound, placement
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes, PlacementSearch
from didyma.refimpl.errors import DidymaError

TURN = 2.0  # seconds; a search that has fewer left gets them all
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
    searches: list[PlacementSearch] = []
    limit = p.count
    spent = 0
    while True:
        limit *= 2
        for k, order in enumerate(HEURISTICS):
            if k == len(searches):
                searches.append(PlacementSearch(p, capacity, order(p)))
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
    """Search within the capacity, or the lower bound without one, and then within ever more.

    Where the capacity is not met, DidymaError ``over-capacity`` names buffers that cannot be
    together within it, and ``search-limit`` says that it is not known whether they can; both tell
    the smallest peak found.
    """
    bound = lower_bound(p)
    if p.capacity is None:
        return _loosened(p, bound, 0, budget)
    try:
        nodes = HARD if budget.deadline is None else None
        deadline = budget.part(0.5).deadline
        return placement(p, within(p, p.capacity, nodes=nodes, deadline=deadline))
    except (Infeasible, OutOfNodes) as e:
        step = 0
        while _target(bound, step) <= p.capacity:
            step = 2 * step + 1
        found = _loosened(p, bound, step, budget)
        if found.peak > p.capacity:
            raise _over(
                p, p.capacity, found, e.core if isinstance(e, Infeasible) else None
            ) from None
        return found


def _target(bound: int, step: int) -> int:
    return bound + (bound * step >> 6)


def _loosened(p: Problem, bound: int, step: int, budget: Budget) -> Placement:
    """Return the first placement found within the bound and so many 64ths of it, then ever more."""
    nodes = 20 * p.count if budget.deadline is None else None
    while True:
        try:
            deadline = budget.part(0.5).deadline if budget.left(1.0) > TURN else budget.deadline
            offsets = within(p, _target(bound, step), nodes=nodes, deadline=deadline)
            return placement(p, offsets)
        except (Infeasible, OutOfNodes):
            step = 2 * step + 1
        if budget.over():
            return placement(p, place(p, orders.by_heat(p)))


def _over(p: Problem, capacity: int, found: Placement, core: I64 | None) -> DidymaError:
    """Return the error for a capacity that was not met, with the smallest peak found."""
    seen = f"the smallest peak found is {found.peak} bytes"
    if core is None:
        return DidymaError(
            "search-limit",
            "planner canonical",
            got=f"no placement within {capacity} bytes, nor a proof that there is none; {seen}",
            want="more time",
        )
    indices: list[int] = core.tolist()
    names = [p.names[i] for i in indices]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return DidymaError(
        "over-capacity",
        f"times {p.lower[core].min()} to {p.upper[core].max()}",
        got=f"no placement of {', '.join(names[:8])}{more} within {capacity} bytes; {seen}",
        want="a larger capacity, or other lives",
    )
