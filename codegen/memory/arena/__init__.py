from didyma.codegen.memory.arena.budget import Budget
from didyma.codegen.memory.arena.problem import (
    FREE,
    Placement,
    Problem,
    loads,
    lower_bound,
    placement,
    problem,
    require_capacity,
)
from didyma.codegen.memory.arena.registry import ARENA, ArenaPlanner, arena_planner, solve

__all__ = [
    "ARENA",
    "FREE",
    "ArenaPlanner",
    "Budget",
    "Placement",
    "Problem",
    "arena_planner",
    "loads",
    "lower_bound",
    "placement",
    "problem",
    "require_capacity",
    "solve",
]
