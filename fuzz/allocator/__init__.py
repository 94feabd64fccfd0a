"""Stateful fuzzing of memory planning: planner, aliasing and execution together."""
