"""Smaller loop programs: without a statement, of fewer rounds, without a part of an expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expr import ZERO, index
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Axis,
    Block,
    Cast,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    PrimFunc,
    Stmt,
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import (
    expr_children,
    map_expr,
    map_stmt,
    stmt_children,
    stmt_exprs,
    stmts,
    subexprs,
    substitute,
    substitute_expr,
)
from didyma.refimpl.verify.loop import verify


def smaller(f: PrimFunc) -> Iterator[PrimFunc]:
    """Yield lawful functions with one change each, the larger parts left out first."""
    for body in (*_statements(f.body), *_expressions(f.body)):
        g = replace(f, body=body)
        try:
            verify(g)
        except (DidymaError, AssertionError):
            continue  # such as a barrier that not every thread reaches any more
        yield g


def parts(f: PrimFunc) -> int:
    """Return how many statements and subexpressions a function has: its size."""
    return sum(1 + sum(1 for e in stmt_exprs(s) for _ in subexprs(e)) for s in stmts(f.body))


def _statements(s: Stmt) -> Iterator[Stmt]:
    """Yield a statement with one statement changed, the outermost first."""
    yield from _simpler(s)
    for i, child in enumerate(stmt_children(s)):
        for other in _statements(child):
            yield _with_statement(s, i, other)


def _simpler(s: Stmt) -> Iterator[Stmt]:
    """Yield what may take the place of a statement."""
    match s:
        case Block(body) if len(body) > 1:
            half = len(body) // 2
            yield from (Block(body[half:]), Block(body[:half]))
            for i in range(len(body) if len(body) > 2 else 0):
                yield Block(body[:i] + body[i + 1 :])
        case Block((only,)):
            yield only
        case For(var, extent, body, kind, axis):
            yield substitute(body, {var.name: ZERO})
            for k in _fewer(extent):
                yield For(var, k, body, kind, axis)
        case Fold(accs, axes, _, _, body):
            yield substitute(body, {a.var.name: a.start for a in accs})
            for i, a in enumerate(axes):
                for k in _fewer(a.extent):
                    yield replace(s, axes=(*axes[:i], Axis(a.var, k), *axes[i + 1 :]))
        case If(_, then, other):
            yield from (then,) if other is None else (then, other)
        case Let(var, value, body):
            yield substitute(body, {var.name: value})
        case Allocate(_, body) | PlacementAllocate(_, _, body):
            yield body
        case _:
            return


def _fewer(extent: Expr) -> Iterator[Expr]:
    """Yield smaller extents."""
    if isinstance(extent, Const) and int(extent.value) > 1:
        n = int(extent.value)
        yield from map(index, sorted({1, 2, n // 2, n - 1} - {0, n}))


def _expressions(s: Stmt) -> Iterator[Stmt]:
    """Yield a statement with one expression changed in it or below it."""
    for i, e in enumerate(stmt_exprs(s)):
        for other in _shorter(e):
            yield _with_expression(s, i, other)
    for i, child in enumerate(stmt_children(s)):
        for below in _expressions(child):
            yield _with_statement(s, i, below)


def _shorter(e: Expr) -> Iterator[Expr]:
    """Yield an expression with one part left out: an operand for it, or a constant."""
    if isinstance(e, Const):
        return
    if isinstance(e, LetExpr):
        yield substitute_expr(e.body, {e.var.name: e.value})
    for child in expr_children(e):
        if child.dtype is e.dtype and not (isinstance(e, Load) and e.dtype is INDEX):
            yield child
    if not isinstance(e, Load | Cast) or e.dtype is INDEX:
        yield from _constants(e.dtype)
    for i, child in enumerate(expr_children(e)):
        for other in _shorter(child):
            yield _with_child(e, i, other)


def _constants(dtype: DType) -> Iterator[Expr]:
    for number in (0, 1):
        value = bool(number) if dtype is DType.BOOL else float(number) if dtype.is_float else number
        yield Const(value, dtype)


def _with_statement(s: Stmt, at: int, other: Stmt) -> Stmt:
    """Return a statement with another direct substatement."""
    number = count()
    return map_stmt(s, lambda e: e, lambda b: other if next(number) == at else b)


def _with_expression(s: Stmt, at: int, other: Expr) -> Stmt:
    """Return a statement with another direct expression."""
    number = count()
    return map_stmt(s, lambda e: other if next(number) == at else e, lambda b: b)


def _with_child(e: Expr, at: int, other: Expr) -> Expr:
    """Return an expression with another direct subexpression."""
    number = count()
    return map_expr(lambda c: other if next(number) == at else c, e)
