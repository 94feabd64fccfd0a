"""Choices that all lanes of a vector make alike: a branch around the vector, in place of each.

The elements of a concatenation or of a padded array come from one operand or another.  Where an
operand begins and ends at a multiple of the width, a whole vector comes from one of them, by one
access.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.folds import copied
from didyma.codegen.schedule.nest import NestFacts
from didyma.refimpl.ir.dims.polynomial import coefficient, plus
from didyma.refimpl.ir.loop import (
    INDEX,
    Compare,
    Expr,
    If,
    Load,
    Select,
    Stmt,
    Var,
)
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, subexprs

MOST = 8  # branches of a body


def by_vector(facts: NestFacts, s: Stmt, last: Var, part: Var, n: int) -> Stmt:
    """Compare the number of a vector where that says the same of each of its ``n`` elements."""

    def on_expr(e: Expr) -> Expr:
        return _of_vectors(facts, e, last, part, n) or map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s) if Compare in map(type, exprs(s)) else s


def _of_vectors(facts: NestFacts, e: Expr, last: Var, part: Var, n: int) -> Expr | None:
    if not isinstance(e, Compare) or e.lhs.dtype is not INDEX or e.op not in ("lt", "ge"):
        return None
    left, right = facts.affine.poly(e.lhs), facts.affine.poly(e.rhs)
    if coefficient(left, last.name) != {(): 1}:
        return None
    rest = plus(right, plus(left, {(last.name,): 1}, -1), -1)
    end = None if lanes.mentions(facts, rest, last) else lanes.part(rest, n)
    return None if end is None else Compare(e.op, part, facts.affine.expr(end))


def apart(
    facts: NestFacts,
    s: Stmt,
    known: Collection[str],
    make: Callable[[Stmt], Stmt],
    most: int = MOST,
) -> Stmt:
    """Return what is made of a straight statement, or of each of its alternatives in branches.

    A choice between loads becomes a branch if its condition uses variables that are ``known``
    outside of the statement, and no memory.
    """
    found = next(_choices(facts, s, known), None) if most > 1 else None
    if found is None:
        return make(s)
    then, other = (_with(s, found, e) for e in (found.then, found.other))
    half = most // 2
    return If(
        found.cond,
        apart(facts, then, known, make, half),
        copied(apart(facts, other, known, make, half), facts.names),
    )


def _choices(facts: NestFacts, s: Stmt, known: Collection[str]) -> Iterator[Select]:
    for e in exprs(s):
        if isinstance(e, Select):
            cond = subexprs(e.cond)
            loads = (x for b in (e.then, e.other) for x in subexprs(b) if isinstance(x, Load))
            if (
                not any(isinstance(x, Load) for x in cond)
                and {x.name for x in cond if isinstance(x, Var)} <= {*known}
                and any(x.buffer in facts.buffers for x in loads)
            ):
                yield e


def _with(s: Stmt, old: Expr, new: Expr) -> Stmt:
    def on_expr(e: Expr) -> Expr:
        return new if e == old else map_expr(on_expr, e)

    return map_stmt(s, on_expr, lambda b: _with(b, old, new))
