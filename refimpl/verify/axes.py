"""The laws of a loop bound to an axis, whose table is in ``loop``.

They are L-axis, L-outermost, L-grid and L-threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show_expr
from didyma.refimpl.ir.walk import expr_children
from didyma.refimpl.verify.scalars import Scalars


def verify_place(scalars: Scalars, s: ir.For, around: Mapping[str, ir.Expr] | None) -> None:
    """Raise DidymaError unless a loop names an axis that loops around may have around it.

    ``around`` are the axes of those, or None where something else is around it, too.
    """
    known = (*ir.AXES, ir.RANK)
    again = around is not None and s.axis in around
    if s.kind is not ir.LoopKind.BOUND or s.axis not in known or again:
        got = f"{s.kind} {s.axis or 'no axis'}{' again' if again else ''}"
        raise scalars.broken("L-axis", s, got, f"a bound loop on one of {', '.join(known)}, once")
    inner = [axis for axis in around or () if _level(axis) > _level(s.axis)]
    if around is None or inner:
        got = "another statement around" if around is None else f"{inner[0]} around"
        want = f"bound loops outermost, blockIdx before {ir.RANK} before threadIdx"
        raise scalars.broken("L-outermost", s, got, want)


def _level(axis: str) -> int:
    return 2 if axis.startswith("thread") else 1 if axis == ir.RANK else 0


def verify_extent(scalars: Scalars, s: ir.For, dims: Sequence[DimVar], target: Target) -> None:
    """Raise DidymaError unless a bound loop extends over dims, as far as a target allows."""
    of_grid = s.axis.startswith("block")
    law = "L-grid" if of_grid else "L-threads"
    if of_grid and not is_over(s.extent, dims):
        raise scalars.broken(law, s, show_expr(s.extent), "an expression over dims alone")
    most = target.most(s.axis)
    if isinstance(s.extent, ir.Const) and s.extent.value > most:
        raise scalars.broken(law, s, show_expr(s.extent), f"at most {most} along {s.axis}")


def is_over(e: ir.Expr, dims: Sequence[DimVar]) -> bool:
    """Return whether an expression is made of literals and dims."""
    if isinstance(e, ir.Var):
        return any(e.name == d.name for d in dims)
    return not isinstance(e, ir.Load | ir.LetExpr) and all(
        is_over(x, dims) for x in expr_children(e)
    )
