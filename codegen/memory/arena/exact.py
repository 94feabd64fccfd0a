"""The planner ``exact``: the smallest peak, by constraint programming."""

from __future__ import annotations

from didyma.codegen.memory.arena.best_fit import best_fit
from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.problem import FREE, Placement, Problem, lower_bound, placement
from didyma.refimpl.errors import EngineMissing

SECONDS = 60.0  # if no deadline is given


def exact(p: Problem, budget: Budget) -> Placement:
    """Pack rectangles without overlap, as low as possible: OR-tools CP-SAT's ``NoOverlap2D``.

    Starts from ``best_fit``; at the deadline returns the best found.  EngineMissing
    ``extra-missing`` without OR-tools.
    """
    try:
        from ortools.sat.python import cp_model
    except ModuleNotFoundError:
        raise EngineMissing(
            "extra-missing",
            "planner exact",
            got="no ortools package",
            want="the extra `exact`",
            help="python3 -m pip install 'ortools>=9.11'",
        ) from None
    import numpy as np

    start, bound = best_fit(p, Budget()), lower_bound(p)
    if start.peak == bound:
        return start
    # Every offset is a sum of sizes and paddings, so all of them are multiples of this.
    units = [*p.size.tolist(), *p.alignment[p.alignment > 1].tolist()]
    unit = int(np.gcd.reduce(np.array([*units, *p.fixed[p.fixed != FREE].tolist()])))
    model = cp_model.CpModel()
    top = model.new_int_var(bound // unit, start.peak // unit, "peak")
    x: list[cp_model.LinearExpr] = []
    space: list[cp_model.IntervalVar] = []
    life: list[cp_model.IntervalVar] = []
    for i in range(p.count):
        size, align = int(p.size[i]) // unit, max(1, int(p.alignment[i]) // unit)
        last = start.peak // unit - size
        step = model.new_int_var(0, last // align, f"x{i}")
        if p.fixed[i] != FREE:
            model.add(step * align == int(p.fixed[i]) // unit)
        x.append(step * align)
        space.append(model.new_interval_var(step * align, size, step * align + size, f"s{i}"))
        first, length = int(p.lower[i]), int(p.upper[i] - p.lower[i])
        life.append(model.new_fixed_size_interval_var(first, length, f"t{i}"))
        model.add(step * align + size <= top)
        model.add_hint(step, int(start.offsets[i]) // unit // align)
    model.add_no_overlap_2d(life, space)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = budget.left(SECONDS)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    return placement(p, np.array([solver.value(e) * unit for e in x], np.int64))
