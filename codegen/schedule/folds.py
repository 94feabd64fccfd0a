"""Recognise the fold in a nest: accumulators, loops, step, and the statements after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from didyma.codegen.schedule.nest import Nest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Compare,
    CompareOp,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    LoopKind,
    Scope,
    Stmt,
    Store,
    Unary,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import (
    exprs,
    map_expr,
    map_stmt,
    stmts,
    subexprs,
    substitute,
    substitute_expr,
)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The buffer of a fold's running value, and the value it starts from."""

    buffer: Buffer
    start: Expr


@dataclass(frozen=True, slots=True)
class FoldNest:
    """A nest whose body is ``lets``, one fold, then ``rest``.

    ``accs`` has one accumulator, or two for arg-folds: best value, then position.
    """

    nest: Nest
    lets: tuple[Let, ...]
    accs: tuple[Accumulator, ...]
    ks: tuple[Var, ...]
    extents: tuple[Expr, ...]
    step: Stmt
    rest: Stmt

    @property
    def length(self) -> Expr:
        """Return the number of terms."""
        return ix.mul(*self.extents)

    @property
    def is_arg(self) -> bool:
        """Return whether this is an argmin or argmax, which keeps a position."""
        return len(self.accs) == 2

    def value(self) -> Store | None:
        """Return the value that the innermost store of a plain fold writes."""
        s = self.step
        while isinstance(s, Let):
            s = s.body
        return s if isinstance(s, Store) else None

    def order(self) -> CompareOp:
        """Return the comparison by which an arg-fold prefers a value."""
        s = self.step
        while isinstance(s, Let):
            s = s.body
        assert isinstance(s, If)
        cond = s.cond.lhs if isinstance(s.cond, Binary) else s.cond
        assert isinstance(cond, Compare)
        return cond.op


def find(nest: Nest) -> FoldNest | None:
    """Return the fold of a nest, or None if it has none, several, or one of another form.

    Extents must not depend on the output's index.
    """
    s, lets, buffers = nest.body, list[Let](), list[Buffer]()
    while isinstance(s, Let):
        lets.append(s)
        s = s.body
    while isinstance(s, Allocate) and s.buffer.scope is Scope.LOCAL:
        buffers.append(s.buffer)
        s = s.body
    if not 1 <= len(buffers) <= 2 or not isinstance(s, Block) or len(s.body) < len(buffers) + 2:
        return None
    accs: list[Accumulator] = []
    for b, init in zip(buffers, s.body, strict=False):
        if not (
            isinstance(init, Store) and init.buffer == b.name and isinstance(init.value, Const)
        ):
            return None
        accs.append(Accumulator(b, init.value))
    loop: Stmt = s.body[len(buffers)]
    ks: list[Var] = []
    extents: list[Expr] = []
    while isinstance(loop, For) and loop.kind is LoopKind.SERIAL:
        ks.append(loop.var)
        extents.append(loop.extent)
        loop = loop.body
    rest = s.body[len(buffers) + 1 :]
    outer = {v.name for v in nest.index} | {x.var.name for x in lets}
    free = {e.name for x in extents for e in subexprs(x) if isinstance(e, Var)}
    if not ks or not _is_step(loop) or not all(map(_is_flat, rest)) or free & outer:
        return None
    tail = rest[0] if len(rest) == 1 else Block(rest)
    return FoldNest(nest, tuple(lets), tuple(accs), tuple(ks), tuple(extents), loop, tail)


def _is_step(s: Stmt) -> bool:
    while isinstance(s, Let):
        s = s.body
    return isinstance(s, (Store, If))


def _is_flat(s: Stmt) -> bool:
    return all(isinstance(x, (Let, Block, Store)) for x in stmts(s))


def combined(f: FoldNest, mine: Sequence[Expr], other: Sequence[Expr]) -> Expr:
    """Combine two partial results of a plain fold."""
    s = f.value()
    assert s is not None
    assert isinstance(s.value, Binary)
    return Binary(s.value.op, mine[0], other[0])


def other_wins(f: FoldNest, mine: Sequence[Expr], other: Sequence[Expr]) -> Expr:
    """Return whether the second of two partial results of an arg-fold is the one to keep.

    The better value wins, NaN is best, and of equals the first position.
    """
    (a, at_a), (b, at_b) = mine, other
    less = f.order()
    wins: Expr = Compare(less, b, a)
    ties: Expr = Compare("eq", b, a)
    if a.dtype.is_float:
        nan_a, nan_b = Intrinsic("isnan", (a,)), Intrinsic("isnan", (b,))
        wins = Binary("or", wins, Binary("and", nan_b, Unary("not", nan_a)))
        ties = Binary("or", ties, Binary("and", nan_b, nan_a))
    return Binary("or", wins, Binary("and", ties, Compare("lt", at_b, at_a)))


def reading(s: Stmt, table: dict[str, Expr]) -> Stmt:
    """Replace the loads of scalar buffers by the expressions in a table."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in table:
            return table[e.buffer]
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def with_lets(lets: Sequence[Let], body: Stmt, names: Names | None = None) -> Stmt:
    """Bind the ``lets`` that ``body`` uses, under fresh names if a supply is given."""
    table: dict[str, Expr] = {}
    used = needed(lets, (e for e in exprs(body)))
    kept = [x for x in lets if x.var.name in used]
    renamed: list[tuple[Var, Expr]] = []
    for x in kept:
        var = x.var if names is None else Var(names.fresh(x.var.name), x.var.dtype)
        value = x.value if names is None else freshened(substitute_expr(x.value, table), names)
        if names is not None:
            table[x.var.name] = var
        renamed.append((var, value))
    body = substitute(body, table) if table else body
    for var, value in reversed(renamed):
        body = Let(var, value, body)
    return body


def needed(lets: Sequence[Let], used: Iterable[Expr]) -> set[str]:
    """Return the names of ``lets`` that expressions use, directly or through other lets."""
    names = {e.name for e in used if isinstance(e, Var)}
    for x in reversed(lets):
        if x.var.name in names:
            names |= {e.name for e in subexprs(x.value) if isinstance(e, Var)}
    return names


def freshened(e: Expr, names: Names) -> Expr:
    """Rename the variables that an expression binds."""
    if isinstance(e, LetExpr):
        var = Var(names.fresh(e.var.name), e.var.dtype)
        body = substitute_expr(e.body, {e.var.name: var})
        return LetExpr(var, freshened(e.value, names), freshened(body, names))

    def again(x: Expr) -> Expr:
        return freshened(x, names)

    return map_expr(again, e)
