"""The planners of arenas by name, and the function that calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from didyma.codegen.guards import guarded
from didyma.codegen.memory.arena import whole
from didyma.codegen.memory.arena.best_fit import best_fit
from didyma.codegen.memory.arena.budget import Budget, within
from didyma.codegen.memory.arena.canonical import canonical
from didyma.codegen.memory.arena.exact import exact
from didyma.codegen.memory.arena.greedy import greedy_by_breadth, greedy_by_size
from didyma.codegen.memory.arena.hill_climb import hill_climb
from didyma.codegen.memory.arena.portfolio import didyma
from didyma.codegen.memory.arena.problem import (
    FREE,
    Placement,
    Problem,
    placement,
    require_capacity,
    validate,
)
from didyma.refimpl.errors import DidymaError


def _at_once(run: Callable[[Problem], Placement]) -> Callable[[Problem, Budget], Placement]:
    def planner(p: Problem, budget: Budget) -> Placement:
        del budget  # there is nothing to cut short
        return run(p)

    return planner


@dataclass(frozen=True, slots=True)
class ArenaPlanner:
    """A planner; ``extra`` names the optional dependency it needs."""

    name: str
    run: Callable[[Problem, Budget], Placement]
    extra: str = ""


ARENA: dict[str, ArenaPlanner] = {
    a.name: a
    for a in (
        ArenaPlanner("none", _at_once(whole.none)),
        ArenaPlanner("linear_scan", _at_once(whole.linear_scan)),
        ArenaPlanner("size_class", _at_once(whole.size_class)),
        ArenaPlanner("storage_id", _at_once(whole.storage_id)),
        ArenaPlanner("greedy_by_size", _at_once(greedy_by_size)),
        ArenaPlanner("greedy_by_breadth", _at_once(greedy_by_breadth)),
        ArenaPlanner("best_fit", best_fit),
        ArenaPlanner("hill_climb", hill_climb),
        ArenaPlanner("exact", exact, extra="exact"),
        ArenaPlanner("canonical", canonical),
        ArenaPlanner("didyma", didyma),
    )
}


def arena_planner(name: str) -> ArenaPlanner:
    """Return a planner by name; DidymaError ``unknown-planner`` lists the names."""
    if name not in ARENA:
        raise DidymaError(
            "unknown-planner", name, got=name, want=f"one of {', '.join(sorted(ARENA))}"
        )
    return ARENA[name]


def _placed(planner: ArenaPlanner, p: Problem, budget: Budget) -> Placement:
    """Run a planner; DidymaError ``failed-part`` where one of a caller's own does not place."""
    if ARENA.get(planner.name) is planner:
        return planner.run(p, budget)

    def fits(x: object) -> bool:
        return isinstance(x, Placement) and np.shape(x.offsets) == (p.count,)

    want = f"a Placement with an offset for each buffer, of which there are {p.count}"
    return guarded(f"planner {planner.name}, run", planner.run, want, fits)(p, budget)


def solve(
    p: Problem,
    which: str | ArenaPlanner = "didyma",
    seconds: float | None = None,
    *,
    brief: bool = False,
) -> Placement:
    """Place the buffers of a problem; ``seconds`` is the planner's time.

    With 0 only the planner's fast heuristics run, which for ten buffers take less than a
    millisecond; with that and with None the placement does not depend on the machine.  ``brief``:
    with None, and without a capacity, ``didyma`` searches for fewer steps.

    The planner sees only buffers that have bytes and a life, in an order of their own: the
    placement does not depend on the order in which they are given.  DidymaError as
    ``problem.validate``; ``failed-part`` of a planner that is not Didyma's own; ``over-capacity``
    if the arena cannot hold them, or did not in this planner's hands.
    """
    planner = arena_planner(which) if isinstance(which, str) else which
    validate(p)
    require_capacity(p)
    budget = within(seconds, brief)
    real = np.flatnonzero((p.size > 0) & (p.upper > p.lower))
    offsets = np.where(p.fixed == FREE, 0, p.fixed)
    if len(real):
        keys = (p.fixed, p.alignment, -p.size, p.upper, p.lower)
        names = np.argsort(np.argsort(np.array(p.names)[real]))
        by = real[np.lexsort((names, *(k[real] for k in keys)))]
        offsets[by] = _placed(planner, p.pick(by), budget).offsets
    found = placement(p, offsets)
    if p.capacity is not None and found.peak > p.capacity:
        raise DidymaError(
            "over-capacity",
            f"planner {planner.name}",
            got=f"a peak of {found.peak} bytes",
            want=f"at most {p.capacity}",
            help="another planner, or more time, may do better"
            if planner.name != "canonical"
            else "",
        )
    return found
