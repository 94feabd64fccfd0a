"""Write out stores of vectors as loops over their lanes."""

from __future__ import annotations

from typing import TypeGuard

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expr import add, index, mul
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import map_expr, map_stmt


def lanes_of(s: ir.Store) -> int:
    """Return how many elements a store writes: the lanes of its ramp, or 1 without one."""
    return next((i.lanes for i in s.index if isinstance(i, ir.Ramp)), 1)


def is_vector(s: ir.Stmt) -> TypeGuard[ir.Store]:
    """Return whether a statement stores a vector."""
    return isinstance(s, ir.Store) and any(isinstance(i, ir.Ramp) for i in s.index)


def without_vectors(s: ir.Stmt, names: Names) -> ir.Stmt:
    """Return a statement with vectorized loops over lanes in place of stores of vectors.

    Law L-apart sees to it that no lane reads what another stores, so lanes may go one by one.
    """
    if not is_vector(s):
        return map_stmt(s, lambda e: e, lambda b: without_vectors(b, names))
    lane = ir.Var(names.fresh("lane"))
    at = tuple(_in_lane(i, lane) for i in s.index)
    one = ir.Store(s.buffer, at, _in_lane(s.value, lane))
    return ir.For(lane, index(lanes_of(s)), one, ir.LoopKind.VECTORIZED)


def _in_lane(e: ir.Expr, lane: ir.Expr) -> ir.Expr:
    """Return the value of an expression in one lane."""
    match e:
        case ir.Ramp(base, stride):
            return add(base, mul(lane, index(stride)))
        case ir.Broadcast(value):
            return value
        case _:
            return map_expr(lambda c: _in_lane(c, lane), e)
