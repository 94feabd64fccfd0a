"""The planner ``didyma``: cheap heuristics first, then search, until the bound is met."""

from __future__ import annotations

from didyma.codegen.memory.arena import orders
from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.canonical import within
from didyma.codegen.memory.arena.fit import PAIRS, TINY, conflicts, pair_count, place
from didyma.codegen.memory.arena.outward import outward
from didyma.codegen.memory.arena.problem import Placement, Problem, placement, tight_bound
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes

ALWAYS = 3  # orders that are tried whatever the deadline: heat, size and breadth
STEPS, STEPS_EACH = 200, 40  # steps of search without a deadline, and more for each buffer
STEPS_BRIEF = 1000  # steps in all during a compile: some tenths of a second
STEPS_TINY = 64  # of few buffers: compiles ask for thousands of plans
WIDEST = 4_000  # buffers that a search can handle
ORDERS: tuple[orders.Order, ...] = (
    orders.by_heat, orders.by_size, orders.by_breadth, orders.by_size_then_life, orders.by_life,
    orders.by_area, orders.by_heat_then_area, orders.by_life_then_area,
)  # fmt: skip
HEAVY = 500_000_000  # pairs alive together: from here on best fit takes half a minute an order
MANY = 50_000  # buffers from which on only what costs little or brings much is tried


def didyma(p: Problem, budget: Budget) -> Placement:
    """Return the best of packing outward, best fit in several orders, and canonical search.

    Ends at the lower bound, or, with a capacity, at the first placement within it; where none is
    found, the placement with the smallest peak seen is returned.  Never worse than
    ``greedy_by_size`` and ``greedy_by_breadth``: those orders are tried whatever the deadline.
    One exception: with more than ``HEAVY`` pairs alive together, a plan within a thousandth of
    the bound is taken as it is.
    """
    goal = max(tight_bound(p), p.capacity or 0)
    best: Placement | None = None
    tiny = p.count <= TINY
    pairs = 0 if tiny else pair_count(p)
    known = conflicts(p) if not tiny and pairs <= PAIRS else None
    found = None if tiny or (known is not None and p.count > MANY) else outward(p)
    if found is not None:
        best = placement(p, found)
        near = goal >> 10 if pairs > HEAVY else 0
        if best.peak <= goal + near:
            return best
    wanted = ORDERS if p.count <= MANY else ORDERS[:ALWAYS]
    for k, order in enumerate(wanted):
        if k >= ALWAYS and not tiny and budget.over():
            break
        tried = placement(p, place(p, order(p), "best", known))
        if best is None or tried.peak < best.peak:
            best = tried
        if best.peak <= goal:
            return best
    assert best is not None
    return best if p.count > WIDEST or budget.over() else improve(p, best, goal, budget)


def improve(p: Problem, best: Placement, goal: int, budget: Budget) -> Placement:
    """Search for a placement at the goal, and failing that between it and the best known.

    Each target gets half of the time that is left.  With a capacity the goal gets nine tenths of
    the time: a placement above the capacity is only there to be reported.
    """
    low, target = goal, goal
    share = 0.5 if p.capacity is None else 0.9
    steps = STEPS_TINY if p.count <= TINY else STEPS + STEPS_EACH * p.count
    if budget.brief and p.capacity is None:
        steps = min(steps, STEPS_BRIEF)
    nodes = None if budget.deadline is not None else steps
    while low < best.peak:
        if nodes is not None:
            nodes //= 2
        deadline = budget.part(share).deadline
        try:
            best = placement(p, within(p, target, nodes=nodes, deadline=deadline))
        except (Infeasible, OutOfNodes):
            low = target + 1  # a larger target is easier to meet
        if budget.over() or nodes == 0 or best.peak - low < goal >> 10:
            break
        target = (low + best.peak) // 2
    return best
