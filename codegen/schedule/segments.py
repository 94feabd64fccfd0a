"""Kernels of folds whose terms have places: threads side by side fold what meets their elements.

Neighbouring elements of a result are neighbours in memory, and so are those of the terms that meet
them: a thread has as many as it loads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import lanes, split
from didyma.codegen.schedule.folds import FoldNest, with_lets
from didyma.codegen.schedule.meeting import Meeting
from didyma.codegen.schedule.nest import NestFacts, let_all, scan
from didyma.codegen.schedule.pointwise import moved, spread
from didyma.codegen.schedule.split import Groups
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
from didyma.refimpl.ir.walk import substitute

Terms = Callable[["Threads"], Stmt]


def width(facts: NestFacts, m: Meeting) -> int:
    """Return how many neighbouring elements a thread may have."""
    found = _groups(facts, m)
    return 1 if found is None else found.size


def _groups(facts: NestFacts, m: Meeting) -> Groups | None:
    if not m.nest.index or len(m.nest.index) - 1 in (*m.apart, m.axis):
        return None
    return split.groups(facts, FoldNest(m.nest, m.lets, m.fold, (), ()), along=False)


def seek(facts: NestFacts, m: Meeting, *, wide: bool) -> PrimFunc:
    """Return the kernel in which a thread looks at all terms for those that meet its elements."""

    def terms(t: Threads) -> Stmt:
        met = Compare("eq", m.place, m.own)
        return For(m.k, m.count, m.where_met(met, t.step()))

    return _kernel(facts, m, terms, "seek", wide=wide)


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

    return _kernel(facts, m, terms, "segments", wide=wide)


@dataclass(frozen=True, slots=True)
class Threads:
    """Writes what a thread does with the elements ``v`` of its ``group``; ``mine`` keeps them."""

    facts: NestFacts
    m: Meeting
    groups: Groups | None
    mine: Buffer
    group: Var
    v: Var

    def start(self) -> Stmt:
        """Return the store of what the folds start from."""
        m = self.m
        return self._each(with_lets(m.lets, Store(self.mine.name, (self.v,), m.acc.start)))

    def step(self) -> Stmt:
        """Return the fold of term ``k``."""
        m = self.m
        new = Store(self.mine.name, (self.v,), Binary(m.op, self._held, m.value))
        return self._each(with_lets(m.bound, new))

    def end(self) -> Stmt:
        """Return what is done with the folds."""
        return self._each(self.m.after(self._held))

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


def _kernel(facts: NestFacts, m: Meeting, terms: Terms, schedule: str, *, wide: bool) -> PrimFunc:
    fresh = facts.names.fresh
    found = _groups(facts, m) if wide else None
    count = 1 if found is None else found.size
    mine = Buffer(fresh(f"{m.acc.var.name}_mine"), m.acc.var.dtype, (count,), Scope.LOCAL)
    t = Threads(facts, m, found, mine, Var(fresh("group")), Var(fresh("v")))
    body: Stmt = Allocate(mine, Block((t.start(), terms(t), t.end())))
    index, sizes = list(m.nest.index), list(m.nest.extents)
    if found is not None:
        index[-1], sizes[-1] = t.group, found.count
    i = Var(fresh("i"))
    body = let_all(dict(zip(index, ix.unflatten(i, sizes), strict=True)), body)
    threads = facts.affine.expr(facts.affine.poly(ix.mul(*sizes)))
    made = spread(facts, i, threads, body)
    statements, inside = scan(made)
    known = replace(facts, statements=tuple(statements), inside=tuple(inside))
    flat: Sequence[str] = () if found is None else tuple(found.buffers)
    return known.kernel(made, schedule if found is None else f"{schedule}_wide", flat)
