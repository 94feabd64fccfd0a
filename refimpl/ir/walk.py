"""Walks over loop programs: children, rebuilding, substitution.  Unchanged nodes keep identity."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import TypeAlias, assert_never

from didyma.refimpl.ir.loop import (
    Accumulator,
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Axis,
    Barrier,
    Binary,
    Block,
    BlockRealize,
    Broadcast,
    BufferRealize,
    Call,
    Cast,
    Chain,
    Combiner,
    Compare,
    Compute,
    Const,
    Evaluate,
    Exchange,
    Expr,
    ExternalAllocate,
    ExternalCall,
    Fold,
    For,
    Free,
    If,
    Intrinsic,
    IterVar,
    Let,
    LetExpr,
    Load,
    PlacementAllocate,
    Prefetch,
    ProducerRealize,
    Ramp,
    Region,
    Return,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    While,
    Yield,
)

ExprFn: TypeAlias = Callable[[Expr], Expr]
StmtFn: TypeAlias = Callable[[Stmt], Stmt]


def expr_children(e: Expr) -> tuple[Expr, ...]:
    """Return the direct subexpressions, in order of evaluation."""
    match e:
        case Var() | Const():
            return ()
        case Binary() | Compare():
            return (e.lhs, e.rhs)
        case Load():
            return e.index
        case Cast() | Unary():
            return (e.arg,)
        case Intrinsic():
            return e.args
        case Select():
            return (e.cond, e.then, e.other)
        case LetExpr():
            return (e.value, e.body)
        case Ramp():
            return (e.base,)
        case Broadcast():
            return (e.value,)
        case _:
            assert_never(e)


def certain_children(e: Expr) -> tuple[Expr, ...]:
    """Return the direct subexpressions that are evaluated whatever the values are."""
    return (e.cond,) if isinstance(e, Select) else expr_children(e)


def map_expr(f: ExprFn, e: Expr) -> Expr:
    """Return an expression with ``f`` applied to its direct subexpressions."""
    if isinstance(e, (Var, Const)):
        return e
    old = expr_children(e)
    new = tuple(map(f, old))
    if all(map(is_, old, new)):
        return e
    match e:
        case Cast(_, dtype):
            return Cast(new[0], dtype)
        case Unary(op, _):
            return Unary(op, new[0])
        case Binary(op, _, _):
            return Binary(op, *new)
        case Compare(op, _, _):
            return Compare(op, *new)
        case Intrinsic(name, _, own):
            return Intrinsic(name, new, own)
        case Select():
            return Select(*new)
        case Load(buffer, _, dtype):
            return Load(buffer, new, dtype)
        case LetExpr(var, _, _):
            return LetExpr(var, *new)
        case Ramp(_, stride, lanes):
            return Ramp(new[0], stride, lanes)
        case Broadcast(_, lanes):
            return Broadcast(new[0], lanes)
        case _:
            assert_never(e)


def stmt_exprs(s: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that stand directly in a statement."""
    match s:
        case (
            Block() | Allocate() | PlacementAllocate() | Free() | ExternalCall() | Barrier()
            | AttrStmt() | ExternalAllocate()
        ):  # fmt: skip
            return ()
        case Store() | Atomic():
            return (*s.index, s.value)
        case For():
            return (s.extent,)
        case Let() | Exchange():
            return (s.value,)
        case Chain():
            return (s.start, s.value)
        case If() | While() | Assert():
            return (s.cond,)
        case Evaluate() | Return():
            return (s.value,)
        case Prefetch():
            return s.index
        case Fold():
            merged = () if s.merge is None else s.merge.results
            bounds = (*(a.start for a in s.accs), *(a.extent for a in s.axes))
            return (*bounds, *s.combine.results, *merged)
        case Yield():
            return s.values
        case BufferRealize() | ProducerRealize():
            return s.starts
        case Compute():
            return ()
        case BlockRealize():
            regions = [e for r in (*s.reads, *s.writes) for e in (*r.starts, *r.extents)]
            return (s.where, *(e for v in s.vars for e in (v.extent, v.value)), *regions)
        case Call():
            return (*s.dims, *s.scalars)
        case _:
            assert_never(s)


def stmt_children(s: Stmt) -> tuple[Stmt, ...]:
    """Return the direct substatements, in order."""
    match s:
        case Block():
            return s.body
        case For() | Let() | Allocate() | While() | PlacementAllocate() | AttrStmt() | Exchange():
            return (s.body,)
        case Chain():
            return (s.body,)
        case If():
            return (s.then,) if s.other is None else (s.then, s.other)
        case Fold():
            return (s.step, s.body)
        case BufferRealize() | ProducerRealize() | ExternalAllocate():
            return (s.body,)
        case Compute():
            return (s.step, s.body)
        case BlockRealize():
            return (s.body,) if s.init is None else (s.init, s.body)
        case (
            Store() | Atomic() | Free() | ExternalCall() | Call() | Barrier() | Assert() | Yield()
            | Evaluate() | Prefetch() | Return()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(s)


def map_stmt(s: Stmt, on_expr: ExprFn, on_stmt: StmtFn) -> Stmt:
    """Return a statement with functions applied to its direct subexpressions and substatements."""
    match s:
        case Block(body):
            return Block(tuple(on_stmt(b) for b in body))
        case For(var, extent, body, kind, axis):
            return For(var, on_expr(extent), on_stmt(body), kind, axis)
        case While(cond, body):
            return While(on_expr(cond), on_stmt(body))
        case If(cond, then, other):
            return If(on_expr(cond), on_stmt(then), None if other is None else on_stmt(other))
        case Fold(accs, axes, combine, step, body, merge):
            return Fold(
                tuple(Accumulator(a.var, on_expr(a.start)) for a in accs),
                tuple(Axis(a.var, on_expr(a.extent)) for a in axes),
                _combiner(combine, on_expr),
                on_stmt(step),
                on_stmt(body),
                None if merge is None else _combiner(merge, on_expr),
            )
        case Yield(values):
            return Yield(tuple(on_expr(v) for v in values))
        case BlockRealize(vars, where, reads, writes, init, body):
            return BlockRealize(
                tuple(IterVar(v.var, on_expr(v.extent), v.kind, on_expr(v.value)) for v in vars),
                on_expr(where),
                tuple(_region(r, on_expr) for r in reads),
                tuple(_region(r, on_expr) for r in writes),
                None if init is None else on_stmt(init),
                on_stmt(body),
            )
        case Let(var, value, body):
            return Let(var, on_expr(value), on_stmt(body))
        case Exchange(var, value, mask, body):
            return Exchange(var, on_expr(value), mask, on_stmt(body))
        case Chain(var, op, start, value, states, totals, body):
            return Chain(var, op, on_expr(start), on_expr(value), states, totals, on_stmt(body))
        case Store(buffer, index, value):
            return Store(buffer, tuple(on_expr(i) for i in index), on_expr(value))
        case Atomic(op, buffer, index, value):
            return Atomic(op, buffer, tuple(on_expr(i) for i in index), on_expr(value))
        case Allocate(buffer, body):
            return Allocate(buffer, on_stmt(body))
        case BufferRealize(buffer, starts, extents, body):
            return BufferRealize(buffer, tuple(map(on_expr, starts)), extents, on_stmt(body))
        case Compute(buffer, vars, step, body):
            return Compute(buffer, vars, on_stmt(step), on_stmt(body))
        case ProducerRealize(name, starts, extents, body):
            return ProducerRealize(name, tuple(map(on_expr, starts)), extents, on_stmt(body))
        case PlacementAllocate(buffer, over, body):
            return PlacementAllocate(buffer, over, on_stmt(body))
        case Assert(cond, message):
            return Assert(on_expr(cond), message)
        case Evaluate(value):
            return Evaluate(on_expr(value))
        case Return(value):
            return Return(on_expr(value))
        case ExternalAllocate(name, buffers, inputs, attrs, body):
            return ExternalAllocate(name, buffers, inputs, attrs, on_stmt(body))
        case Prefetch(buffer, index):
            return Prefetch(buffer, tuple(on_expr(i) for i in index))
        case AttrStmt(key, value, body):
            return AttrStmt(key, value, on_stmt(body))
        case Call(callee, args, dims, scalars):
            sizes, numbers = (tuple(on_expr(e) for e in es) for es in (dims, scalars))
            return Call(callee, args, sizes, numbers)
        case Free() | ExternalCall() | Barrier():
            return s
        case _:
            assert_never(s)


def _combiner(c: Combiner, on_expr: ExprFn) -> Combiner:
    return Combiner(c.operands, tuple(on_expr(e) for e in c.results))


def _region(r: Region, on_expr: ExprFn) -> Region:
    return Region(r.buffer, tuple(map(on_expr, r.starts)), tuple(map(on_expr, r.extents)))


def exprs(s: Stmt) -> list[Expr]:
    """Return every expression of a statement and its substatements, parents first."""
    return [e for below in stmts(s) for root in stmt_exprs(below) for e in subexprs(root)]


def subexprs(e: Expr) -> list[Expr]:
    """Return an expression and everything below it, parents first, in order of evaluation."""
    found, todo = list[Expr](), [e]
    while todo:
        found.append(e := todo.pop())
        if not isinstance(e, (Var, Const)):
            todo += expr_children(e)[::-1]
    return found


def mentions(e: Expr, names: Collection[str]) -> bool:
    """Return whether an expression reads one of some variables."""
    return any(isinstance(x, Var) and x.name in names for x in subexprs(e))


def stmts(s: Stmt) -> list[Stmt]:
    """Return a statement and everything below it, parents first, in order."""
    found, todo = list[Stmt](), [s]
    while todo:
        found.append(s := todo.pop())
        if not isinstance(s, (Store, Yield)):
            todo += stmt_children(s)[::-1]
    return found


def substitute_expr(e: Expr, table: Mapping[str, Expr]) -> Expr:
    """Replace variables by name.  Names in a function are unique, so nothing is captured."""
    return _substituting(table)(e)


def substitute(s: Stmt, table: Mapping[str, Expr]) -> Stmt:
    """Replace variables by name in a statement."""
    on_expr = _substituting(table)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def one_of(parts: Sequence[Stmt]) -> Stmt:
    """Return statements as one: the only one itself, or a block of several."""
    return parts[0] if len(parts) == 1 else Block(tuple(parts))


def items(s: Stmt) -> tuple[Stmt, ...]:
    """Return the statements of a block, or the one statement."""
    return s.body if isinstance(s, Block) else (s,)


def _substituting(table: Mapping[str, Expr]) -> ExprFn:
    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Var):
            return table.get(e.name, e)
        return e if isinstance(e, Const) else map_expr(on_expr, e)

    return on_expr
