"""The fold in a nest: the lets before it, its terms, and the statements after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.nest import Nest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    Fold,
    Let,
    LetExpr,
    Load,
    Scope,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.unfold import assigned
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
class FoldNest:
    """A nest whose body is ``lets``, then one fold, whose step is ``step``, then ``terms``."""

    nest: Nest
    lets: tuple[Let, ...]
    fold: Fold
    step: tuple[Let, ...]
    terms: tuple[Expr, ...]

    @property
    def ks(self) -> tuple[Var, ...]:
        """The variables that the fold runs over."""
        return tuple(a.var for a in self.fold.axes)

    @property
    def extents(self) -> tuple[Expr, ...]:
        """How far they run."""
        return tuple(a.extent for a in self.fold.axes)

    @property
    def length(self) -> Expr:
        """Return the number of terms."""
        return ix.mul(*self.extents)

    @property
    def scalars(self) -> tuple[Buffer, ...]:
        """A local buffer for each accumulator, under its name."""
        return tuple(Buffer(a.var.name, a.var.dtype, (), Scope.LOCAL) for a in self.fold.accs)

    def after(self, results: Sequence[Load]) -> Stmt:
        """Return the statements after the fold, which find its results in memory."""
        found = zip(self.fold.accs, results, strict=True)
        return substitute(self.fold.body, {a.var.name: r for a, r in found})


def find(nest: Nest) -> FoldNest | None:
    """Return the fold of a nest; None if it has none, several, or one whose parts do not merge.

    Extents must not depend on the output's index.
    """
    s, lets = nest.body, list[Let]()
    while isinstance(s, Let):
        lets.append(s)
        s = s.body
    if not isinstance(s, Fold) or s.merger is None or not s.axes:
        return None
    inner, step = s.step, list[Let]()
    while isinstance(inner, Let):
        step.append(inner)
        inner = inner.body
    outer = {v.name for v in nest.index} | {x.var.name for x in lets}
    free = {e.name for x in s.axes for e in subexprs(x.extent) if isinstance(e, Var)}
    flat = all(isinstance(x, (Let, Block, Store)) for x in stmts(s.body))
    if not isinstance(inner, Yield) or not flat or free & outer or not starts_empty(s):
        return None
    return FoldNest(nest, tuple(lets), s, tuple(step), inner.values)


def starts_empty(s: Fold) -> bool:
    """Return whether a part may start as the whole does, with what changes nothing."""
    match s.op:
        case None:
            return all(isinstance(a.start, Const) for a in s.accs)
        case "add" | "mul" | "min" | "max" | "and" | "or" as op:
            return all(a.start == identity(op, a.var.dtype) for a in s.accs)
        case _:
            return False


def loaded(buffers: Iterable[Buffer], index: tuple[Expr, ...] = ()) -> tuple[Load, ...]:
    """Return the loads of an element of buffers."""
    return tuple(Load(b.name, index, b.dtype) for b in buffers)


def started(s: Fold, into: Sequence[Buffer]) -> list[Stmt]:
    """Return the stores of what the accumulators of a fold start from."""
    return [Store(b.name, (), a.start) for a, b in zip(s.accs, into, strict=True)]


def allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    """Return a statement inside the allocations of buffers."""
    for b in reversed(buffers):
        body = Allocate(b, body)
    return body


def merged(s: Fold, mine: Sequence[Load], other: Sequence[Expr], names: Names) -> Stmt:
    """Return the statement that merges the results of another part into those of one."""
    assert s.merger is not None
    table: dict[str, Expr] = {a.var.name: x for a, x in zip(s.accs, mine, strict=True)}
    table |= {v.name: x for v, x in zip(s.merger.operands, other, strict=True)}
    return assigned(mine, [substitute_expr(e, table) for e in s.merger.results], names)


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


def copied(s: Stmt, names: Names) -> Stmt:
    """Return a copy of a statement whose lets and folds have fresh names; loops keep theirs."""
    match s:
        case Let(var, value, body):
            new = Var(names.fresh(var.name), var.dtype)
            return Let(
                new, freshened(value, names), copied(substitute(body, {var.name: new}), names)
            )
        case _:
            return map_stmt(s, lambda e: freshened(e, names), lambda b: copied(b, names))


def with_loads(s: Stmt, new: Callable[[Load], Load | None]) -> Stmt:
    """Replace those loads for which there is a new one."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, (Var, Const)):
            return e
        found = new(e) if isinstance(e, Load) else None
        return map_expr(on_expr, e) if found is None else found

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)
