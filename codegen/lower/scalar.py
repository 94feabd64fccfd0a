"""Scalars of loop programs: storage dtypes, identities of folds."""

from __future__ import annotations

from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr, Load
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.spec import FoldOp


def widened(load: Load) -> Expr:
    """Return a load, converted to the compute dtype."""
    return load if load.dtype.compute is load.dtype else Cast(load, load.dtype.compute)


def narrowed(e: Expr, dtype: DType) -> Expr:
    """Return a value, converted to the dtype of the buffer it is stored to."""
    return e if e.dtype is dtype else Cast(e, dtype)


def unwidened(e: Expr) -> Expr:
    """Return a value without a conversion to its compute dtype and back, which changes nothing.

    Where a value is moved, this also keeps the bits of a NaN.
    """
    match e:
        case Cast(Cast(arg, between), dtype) if arg.dtype is dtype and dtype.compute is between:
            return arg
        case _:
            return e


def combine(op: FoldOp, a: Expr, b: Expr) -> Expr:
    """Combine two values by a fold other than argmin and argmax."""
    assert op != "argmin"
    assert op != "argmax"
    return Binary(op, a, b)


def identity(op: FoldOp, dtype: DType) -> Const:
    """Return the identity of a fold: combining with it changes nothing.

    >>> identity("min", DType.I8).value, identity("max", DType.F32).value
    (127, -inf)
    """
    match op:
        case "add":
            return Const(0.0 if dtype.is_float else 0, dtype)
        case "mul":
            return Const(1.0 if dtype.is_float else 1, dtype)
        case "and":
            return Const(True, dtype) if dtype is DType.BOOL else Const(-1, dtype)
        case "or":
            return Const(False, dtype) if dtype is DType.BOOL else Const(0, dtype)
        case "min" | "argmin":
            return Const(_extreme(dtype, 1), dtype)
        case "max" | "argmax":
            return Const(_extreme(dtype, -1), dtype)


def _extreme(dtype: DType, sign: int) -> int | float | bool:
    if dtype.is_float:
        return sign * float("inf")
    if dtype is DType.BOOL:
        return sign > 0
    return dtype.limits[sign > 0]
