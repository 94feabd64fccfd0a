"""Take what weights read for a whole row or column of a tile out of their bodies.

A weight may read numbers that belong to its row, or its column, such as the logarithm of a sum of
exponentials.  A thread has many weights of one row: read in the body, each costs an address and a
register of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.refimpl.ir.loop import INDEX, Expr, LetExpr, Load, Var
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import map_expr, subexprs, substitute_expr

NAMES = ("by_row_{}", "by_column_{}")


@dataclass(frozen=True, slots=True)
class Lines:
    """A problem whose weights are given so many numbers of each row, and of each column."""

    problem: Problem
    of_rows: int
    of_columns: int


def lined(p: Problem, weights: Sequence[str]) -> Lines:
    """Return a problem in which bodies ``weights`` read no f32 by batch and row, or column, alone.

    They have inputs ``by_row_0``, ``by_column_0`` and so on instead, which are bodies of their own,
    of batch and row, or of batch and column.
    """
    first = p.bodies[weights[0]]
    batch, *places = first.inputs[:3]
    values = {name: _inlined(p.bodies[name].value) for name in weights}
    known: tuple[dict[Expr, Var], ...] = ({}, {})
    for load in (e for value in values.values() for e in subexprs(value)):
        read = {e.name for e in subexprs(load) if isinstance(e, Var)}
        sides = [n for n, v in enumerate(places) if v.name in read]
        if isinstance(load, Load) and load.dtype is DType.F32 and len(sides) == 1:
            (side,) = sides
            var = Var(NAMES[side].format(len(known[side])), DType.F32)
            known[side].setdefault(load, var)
    every = known[0] | known[1]
    bodies = dict(p.bodies)
    for name, value in values.items():
        inputs = (*p.bodies[name].inputs, *every.values())
        bodies[name] = replace(p.bodies[name], inputs=inputs, value=replaced(value, every))
    for n, (place, loads) in enumerate(zip(places, known, strict=True)):
        extents = (first.extents[0], first.extents[n + 1])
        bodies |= {var.name: Subgraph((batch, place), e, extents) for e, var in loads.items()}
    return Lines(replace(p, bodies=bodies), *map(len, known))


def after(p: Problem, weights: Sequence[str]) -> Problem | None:
    """Return a problem in which weights take others, ``the_also``, in place of the first product.

    ``weights`` are the bodies of these, with and without what hides them, and of the others
    likewise.  None where the first product counts otherwise, too.
    """
    score, open_score, _, open_also = weights
    dot = p.bodies[score].inputs[3]
    also = Var("the_also", dot.dtype)
    bodies = dict(p.bodies)
    for name in (score, open_score):
        body = bodies[name]
        value = replaced(body.value, {p.bodies[open_also].value: also})
        if dot in subexprs(value):
            return None
        inputs = tuple(also if v == dot else v for v in body.inputs)
        bodies[name] = replace(body, inputs=inputs, value=value)
    return replace(p, bodies=bodies)


def _inlined(e: Expr) -> Expr:
    """Return an expression with what indices are bound to in their place."""
    if isinstance(e, LetExpr) and e.var.dtype is INDEX:
        return _inlined(substitute_expr(e.body, {e.var.name: e.value}))
    return map_expr(_inlined, e)


def replaced(e: Expr, known: Mapping[Expr, Var]) -> Expr:
    """Return an expression with variables in the place of some of its parts."""
    return known[e] if e in known else map_expr(lambda x: replaced(x, known), e)
