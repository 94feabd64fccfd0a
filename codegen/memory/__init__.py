from codegen.memory.build import program
from codegen.memory.peak import peak, unplanned_total
from codegen.memory.planners import PLANNERS, planner

__all__ = ["PLANNERS", "peak", "planner", "program", "unplanned_total"]
