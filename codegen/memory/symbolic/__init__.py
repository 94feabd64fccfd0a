from didyma.codegen.memory.symbolic.certify import Certificate
from didyma.codegen.memory.symbolic.plan import Placement, SymbolicBuffer, SymbolicPlan, plan

__all__ = ["Certificate", "Placement", "SymbolicBuffer", "SymbolicPlan", "plan"]
