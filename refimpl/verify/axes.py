"""The laws of a loop bound to an axis: L-grid and L-threads, whose table is in ``loop``."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.walk import expr_children
from didyma.refimpl.verify.scalars import Scalars


def verify_extent(scalars: Scalars, s: ir.For, dims: Sequence[DimVar], target: Target) -> None:
    """Raise DidymaError unless a bound loop extends over dims, as far as a target allows."""
    of_grid = s.axis.startswith("block")
    law = "L-grid" if of_grid else "L-threads"
    if of_grid and not _over(s.extent, {v.name for v in dims}):
        raise scalars.broken(law, s, show_expr(s.extent), "an expression over dims alone")
    most = target.most(s.axis)
    if isinstance(s.extent, ir.Const) and s.extent.value > most:
        raise scalars.broken(law, s, show_expr(s.extent), f"at most {most} along {s.axis}")


def _over(e: ir.Expr, names: set[str]) -> bool:
    """Return whether an expression is made of literals and of variables of some names."""
    if isinstance(e, ir.Var):
        return e.name in names
    return not isinstance(e, ir.Load | ir.LetExpr) and all(
        _over(x, names) for x in expr_children(e)
    )
