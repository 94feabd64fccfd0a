"""Kernels of folds whose terms have places: threads side by side fold what meets their elements.

Neighbouring elements of a result are neighbours in memory, and so are those of the terms that meet
them: a thread has as many as it loads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import branches, groups, lanes
from didyma.codegen.schedule.folds import FoldNest, needed, with_lets
from didyma.codegen.schedule.groups import Groups
from didyma.codegen.schedule.meeting import Meeting
from didyma.codegen.schedule.nest import NestFacts, let_all, scan
from didyma.codegen.schedule.pointwise import moved, spread
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import plus
from didyma.refimpl.ir.expand import Inliner, Same
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Binary,
    Block,
    Buffer,
    Cast,
    Compare,
    Expr,
    For,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import subexprs, substitute

Terms = Callable[["Threads"], Stmt]


def width(facts: NestFacts, m: Meeting) -> int:
    """Return how many neighbouring elements a thread may have."""
    found = _groups(facts, m)
    return 1 if found is None else found.size


def _groups(facts: NestFacts, m: Meeting) -> Groups | None:
    if not m.nest.index or len(m.nest.index) - 1 in (*m.apart, m.axis):
        return None
    read = replace(m.fold, step=Block((m.fold.step, m.fold.body)))
    return groups.find(facts, FoldNest(m.nest, m.lets, read, (), ()), along=False)


def seek(facts: NestFacts, m: Meeting, *, wide: bool) -> PrimFunc:
    """Return the kernel in which a thread looks at all terms for those that meet its elements."""

    def terms(t: Threads) -> Stmt:
        met = Compare("eq", m.place, m.own)
        return For(m.k, m.count, m.where_met(met, t.step()))

    return _fold(facts, m, terms, "seek", wide=wide)


def fold(facts: NestFacts, m: Meeting, starts: Buffer, order: Buffer, *, wide: bool) -> PrimFunc:
    """Return the kernel in which a thread folds the terms that meet its elements, in their order.

    They are those in ``order`` from the number in ``starts`` of an element to that of the next.
    """
    facts.func = replace(facts.func, params=(*facts.func.params, starts, order))
    facts.buffers = {b.name: b for b in facts.func.params}
    fresh = facts.names.fresh
    first, end, n = Var(fresh("first")), Var(fresh("end")), Var(fresh("n"))

    def start(i: Expr) -> Expr:
        return Cast(Load(starts.name, (*m.lines, i), starts.dtype), INDEX)

    def terms(t: Threads) -> Stmt:
        k = Cast(Load(order.name, (*m.lines, ix.add(first, n)), order.dtype), INDEX)
        most = ix.minimum(ix.sub(end, first), m.count)  # which says how long a sum may be
        loop = For(n, most, Let(m.k, k, t.step()))
        return let_all({first: start(m.own), end: start(ix.add(m.own, ix.ONE))}, loop)

    return _fold(facts, m, terms, "segments", wide=wide)


def taken(facts: NestFacts, m: Meeting, table: Buffer, *, wide: bool) -> PrimFunc:
    """Return the kernel in which a thread finds in a table what the fold of its elements is."""
    facts.func = replace(facts.func, params=(*facts.func.params, table))
    facts.buffers = {b.name: b for b in facts.func.params}
    t = Threads.of(facts, m, wide=wide)
    there = Load(table.name, (*m.lines, m.own), table.dtype)
    return _kernel(t, t.finish(there), "seek")


@dataclass(frozen=True, slots=True)
class Threads:
    """Writes what a thread does with the elements ``v`` of its ``group``; ``mine`` keeps them.

    All of them have the same fold if that depends on no element: then a thread keeps it ``once``.
    """

    facts: NestFacts
    m: Meeting
    groups: Groups | None
    mine: Buffer
    group: Var
    v: Var
    once: bool

    @staticmethod
    def of(facts: NestFacts, m: Meeting, *, wide: bool) -> Threads:
        """Return the threads, with several elements each if they are ``wide``."""
        fresh = facts.names.fresh
        found = _groups(facts, m) if wide else None
        own = (x for e in (m.acc.start, m.value) for x in subexprs(e))
        once = found is not None and found.axis.name not in needed(m.bound, own)
        count = 1 if found is None or once else found.size
        mine = Buffer(fresh(f"{m.acc.var.name}_mine"), m.acc.var.dtype, (count,), Scope.LOCAL)
        return Threads(facts, m, found, mine, Var(fresh("group")), Var(fresh("v")), once)

    def start(self) -> Stmt:
        """Return the store of what the folds start from."""
        m = self.m
        return self._kept(with_lets(m.lets, Store(self.mine.name, (self.v,), m.acc.start)))

    def step(self) -> Stmt:
        """Return the fold of term ``k``."""
        m = self.m
        new = Store(self.mine.name, (self.v,), Binary(m.op, self._held, m.value))
        return self._kept(with_lets(m.bound, new))

    def end(self) -> Stmt:
        """Return what is done with the folds."""
        if self.once:
            return self.finish(Load(self.mine.name, (ix.ZERO,), self.mine.dtype))
        return self._each(self.m.after(self._held))

    def finish(self, result: Expr) -> Stmt:
        """Return what is done with the fold that all elements of a thread have.

        Where a choice depends on that alone, a whole vector is one or the other.
        """
        acc = Var(self.facts.names.fresh(self.m.acc.var.name), self.m.acc.var.dtype)
        body = with_lets(self.m.lets, substitute(self.m.fold.body, {self.m.acc.var.name: acc}))
        if self.groups is None:
            return Let(acc, result, self._each(body))
        return Let(acc, result, branches.apart(self.facts, body, {acc.name}, self._each))

    def _kept(self, body: Stmt) -> Stmt:
        """Return what is done with what a thread keeps: once, or for each of its elements."""
        if not self.once:
            return self._each(body)
        return Inliner({}, self.facts.names, Same()).stmt(substitute(body, {self.v.name: ix.ZERO}))

    @property
    def _held(self) -> Load:
        return Load(self.mine.name, (self.v,), self.mine.dtype)

    def _each(self, body: Stmt) -> Stmt:
        """Return a loop over the elements of a thread, or the body for the only one."""
        found, names = self.groups, self.facts.names
        if found is None:
            body = substitute(body, {self.v.name: ix.ZERO})
        else:
            here = ix.add(ix.mul(self.group, ix.index(found.size)), self.v)
            body = let_all({found.axis: here}, moved(body, found.buffers, self._to))
            body = For(self.v, ix.index(found.size), body, LoopKind.VECTORIZED)
        return Inliner({}, names, Same()).stmt(body)

    def _to(self, name: str, index: tuple[Expr, ...]) -> Expr:
        assert self.groups is not None
        facts, size = self.facts, self.groups.size
        rest = lanes.from_row(facts, facts.offset(name, index), self.groups.axis, size)
        assert rest is not None
        at = facts.affine.expr(plus(rest, {(self.group.name,): 1}))
        return ix.add(ix.mul(at, ix.index(size)), self.v)


def _fold(facts: NestFacts, m: Meeting, terms: Terms, schedule: str, *, wide: bool) -> PrimFunc:
    t = Threads.of(facts, m, wide=wide)
    return _kernel(t, Allocate(t.mine, Block((t.start(), terms(t), t.end()))), schedule)


def _kernel(t: Threads, body: Stmt, schedule: str) -> PrimFunc:
    facts, m, found = t.facts, t.m, t.groups
    index, sizes = list(m.nest.index), list(m.nest.extents)
    if found is not None:
        index[-1], sizes[-1] = t.group, found.count
    i = Var(facts.names.fresh("i"))
    body = let_all(dict(zip(index, ix.unflatten(i, sizes), strict=True)), body)
    threads = facts.affine.expr(facts.affine.poly(ix.mul(*sizes)))
    made = spread(facts, i, threads, body)
    statements, inside = scan(made)
    known = replace(facts, statements=tuple(statements), inside=tuple(inside))
    flat: Sequence[str] = () if found is None else tuple(found.buffers)
    return known.kernel(made, schedule if found is None else f"{schedule}_wide", flat)
