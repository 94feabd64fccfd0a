from didyma.codegen.memory.peak import peak, unplanned_total
from didyma.codegen.memory.planners import PLANNERS, planner

__all__ = ["PLANNERS", "peak", "planner", "unplanned_total"]
