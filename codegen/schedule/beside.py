"""Give a thread several rows that lie side by side in memory: it loads their elements at once.

A kernel is written for a thread with one row, of which the rows beside it are a variable.  Then a
thread has buffers and values for each of its rows, and a loop over the rows around each statement
that touches them: so barriers, and loops over elements, are shared by all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.nest import WIDE, Nest, NestFacts
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.dims.polynomial import coefficient, plus
from didyma.refimpl.ir.expand import Inliner, Same
from didyma.refimpl.ir.loop import (
    Allocate,
    AttrStmt,
    Barrier,
    Block,
    Buffer,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import map_expr, map_stmt, stmts, subexprs

COUNTS = (8, 4, 2, 1)  # rows that a thread may have


@dataclass(frozen=True, slots=True)
class Beside:
    """``count`` rows side by side for each thread, of which ``v`` is one.

    The last index of ``nest`` counts groups of rows, and ``lets`` tell a row's own index.  Of
    ``buffers`` a thread loads and stores the elements of its rows at once.
    """

    facts: NestFacts
    count: int
    nest: Nest
    v: Var
    lets: Mapping[Var, Expr] = field(default_factory=dict[Var, Expr])
    buffers: frozenset[str] = frozenset()

    @staticmethod
    def of(facts: NestFacts, rows: RowNest, count: int, left: Iterable[Buffer] = ()) -> Beside:
        """Return the groups of so many rows, which are the last axis of ``left`` buffers, too."""
        if count == 1:
            return Beside(facts, 1, rows.nest, Var("v"))
        group, v = Var(facts.names.fresh("beside")), Var(facts.names.fresh("v"))
        (*index, row), (*extents, last) = rows.nest.index, rows.nest.extents
        groups = lanes.part_of_size(facts, last, count)
        assert groups is not None, f"{last} is no multiple of {count}"
        nest = Nest((*index, group), (*extents, groups), rows.nest.body)
        lets = {row: ix.add(ix.mul(group, ix.index(count)), v)}
        good = _even(facts, row, count) | {b.name for b in left}
        return Beside(facts, count, nest, v, lets, good)

    def each(self, body: Stmt, tiles: Iterable[Buffer]) -> tuple[Stmt, list[Buffer]]:
        """Return what a thread does for each of its rows, from what it does for one.

        The threads of a block share the ``tiles``, which have a place for each row then.
        """
        if self.count == 1:
            return body, list(tiles)
        wider = [replace(b, shape=(self.count, *b.shape)) for b in tiles]
        shared, local = {b.name for b in wider}, set[str]()
        spread = _Spread(self, shared, local)
        for s in stmts(body):
            if isinstance(s, Allocate):
                (local if s.buffer.scope is Scope.LOCAL else shared).add(s.buffer.name)
        return spread.stmt(body), wider

    def flat(self, name: str, index: tuple[Expr, ...]) -> Expr:
        """Return the place of an access to one of ``buffers``, which have one axis."""
        rest = plus(self.facts.offset(name, index), {(self.v.name,): 1}, -1)
        group = lanes.part(rest, self.count)
        assert group is not None, f"an access to {name} begins between groups of rows"
        return ix.add(ix.mul(self.facts.affine.expr(group), ix.index(self.count)), self.v)


def _even(facts: NestFacts, row: Var, count: int) -> frozenset[str]:
    """Return the buffers of which groups of rows are neighbours at every access."""
    firsts = [(name, lanes.first_of_row(facts, facts.offset(name, at), row))
              for name, at in facts.accesses()]  # fmt: skip
    bad = {name for name, p in firsts if p is None or lanes.part(p, count) is None}
    return frozenset({name for name, _ in firsts} - bad)


def counts(facts: NestFacts, rows: RowNest) -> tuple[int, ...]:
    """Return how many rows side by side a thread may have, the most first.

    Their elements are one access of at most 16 bytes, and threads have the same number of them.
    """
    row, last = rows.nest.index[-1], rows.nest.extents[-1]
    folds = (s for s in rows.stages if isinstance(s, Fold))
    steps = {v.name for v in rows.axes} | {a.var.name for s in folds for a in s.axes}
    own = {
        name for name, at in facts.accesses()
        if any(coefficient(facts.offset(name, at), k) for k in steps)
    }  # fmt: skip

    def suit(count: int) -> bool:
        some = own & _even(facts, row, count)
        fits = all(count * facts.buffers[x].dtype.nbytes <= WIDE for x in some)
        return bool(some) and fits and lanes.part_of_size(facts, last, count) is not None

    return tuple(n for n in COUNTS if n == 1 or (facts.wide and suit(n)))


@dataclass(slots=True)
class _Spread:
    """Writes loops over the rows of a thread; buffers in ``shared`` and ``local`` have all rows.

    ``table`` says what variables stand for that differ from row to row.
    """

    beside: Beside
    shared: set[str]
    local: set[str]
    table: dict[str, Expr] = field(default_factory=dict[str, Expr])

    def stmt(self, s: Stmt) -> Stmt:
        """Return a statement for all rows."""
        match s:
            case Barrier():
                return s
            case Let(var, value, body):
                return self._let(s, var, self._expr(value), body)
            case Block(body) if not _is_flat(s):
                return Block(tuple(map(self.stmt, body)))
            case If(cond) if not self._varies(self._expr(cond)):
                return map_stmt(s, self._expr, self.stmt)
            case Allocate(b, body):
                wider = replace(b, shape=self._shape(b))
                return Allocate(wider, self.stmt(body))
            case For(_, extent):
                assert not self._varies(self._expr(extent)), "rows differ in length"
                return map_stmt(s, self._expr, self.stmt)
            case AttrStmt():
                return map_stmt(s, self._expr, self.stmt)
            case _:
                return self._leaf(s)

    def _let(self, s: Stmt, var: Var, value: Expr, body: Stmt) -> Stmt:
        """Return a body with a variable: one value for all rows, or one for each.

        What is constant is put in its place, so that places are known to be between no rows.
        """
        if not self._varies(value) and not isinstance(value, Const):
            return Let(var, value, self.stmt(body))
        if not any(isinstance(e, Load) for e in subexprs(value)):
            self.table[var.name] = value
            return self.stmt(body)
        if _is_flat(body):
            return self._leaf(s)
        b = Buffer(var.name, var.dtype, (self.beside.count,), Scope.LOCAL)
        self.table[var.name] = Load(b.name, (self.beside.v,), b.dtype)
        store = self._loop(Store(b.name, (self.beside.v,), value))
        return Allocate(b, Block((store, self.stmt(body))))

    def _leaf(self, s: Stmt) -> Stmt:
        return self._loop(self._one(s))

    def _loop(self, s: Stmt) -> Stmt:
        """Return the loop over a thread's rows."""
        loop = For(self.beside.v, ix.index(self.beside.count), s, LoopKind.VECTORIZED)
        return Inliner({}, self.beside.facts.names, Same()).stmt(loop)

    def _one(self, s: Stmt) -> Stmt:
        """Return a statement for the row of the loop."""
        if isinstance(s, Store):
            index = tuple(map(self._expr, s.index))
            return Store(s.buffer, self._at(s.buffer, index), self._expr(s.value))
        return map_stmt(s, self._expr, self._one)

    def _expr(self, e: Expr) -> Expr:
        """Return an expression for the row of the loop."""
        match e:
            case Var(name):
                return self.table.get(name, e)
            case Load(buffer, index, dtype):
                return Load(buffer, self._at(buffer, tuple(map(self._expr, index))), dtype)
            case _:
                return map_expr(self._expr, e)

    def _at(self, buffer: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the index of the row's own element of a buffer: threads side by side share one."""
        if buffer in self.shared:
            return (self.beside.v, *index)
        if buffer in self.local:
            return (*index, self.beside.v)
        return (self.beside.flat(buffer, index),) if buffer in self.beside.buffers else index

    def _shape(self, b: Buffer) -> tuple[Dim, ...]:
        count = self.beside.count
        return (count, *b.shape) if b.name in self.shared else (*b.shape, count)

    def _varies(self, e: Expr) -> bool:
        """Return whether an expression differs from row to row."""
        own = self.shared | self.local
        return any(
            e == self.beside.v or (isinstance(e, Load) and e.buffer in own) for e in subexprs(e)
        )


def _is_flat(s: Stmt) -> bool:
    """Return whether a statement is nothing but values and stores."""
    return all(isinstance(x, (Block, Let, Store)) for x in stmts(s))
