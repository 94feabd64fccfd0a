"""Greedy planners: one order each, every buffer into the smallest gap that holds it."""

from __future__ import annotations

from didyma.codegen.memory.arena import orders
from didyma.codegen.memory.arena.fit import place
from didyma.codegen.memory.arena.problem import Placement, Problem, placement


def greedy_by_size(p: Problem) -> Placement:
    """Largest first, best gap: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
    Net Inference" (2020); TensorFlow Lite, ``arena_planner.cc`` and ``simple_memory_arena.cc``.
    """
    return placement(p, place(p, orders.by_size(p)))


def greedy_by_breadth(p: Problem) -> Placement:
    """From the most crowded time outward, largest first within, best gap: the same paper."""
    return placement(p, place(p, orders.by_breadth(p)))
