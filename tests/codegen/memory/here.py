"""Planners that can run here: ``exact`` needs the extra of its name."""

from importlib.util import find_spec

from didyma.codegen.memory import PLANNERS

HERE = tuple(name for name in sorted(PLANNERS) if name != "exact" or find_spec("ortools"))
