"""Decide where shared values are bound, and write the statements.

Uses of a value lie in scopes: the body of the nest, the body of a fold inside it, a side of a
``Select``.  A value is bound in the innermost scope that holds every use, provided that it is
certain to be needed there or harmless to compute; else in several scopes further in, since a
load must not leave the guard that keeps it inside its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

from didyma.codegen.lower.build import Folding, Scalar, ScalarBuilder
from didyma.codegen.lower.combiners import combiners
from didyma.codegen.lower.scalar import identity, unwidened
from didyma.codegen.lower.scopes import CodeScope, by_child, common, needed, outermost
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Accumulator,
    Allocate,
    Axis,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    Fold,
    If,
    Let,
    LetExpr,
    Load,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.types import DType, Shape
from didyma.refimpl.ir.walk import expr_children, items, map_expr, one_of, subexprs, substitute_expr

Root: TypeAlias = tuple[Expr, Callable[[Expr], Stmt]]  # a value, and how it is stored


class Placer:
    """Binds the values of one nest and writes its innermost statements.

    ``roots`` are the expressions of the final statements, which ``final`` writes from their
    emitted forms.
    """

    def __init__(self, builder: ScalarBuilder, shapes: dict[str, Shape]) -> None:
        self._b = builder
        self._shapes = shapes
        self._uses: dict[str, list[CodeScope]] = {}
        self._bound: dict[str, dict[CodeScope, Var]] = {}
        self._loops: dict[str, CodeScope] = {}
        self._guards: dict[str, Expr] = {}
        self._starts: dict[str, Expr] = {}  # of guarded folds that begin with a guarded load
        self._safe: dict[str, bool] = {}
        self._mentioned: dict[str, tuple[frozenset[str], bool]] = {}
        self._pending: set[str] = set()
        self._emitted: set[CodeScope] = set()
        self._row: tuple[tuple[Var, ...], tuple[Expr, ...]] | None = None  # loops, and extents

    def body(self, roots: Sequence[Expr], final: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
        """Return the statements that compute the roots and then do ``final``."""
        top = CodeScope(None, 0)
        self._place_all(roots, top)
        return self._region(top, final([unwidened(self._emit(e, top)) for e in roots]))

    def rows(
        self,
        each: Sequence[Root],
        once: Sequence[Root],
        loops: Sequence[Var],
        extents: Sequence[Expr],
        around: Callable[[Stmt], Stmt],
    ) -> Stmt:
        """Return the statements of a row: roots of ``each`` element of it, and of it all ``once``.

        ``around`` puts the ``loops`` over the row, of as many ``extents``, around a statement.
        What is the same all along a row is computed once, before these loops.
        """
        self._row = tuple(loops), tuple(extents)
        top = CodeScope(None, 0)
        inner = CodeScope(top, 1, loops=frozenset(v.name for v in loops))
        for e, _ in each:
            self._walk(e, inner)
        self._place_all([e for e, _ in once], top)
        stores = [store(unwidened(self._emit(e, inner))) for e, store in each]
        last = [store(unwidened(self._emit(e, top))) for e, store in once]
        if stores:
            last.insert(0, around(self._region(inner, one_of(stores))))
        return self._region(top, one_of(last))

    def _place_all(self, roots: Sequence[Expr], top: CodeScope) -> None:
        """Decide where the values are bound that roots in a scope need."""
        self._pending = set(self._b.by_name)
        for e in roots:
            self._walk(e, top)
        for v in reversed(self._b.values):
            self._pending.discard(v.var.name)
            if uses := self._uses.get(v.var.name):
                if v.fold is None:
                    self._place(v, uses)
                else:
                    self._place_fold(v, v.fold, uses)

    # ---- scopes

    def _walk(self, e: Expr, p: CodeScope) -> None:
        kind = type(e)
        if kind is Const:
            return
        if isinstance(e, Var):
            if e.name in self._b.by_name:
                self._use(e.name, p)
        elif isinstance(e, Select):
            self._walk(e.cond, p)
            self._walk(e.then, self._side(e, True, p))
            self._walk(e.other, self._side(e, False, p))
        else:
            for c in expr_children(e):
                self._walk(c, p)

    def _use(self, name: str, p: CodeScope) -> None:
        self._uses.setdefault(name, []).append(p)

    def _side(self, e: Select, holds: bool, p: CodeScope) -> CodeScope:
        # By identity: a rule may read one tree twice, and a hash would visit all of the tree.
        # No id is used twice: the values and the roots hold every expression to the end.
        key = (id(e), holds)
        if key not in p.sides:
            p.sides[key] = CodeScope(p, p.depth + 1, e.cond, holds)
        return p.sides[key]

    def _place(self, v: Scalar, uses: Sequence[CodeScope]) -> None:
        top = uses[0]
        for u in uses[1:]:
            top = common(top, u)
        if (out := self._outside(v, top)) is not top:
            self._bind(v, out)
            self._walk(v.expr, out)
            return
        if len(uses) == 1:
            if not v.depth:
                self._bind(v, top)
            self._walk(v.expr, top)  # else it is written where it is used
            return
        if needed(uses, top) or self._harmless(v):
            self._bind(v, top)
            self._walk(v.expr, top)
            return
        for group in by_child(uses, top).values():
            self._place(v, group)

    def _bind(self, v: Scalar, p: CodeScope) -> None:
        names = self._bound.setdefault(v.var.name, {})
        names[p] = Var(self._b.names.fresh(v.var.name), v.var.dtype) if names else v.var
        p.values.append(v)

    def _place_fold(self, v: Scalar, fold: Folding, uses: Sequence[CodeScope]) -> None:
        top = uses[0]
        for u in uses[1:]:
            top = common(top, u)
        top = self._outside(v, top.region())
        self._bind(v, top)
        ks = frozenset(k.name for k in fold.ks)
        self._loops[v.var.name] = loop = CodeScope(top, top.depth + 1, loops=ks, fold=v)
        if not any(u is top for u in uses) and not self._harmless(v):
            searches: list[Scalar] = []
            paths = (self._path(v, u, top, searches) for u in outermost(uses))
            guard = self._guards[v.var.name] = reduce(_either, paths)
            self._walk(guard, top)
            for search in reversed(searches):
                assert search.fold is not None
                self._place_fold(search, search.fold, self._uses[search.var.name])
            if not all(self._is_safe(e) for e in subexprs(v.expr)):
                dtype = v.expr.dtype
                none = identity("or" if dtype is DType.BOOL else "add", dtype)
                self._starts[v.var.name] = Select(guard, v.expr, none)
        for e in (self._starts.get(v.var.name, v.expr), *fold.extents):
            self._walk(e, top)
        self._walk(fold.body, loop)

    def _outside(self, v: Scalar, p: CodeScope) -> CodeScope:
        """Return the scope around the loops that change nothing of a value.

        Away from rows, a value that does not come of a fold stays where it is.
        """
        mentioned, folds = self._mentions(v)
        found, at = p, p if folds or self._row else None
        while at is not None and not at.loops & mentioned:
            if at.loops:
                assert at.parent is not None
                found = at.parent.region()
            at = at.parent
        return found if found is p or self._harmless(v) else p

    def _mentions(self, v: Scalar) -> tuple[frozenset[str], bool]:
        """Return the variables of loops that a value depends on, and whether it comes of a fold."""
        if (known := self._mentioned.get(v.var.name)) is None:
            names, folds = self._mentioned_in(*_parts(v))
            if v.fold is not None:
                names, folds = names - {k.name for k in v.fold.ks}, True
            known = self._mentioned[v.var.name] = names, folds
        return known

    def _mentioned_in(self, *parts: Expr) -> tuple[frozenset[str], bool]:
        names, folds = frozenset[str](), False
        for e in (e for part in parts for e in subexprs(part) if isinstance(e, Var)):
            if (used := self._b.by_name.get(e.name)) is None:
                names |= {e.name}
            else:
                below, has = self._mentions(used)
                names, folds = names | below, folds or has
        return names, folds

    def _path(self, v: Scalar, p: CodeScope, top: CodeScope, searches: list[Scalar]) -> Expr:
        """Return the condition under which a scope below ``top`` that uses a fold is entered.

        ``searches`` takes the folds that the condition needs, each after those in its body.
        """
        inner = ix.TRUE
        while p is not top:
            assert p.parent is not None
            if p.guard is None:
                inner = self._reached(v, p, inner, searches)
            else:
                cond = self._settled(p.guard, v)
                sides = (inner, ix.FALSE) if p.holds else (ix.FALSE, inner)
                inner = cond if sides == (ix.TRUE, ix.FALSE) else Select(cond, *sides)
            p = p.parent
        return inner

    def _reached(self, v: Scalar, p: CodeScope, cond: Expr, searches: list[Scalar]) -> Expr:
        """Return whether a fold or row that uses ``v`` is reached where a condition in it holds."""
        if p.fold is None:
            assert self._row is not None
            name, (over, ends) = "row", self._row
        else:
            assert p.fold.fold is not None
            name, over, ends = p.fold.var.name, p.fold.fold.ks, p.fold.fold.extents
        extents = tuple(self._settled(e, v) for e in ends)
        some = ix.all_of(ix.compare("lt", ix.ZERO, e) for e in extents)
        found = ix.select(some, cond, ix.FALSE)
        if not p.loops.isdisjoint(self._mentioned_in(cond)[0]):
            ks = tuple(self._b.loop("k", e) for e in extents)
            names = (k.name for k in over)
            body = self._renamed(cond, dict(zip(names, ks, strict=True)))
            var = Var(self._b.names.fresh(f"{name}_reached"), cond.dtype)
            search = Scalar(var, ix.FALSE, Folding("or", ks, extents, body))
            self._b.by_name[var.name] = search
            searches.append(search)
            found = var
        guard = self._guards.get(name) if p.fold else None
        if guard is None:
            return found
        return Select(self._settled(guard, v), found, ix.FALSE)

    def _renamed(self, e: Expr, loops: Mapping[str, Expr]) -> Expr:
        """Replace variables of loops, also in the values that depend on them."""
        if isinstance(e, Var):
            v = self._b.by_name.get(e.name)
            if v is None or self._mentions(v)[0].isdisjoint(loops):
                return loops.get(e.name, e)
            assert v.fold is None, "a fold is guarded by a fold inside another"
            return self._renamed(v.expr, loops)
        return map_expr(lambda c: self._renamed(c, loops), e)

    def _settled(self, cond: Expr, guarded: Scalar) -> Expr:
        """Substitute the values in a condition that are already placed.

        Where the condition reads the fold that it guards, that use has a path of its own, so that
        any value will do here.
        """
        if isinstance(cond, Var):
            v = self._b.by_name.get(cond.name)
            if v is None or v.var.name in self._pending:
                return cond
            if v is guarded:
                return identity("or" if cond.dtype is DType.BOOL else "add", cond.dtype)
            assert v.fold is None, "a fold is guarded by a later fold"
            return self._settled(v.expr, guarded)
        return map_expr(lambda e: self._settled(e, guarded), cond)

    def _harmless(self, v: Scalar) -> bool:
        """Return whether every load of a value is in bounds wherever it is computed."""
        name = v.var.name
        if name not in self._safe:
            self._safe[name] = all(self._is_safe(e) for x in _parts(v) for e in subexprs(x))
        return self._safe[name]

    def _is_safe(self, e: Expr) -> bool:
        if isinstance(e, Load):
            pairs = zip(e.index, self._shapes[e.buffer], strict=True)
            return all(self._inside(i, ix.of_dim(n)) for i, n in pairs)
        used = self._b.by_name.get(e.name) if isinstance(e, Var) else None
        return used is None or self._harmless(used)

    def _inside(self, index: Expr, n: Expr) -> bool:
        affine = self._b.affine
        return affine.within(affine.poly(index), affine.poly(n))

    # ---- statements

    def _region(self, p: CodeScope, body: Stmt) -> Stmt:
        for v in p.values:
            if v.fold is None:
                body = Let(self._bound[v.var.name][p], self._emit(v.expr, p), body)
            else:
                body = self._fold(v, v.fold, p, body)
        return body

    def _fold(self, v: Scalar, fold: Folding, p: CodeScope, rest: Stmt) -> Stmt:
        loop, fresh = self._loops[v.var.name], self._b.names.fresh
        item = self._emit(fold.body, loop)
        start = self._starts.get(v.var.name, v.expr)
        homes, starts, terms = [v.var], [self._emit(start, p)], [item]
        if fold.op == "argmin" or fold.op == "argmax":
            homes.insert(0, Var(fresh(f"{v.var.name}_best"), item.dtype))
            starts.insert(0, identity(fold.op, item.dtype))
            terms.append(fold.ks[0])
        guard, found = self._guards.get(v.var.name), homes
        if guard is not None:
            found = [Var(fresh(f"{h.name}_found"), h.dtype) for h in homes]
        combine, merge = combiners(fold.op, found, v.var.name, self._b.names)
        step = self._region(loop, Yield(tuple(terms)))
        ends = (self._emit(e, p) for e in fold.extents)
        accs, axes = tuple(map(Accumulator, found, starts)), tuple(map(Axis, fold.ks, ends))
        if guard is None:
            return Fold(accs, axes, combine, step, rest, merge)
        stores = tuple(Store(h.name, (), f) for h, f in zip(homes, found, strict=True))
        run = If(self._emit(guard, p), Fold(accs, axes, combine, step, one_of(stores), merge))
        body: Stmt = Block((run, *items(rest)))
        for h in reversed(homes):
            body = Allocate(Buffer(h.name, h.dtype, (), Scope.LOCAL), body)
        return body

    def _emit(self, e: Expr, p: CodeScope) -> Expr:
        if isinstance(e, Const):
            return e
        if isinstance(e, Var):
            v = self._b.by_name.get(e.name)
            return e if v is None else self._resolve(v, p)
        if isinstance(e, Select):
            cond = self._emit(e.cond, p)
            return Select(cond, self._branch(e, True, p), self._branch(e, False, p))

        def emit(c: Expr) -> Expr:
            return self._emit(c, p)

        return map_expr(emit, e)

    def _branch(self, e: Select, holds: bool, p: CodeScope) -> Expr:
        side = p.sides[(id(e), holds)]
        body = self._emit(e.then if holds else e.other, side)
        again = side in self._emitted  # a rule that uses one expression twice
        self._emitted.add(side)
        for v in side.values:
            var = self._bound[v.var.name][side]
            if again:
                fresh = Var(self._b.names.fresh(var.name), var.dtype)
                var, body = fresh, substitute_expr(body, {var.name: fresh})
            body = LetExpr(var, self._emit(v.expr, side), body)
        return body

    def _resolve(self, v: Scalar, p: CodeScope) -> Expr:
        if v.fold is not None:
            unset = v.var.name in self._guards  # where the guard does not hold
            return Load(v.var.name, (), v.var.dtype) if unset else v.var
        if names := self._bound.get(v.var.name):
            at: CodeScope | None = p
            while at is not None:
                if (var := names.get(at)) is not None:
                    return var
                at = at.parent
        return self._emit(v.expr, p)


def _parts(v: Scalar) -> tuple[Expr, ...]:
    return (v.expr,) if v.fold is None else (v.expr, v.fold.body, *v.fold.extents)


def _either(a: Expr, b: Expr) -> Expr:
    return Binary("or", a, b)
