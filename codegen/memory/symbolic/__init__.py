from didyma.codegen.memory.symbolic.certify import Certificate
from didyma.codegen.memory.symbolic.plan import (
    SymbolicBuffer,
    SymbolicPlacement,
    SymbolicPlan,
    plan,
)

__all__ = ["Certificate", "SymbolicBuffer", "SymbolicPlacement", "SymbolicPlan", "plan"]
