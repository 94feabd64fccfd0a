from didyma.codegen.order.program import order

__all__ = ["order"]
