"""Operands of f32 that a function rounds to tf32, as ``didyma.composites.numeric.tf32`` has it."""

from __future__ import annotations

from didyma.refimpl.ir.fragments import HALF, KEPT
from didyma.refimpl.ir.loop import Binary, Const, Expr, Intrinsic, LetExpr, Select, Var
from didyma.refimpl.ir.types import DType


def unrounded(e: Expr) -> Expr | None:
    """Return what an expression rounds to tf32; None for any other.

    What is NaN may be another NaN.
    """
    if not isinstance(e, LetExpr):
        return None
    if _rounds(e.body, e.var):
        return e.value
    inner = unrounded(e.body)
    return None if inner is None else LetExpr(e.var, e.value, inner)


def _rounds(e: Expr, x: Var) -> bool:
    match e:
        case Select(
            Intrinsic("isnan", (one,)),
            Const(none),
            Intrinsic(
                "as_f32",
                (Binary("and", Binary("add", Intrinsic("as_u32", (other,)), half), kept),),
            ),
        ):
            constants = half, kept
            wanted = Const(HALF, DType.U32), Const(KEPT, DType.U32)
            return one == other == x and none != none and constants == wanted
        case _:
            return False
