"""Operands of products as tensor cores read them, before a function converts or rounds them.

What a dtype of one byte has in it, such as f8, a dtype of two bytes may have, too: then tensor
cores multiply operands of different dtypes, of which each is converted without an error.  Operands
of f32 are rounded to tf32 as ``didyma.composites.numeric.tf32`` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.refimpl.ir.fragments import HALF, KEPT
from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr, Intrinsic, LetExpr, Select, Var
from didyma.refimpl.ir.types import DType


def narrow(p: Problem) -> Mapping[str, Subgraph] | None:
    """Return the operands of a problem before they are converted to a wider dtype."""
    return _before(p, _inside)


def rounded(p: Problem) -> Mapping[str, Subgraph] | None:
    """Return the operands of a problem before they are rounded to tf32."""
    return _before(p, _unrounded)


def held(operands: Mapping[str, Subgraph], dtype: DType) -> Mapping[str, Subgraph] | None:
    """Return operands in a dtype, or None unless it has all numbers of theirs in it."""
    if not all(holds(dtype, sub.value.dtype) for sub in operands.values()):
        return None
    return {name: replace(s, value=_converted(s.value, dtype)) for name, s in operands.items()}


@lru_cache
def holds(wide: DType, dtype: DType) -> bool:
    """Return whether each number of a dtype of one byte is one of another dtype, too."""
    if dtype is wide:
        return True
    if dtype.nbytes > 1 or not (dtype.is_float or dtype.is_int):
        return False
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    return np.array_equal(every.astype(wide.numpy).astype(np.float32), every, equal_nan=True)


def _converted(e: Expr, dtype: DType) -> Expr:
    """Return an expression in a dtype of two bytes; f32 is between."""
    if isinstance(e, LetExpr):
        return replace(e, body=_converted(e.body, dtype))
    return e if e.dtype is dtype else Cast(Cast(e, DType.F32), dtype)


def _before(p: Problem, inside: Callable[[Expr], Expr | None]) -> Mapping[str, Subgraph] | None:
    found = {name: (sub, inside(sub.value)) for name, sub in p.operands.items()}
    values = {name: replace(sub, value=e) for name, (sub, e) in found.items() if e is not None}
    return values if len(values) == len(found) else None


def _inside(e: Expr) -> Expr | None:
    """Return what a conversion to a wider dtype converts."""
    if isinstance(e, LetExpr):
        inner = _inside(e.body)
        return None if inner is None else replace(e, body=inner)
    if isinstance(e, Select) and e.other == Const(0, e.dtype):  # the border of a convolution
        inner = _inside(e.then)
        return None if inner is None else Select(e.cond, inner, Const(0, inner.dtype))
    return e.arg if isinstance(e, Cast) else None


def _unrounded(e: Expr) -> Expr | None:
    """Return what an expression rounds to tf32; None for any other.

    What is NaN may be another NaN.
    """
    if not isinstance(e, LetExpr):
        return None
    if _rounds(e.body, e.var):
        return e.value
    inner = _unrounded(e.body)
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
