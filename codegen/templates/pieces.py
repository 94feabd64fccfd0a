"""Operands whose elements lie piece by piece: the windows of a convolution, and its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from didyma.codegen.lower.affine import Affine
from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import INDEX, Binary, Const, Expr, LetExpr, Load, Select, Var
from didyma.refimpl.ir.walk import map_expr, subexprs

SMALL = 1 << 28  # elements of an array whose borders i32 counts, too


@dataclass(frozen=True, slots=True)
class Pieces:
    """How an operand lies in an array, or is zero, piece by piece along its axis ``axis``.

    Of a piece, ``offset`` is that of the first element, and all are zero unless ``inside``.
    ``is_small`` tells that i32 holds all offsets, also those of places beside the array.
    """

    buffer: str
    axis: int
    offset: Subgraph
    inside: Subgraph
    is_small: bool


def pieces(p: Problem, operand: str, nbytes: int) -> Pieces | None:
    """Return where an operand lies that is an element of an array, or zero of a border.

    An index along ``axis`` is a position in pieces of ``nbytes``, each of neighbours in memory
    that begin at a multiple of that, and the number of a group of them.  None for others.
    """
    sub = p.operands[operand]
    bound, value = list[tuple[Var, Expr]](), sub.value
    while isinstance(value, LetExpr):
        bound.append((value.var, value.value))
        value = value.body
    inside = ix.TRUE
    if isinstance(value, Select) and value.other == Const(0, value.dtype):
        inside, value = value.cond, value.then
    if not isinstance(value, Load):
        return None
    lanes, params = nbytes // value.dtype.nbytes, {b.name: b for b in p.loop.params}
    dims = params[value.buffer].shape
    shape = [ix.of_dim(d) for d in dims]
    small = all(isinstance(d, int) for d in dims) and math.prod(map(int, dims)) < SMALL
    for axis, v in enumerate(sub.inputs):
        near = next((x for x, e in bound if _within(e, v, lanes)), None)
        if near is None or not _is_near(p, sub, value, bound, v, near, lanes):
            continue
        if near.name not in {e.name for e in subexprs(inside) if isinstance(e, Var)}:
            at, where = ix.flatten(value.index, shape), inside
            for x, e in reversed(bound):
                at, where = LetExpr(x, e, at), LetExpr(x, e, where)
            offset = Subgraph(sub.inputs, at, sub.extents)
            return Pieces(value.buffer, axis, offset, replace(offset, value=where), small)
    return None


def _is_near(
    p: Problem, sub: Subgraph, load: Load, bound: Sequence[tuple[Var, Expr]], v: Var, near: Var,
    lanes: int,
) -> bool:  # fmt: skip
    """Return whether elements are neighbours where ``near``, a remainder of ``v``, is."""
    affine, group = Affine(p.loop.dims), Var("@group", INDEX)
    for var, extent in zip(sub.inputs, sub.extents, strict=True):
        affine.loop(var, extent)
    (divisor,) = (e.rhs for x, e in bound if x == near and isinstance(e, Binary))
    affine.loop(near, divisor)
    for var, e in bound:
        if var != near:
            affine.lets[var.name] = _instead(e, ix.floordiv(v, divisor), group)
    shapes = {b.name: [affine.poly(ix.of_dim(d)) for d in b.shape] for b in p.loop.params}
    found = affine.offset(load.index, shapes[load.buffer])
    rest = {m: c for m, c in found.items() if m != (near.name,)}
    apart = affine.names(rest).isdisjoint((near.name, v.name))
    return found.get((near.name,)) == 1 and apart and not any(c % lanes for c in rest.values())


def _within(e: Expr, v: Var, lanes: int) -> bool:
    """Return whether an expression is a remainder of a variable by a multiple of ``lanes``."""
    match e:
        case Binary("floormod", lhs, Const(value)):
            return lhs == v and int(value) % lanes == 0
        case _:
            return False


def _instead(e: Expr, old: Expr, new: Expr) -> Expr:
    """Return an expression with another in the place of a part."""
    if e == old or isinstance(e, (Var, Const)):
        return new if e == old else e
    return map_expr(lambda x: _instead(x, old, new), e)
