from didyma.codegen.memory.build import program
from didyma.codegen.memory.peak import peak, unplanned_total
from didyma.codegen.memory.planners import PLANNERS, planner

__all__ = ["PLANNERS", "peak", "planner", "program", "unplanned_total"]
