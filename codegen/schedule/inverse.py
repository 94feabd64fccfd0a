"""Divide the exponentials of a row by their sum: one quotient per row, and a product for each.

The sum of a softmax is at least 1, as the largest of its exponentials is.  So its inverse does not
overflow.  A product with the inverse has one rounding more than a quotient.  That is less than the
difference between what exponentials may be off by and what those of libraries are, so results stay
in their bars.
"""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.schedule import online
from didyma.codegen.schedule.nest import NestFacts
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir.loop import Binary, Const, Expr, Fold, Intrinsic, Let, Stmt, Var
from didyma.refimpl.ir.walk import map_expr, map_stmt


def by_inverse(facts: NestFacts, rows: RowNest) -> RowNest:
    """Return rows that multiply exponentials by the inverse of their sum; others as they are."""
    found = online.find(facts, rows)
    if found is None or not found.scale or rows.each is None:
        return rows
    second = rows.stages[found.second]
    assert isinstance(second, Fold)
    total = second.accs[0].var
    inverse = Var(facts.names.fresh("inverse"), total.dtype)

    def expr(e: Expr) -> Expr:
        e = map_expr(expr, e)
        match e:
            case Binary("div", Intrinsic(found.scale) as one, Var(total.name)):
                return Binary("mul", one, inverse)
            case _:
                return e

    def stmt(s: Stmt) -> Stmt:
        return map_stmt(s, expr, stmt)

    each = stmt(rows.each)
    if each == rows.each:
        return rows
    let = Let(inverse, Binary("div", Const(1.0, total.dtype), total), second.body)
    at = found.second + 1
    return replace(rows, stages=(*rows.stages[:at], let, *rows.stages[at:]), each=each)
