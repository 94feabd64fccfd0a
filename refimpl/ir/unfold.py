"""Write out folds, and stores of vectors, as the loops that they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.expand import declared
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.vectors import is_vector, without_vectors
from didyma.refimpl.ir.walk import (
    certain_children,
    exprs,
    map_stmt,
    stmts,
    subexprs,
    substitute,
    substitute_expr,
)


def unfolded(f: ir.PrimFunc) -> ir.PrimFunc:
    """Return a function with a serial loop and local scalars in place of each fold.

    A store of a vector becomes a vectorized loop over its lanes.  Folds and stores of its functions
    are written out, too.
    """
    if f.functions:
        f = replace(f, functions=tuple(map(unfolded, f.functions)))
    below = stmts(f.body)
    folds, vectors = any(isinstance(s, ir.Fold) for s in below), any(map(is_vector, below))
    if not (folds or vectors):
        return f
    names = Names((*f.names, *declared(f.body)))
    body = without_folds(f.body, names) if folds else f.body
    return replace(f, body=without_vectors(body, names) if vectors else body)


def without_folds(s: ir.Stmt, names: Names) -> ir.Stmt:
    """Return a statement with serial loops in place of folds; ``names`` gives unused names."""
    return _Unfolding(names).stmt(s)


def folded_into(s: ir.Fold, scalars: Sequence[ir.Load], names: Names) -> ir.Stmt:
    """Return a fold's step, which combines its term with what scalars hold, and stores it there."""
    table: dict[str, ir.Expr] = {a.var.name: x for a, x in zip(s.accs, scalars, strict=True)}
    results = tuple(substitute_expr(e, table) for e in s.combine.results)
    return _Unfolding(names).stmt(s.step, (replace(s.combine, results=results), tuple(scalars)))


def assigned(old: Sequence[ir.Load], new: Sequence[ir.Expr], names: Names) -> ir.Stmt:
    """Return the statement that stores new values at once where the old ones are loaded from.

    A choice between all of the old values and others is a branch.
    """
    stores = [ir.Store(o.buffer, o.index, e) for o, e in zip(old, new, strict=True)]
    if len(stores) == 1:
        return stores[0]
    conds = {e.cond for e in new if isinstance(e, ir.Select)}
    thens = [e.then for e in new if isinstance(e, ir.Select)]
    others = [e.other for e in new if isinstance(e, ir.Select)]
    if len(conds) == 1 and others == list(old) and not _reads_stored(thens, old):
        branch = [replace(s, value=t) for s, t in zip(stores, thens, strict=True)]
        return ir.If(conds.pop(), ir.Block(tuple(branch)))
    fresh = [ir.Var(names.fresh(f"{o.buffer}_next"), o.dtype) for o in old]
    body: ir.Stmt = ir.Block(tuple(replace(s, value=v) for s, v in zip(stores, fresh, strict=True)))
    for var, e in reversed(list(zip(fresh, new, strict=True))):
        body = ir.Let(var, e, body)
    return body


_SIMPLE = (ir.Allocate, ir.Block, ir.Fold, ir.For, ir.If, ir.Let, ir.Store, ir.Yield)


@dataclass(frozen=True, slots=True)
class _Unfolding:
    """Writes out folds; ``scalars`` are the local buffers around that hold one element."""

    names: Names
    scalars: set[str] = field(default_factory=set[str])

    def stmt(
        self, s: ir.Stmt, into: tuple[ir.Combiner, tuple[ir.Load, ...]] | None = None
    ) -> ir.Stmt:
        """Write out the folds of a statement; ``into`` says what becomes of what it yields."""
        match s:
            case ir.Fold():
                return self.loop(s, into)
            case ir.Yield(values):
                assert into is not None, "a yield outside a fold"
                return self.term(*into, values)
            case ir.Allocate(b) if b.scope is ir.Scope.LOCAL and not b.shape:
                self.scalars.add(b.name)
            case _:
                pass
        return map_stmt(s, lambda e: e, lambda b: self.stmt(b, into))

    def loop(self, s: ir.Fold, into: tuple[ir.Combiner, tuple[ir.Load, ...]] | None) -> ir.Stmt:
        """Write out a fold, in the scalars that its body only stores to, or in others."""
        targets = self.targets(s)
        made = [ir.Buffer(a.var.name, a.var.dtype, (), ir.Scope.LOCAL) for a in s.accs]
        kept = tuple(ir.Load(t or b.name, (), b.dtype) for t, b in zip(targets, made, strict=True))
        table: dict[str, ir.Expr] = {a.var.name: x for a, x in zip(s.accs, kept, strict=True)}
        results = tuple(substitute_expr(e, table) for e in s.combine.results)
        loop = self.stmt(s.step, (replace(s.combine, results=results), kept))
        late: list[tuple[ir.Var, ir.Expr]] = []
        for a in reversed(s.axes):
            end = a.extent
            if any(isinstance(e, ir.Load) for e in subexprs(end)):  # which the loop might change
                end = ir.Var(self.names.fresh(f"{a.var.name}_end"))
                late.append((end, a.extent))
            loop = ir.For(a.var, end, loop)
        for var, end in late:
            loop = ir.Let(var, end, loop)
        starts = (ir.Store(x.buffer, (), a.start) for a, x in zip(s.accs, kept, strict=True))
        if all(targets):
            return ir.Block((*starts, loop))
        rest = self.stmt(substitute(s.body, table), into)
        body: ir.Stmt = ir.Block(
            (*starts, loop, *(rest.body if isinstance(rest, ir.Block) else (rest,)))
        )
        for b in reversed(made):
            body = ir.Allocate(b, body)
        return body

    def targets(self, s: ir.Fold) -> list[str]:
        """Return where the body of a fold stores each accumulator, if it does nothing else."""
        body = s.body.body if isinstance(s.body, ir.Block) else (s.body,)
        given = {
            b.value.name: b.buffer
            for b in body
            if isinstance(b, ir.Store) and isinstance(b.value, ir.Var)
        }
        found = [given.get(a.var.name, "") for a in s.accs]
        inside = replace(s, body=ir.Block(()))
        used = {e.buffer for e in exprs(inside) if isinstance(e, ir.Load)}
        used |= {x.buffer for x in stmts(inside) if isinstance(x, ir.Store)}
        alone = len(body) == len(given) == len(found) and set(found) <= self.scalars - used
        alone = alone and all(isinstance(x, _SIMPLE) for x in stmts(inside))
        return found if alone else [""] * len(found)

    def term(
        self, c: ir.Combiner, old: tuple[ir.Load, ...], values: tuple[ir.Expr, ...]
    ) -> ir.Stmt:
        """Write out what becomes of a term."""
        uses = Counter(e.name for r in c.results for e in subexprs(r) if isinstance(e, ir.Var))
        certain = {e.name for r in c.results for e in _certain(r) if isinstance(e, ir.Var)}
        table: dict[str, ir.Expr] = {}
        lets: list[tuple[ir.Var, ir.Expr]] = []
        for var, value in zip(c.operands, values, strict=True):
            simple = isinstance(value, (ir.Var, ir.Const)) or var.name in certain
            if uses[var.name] == 1 and simple:
                table[var.name] = value
            else:
                lets.append((var, value))
        body = assigned(old, [substitute_expr(r, table) for r in c.results], self.names)
        for var, value in reversed(lets):
            body = ir.Let(var, value, body)
        return body


def _reads_stored(values: Sequence[ir.Expr], places: Sequence[ir.Load]) -> bool:
    """Return whether a value loads from a buffer to which a value before it is stored."""
    before = set[str]()
    for value, place in zip(values, places, strict=True):
        if any(e.buffer in before for e in subexprs(value) if isinstance(e, ir.Load)):
            return True
        before.add(place.buffer)
    return False


def _certain(e: ir.Expr) -> list[ir.Expr]:
    """Return an expression and those below it that are evaluated whatever the values are."""
    below = () if isinstance(e, ir.LetExpr) else certain_children(e)
    return [e, *(x for c in below for x in _certain(c))]
