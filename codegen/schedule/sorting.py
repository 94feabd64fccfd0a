"""Sort the terms of a fold by their places: each place gets a segment, of terms in their order.

The sort is by counting, from the lowest digit of a place to the highest, and keeps the order of
equals: a thread for each digit goes along a *chunk* of the terms, counts those with its digit, and,
once it is known how many come before, puts them there.  The result is the same at every run, and no
thread waits for another.  (D. Knuth, *The Art of Computer Programming*, vol. 3, 5.2.5 and 5.2,
algorithms R and D.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule.folds import with_lets
from didyma.codegen.schedule.meeting import Meeting, size_of
from didyma.codegen.schedule.nest import NestFacts, guarded, tail
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import (
    INDEX,
    Accumulator,
    Allocate,
    Axis,
    Binary,
    Block,
    Buffer,
    Cast,
    Combiner,
    Compare,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.types import DType

DIGIT = 8  # bits of a place that one pass sorts by, at most
WORD = DType.I32  # holds a place, and the number of a term
MOST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Sorted:
    """Functions that run in order, and what they leave in memory for each line of places.

    ``order`` has the numbers of the terms, by their places; ``starts`` has for each place where its
    terms begin, and then where the last of them end.
    """

    functions: tuple[PrimFunc, ...]
    starts: Buffer
    order: Buffer


def fits(facts: NestFacts, m: Meeting) -> bool:
    """Return whether places and numbers of terms are surely small enough for their dtype."""
    return max(facts.largest(m.size), facts.largest(m.count)) < MOST


def digits(facts: NestFacts, m: Meeting) -> tuple[int, int]:
    """Return how many passes there are, and the bits of a place that each of them sorts by.

    A place is a number up to the size of the axis: that stands for none.
    """
    bits = max(1, facts.largest(m.size).bit_length())
    passes = -(-bits // DIGIT)
    return passes, -(-bits // passes)


def by_place(facts: NestFacts, m: Meeting, chunk: int) -> Sorted:
    """Return the sort of the terms, ``chunk`` of them for each block of threads."""
    return _Sort(facts, m, chunk, tuple(_dim(facts, e) for e in m.line_sizes)).run()


def _dim(facts: NestFacts, e: Expr) -> Dim:
    found = size_of(facts, e)
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class _Sort:
    facts: NestFacts
    m: Meeting
    chunk: int
    lines: tuple[Dim, ...]

    def run(self) -> Sorted:
        """Return the functions of all passes."""
        passes, bits = digits(self.facts, self.m)
        keys, order = self._terms("target"), None
        made = [self._keys(keys)]
        for n in range(passes):
            counts, bases = self._table("counts", bits), self._table("bases", bits)
            new_keys, new_order = self._terms("target"), self._terms("order")
            made += [
                self._count(keys, counts, bits * n, bits),
                self._scan(counts, bases, bits),
                self._put((keys, order), bases, (new_keys, new_order), bits * n, bits),
            ]
            keys, order = new_keys, new_order
        assert order is not None
        starts = self._buffer("starts", dims.add(_dim(self.facts, self.m.size), 1))
        made.append(self._starts(keys, starts))
        return Sorted(tuple(made), starts, order)

    def _buffer(self, name: str, size: Dim) -> Buffer:
        return Buffer(self.facts.names.fresh(name), WORD, (*self.lines, size))

    def _terms(self, name: str) -> Buffer:
        return self._buffer(name, _dim(self.facts, self.m.count))

    def _table(self, name: str, bits: int) -> Buffer:
        return self._buffer(name, dims.mul(1 << bits, _dim(self.facts, self.chunks)))

    @property
    def chunks(self) -> Expr:
        """The number of chunks of a line."""
        return ix.ceildiv(self.m.count, ix.index(self.chunk))

    def _fresh(self, *names: str) -> list[Var]:
        return [Var(self.facts.names.fresh(n)) for n in names]

    def _function(
        self, params: Sequence[Buffer], outputs: Sequence[Buffer], axes: Sequence[tuple[Var, Expr]],
        body: Stmt,
    ) -> PrimFunc:  # fmt: skip
        """Return a function with a loop for each line, and for each of the axes."""
        loops = (*zip(self.m.lines, self.m.line_sizes, strict=True), *axes)
        for v, e in reversed(loops):
            body = For(v, e, body, LoopKind.PARALLEL)
        func, names = self.facts.func, tuple(b.name for b in outputs)
        return replace(func, params=(*params, *outputs), outputs=names, body=body)

    def _keys(self, keys: Buffer) -> PrimFunc:
        """Return the function that writes the place of each term."""
        m = self.m
        store = Store(keys.name, (*m.lines, m.k), Cast(m.key(m.size), WORD))
        params = [b for b in self.facts.func.params if b.name not in self.facts.func.outputs]
        return self._function(params, [keys], [(m.k, m.count)], with_lets(m.lets, store))

    def _digit(self, key: Expr, shift: int, bits: int) -> Expr:
        high = Binary("shr", key, Const(shift, WORD)) if shift else key
        return Binary("and", high, Const((1 << bits) - 1, WORD))

    def _number(self, j: Var, c: Var) -> Expr:
        return ix.add(ix.mul(c, ix.index(self.chunk)), j)

    def _slot(self, d: Var, c: Var) -> Expr:
        return ix.add(ix.mul(d, self.chunks), c)

    def _count(self, keys: Buffer, counts: Buffer, shift: int, bits: int) -> PrimFunc:
        """Return the function that counts the terms of each chunk with each digit."""
        lines = self.m.lines
        c, d, j, term = self._fresh("c", "d", "j", "k")
        acc, add = (Var(self.facts.names.fresh(n), WORD) for n in ("count", "one"))
        digit = self._digit(Load(keys.name, (*lines, term), WORD), shift, bits)
        same = Compare("eq", digit, Cast(d, WORD))
        here = [*tail(term, self.m.count, self.chunk), same]
        one: Expr = Const(1, WORD)
        for cond in reversed(here):
            one = Select(cond, one, Const(0, WORD))
        fold = Fold(
            (Accumulator(acc, Const(0, WORD)),), (Axis(j, ix.index(self.chunk)),),
            Combiner((add,), (Binary("add", acc, add),)),
            Let(term, self._number(j, c), Yield((one,))),
            Store(counts.name, (*lines, self._slot(d, c)), acc),
        )  # fmt: skip
        axes = [(c, self.chunks), (d, ix.index(1 << bits))]
        return self._function([keys], [counts], axes, fold)

    def _scan(self, counts: Buffer, bases: Buffer, bits: int) -> PrimFunc:
        """Return the function that adds up the counts before each."""
        lines, (e, k) = self.m.lines, self._fresh("e", "k")
        acc, add = (Var(self.facts.names.fresh(n), WORD) for n in ("base", "count"))
        fold = Fold(
            (Accumulator(acc, Const(0, WORD)),), (Axis(k, e),),
            Combiner((add,), (Binary("add", acc, add),)),
            Yield((Load(counts.name, (*lines, k), WORD),)),
            Store(bases.name, (*lines, e), acc),
        )  # fmt: skip
        size = ix.mul(ix.index(1 << bits), self.chunks)
        return self._function([counts], [bases], [(e, size)], fold)

    def _put(
        self,
        old: tuple[Buffer, Buffer | None],
        bases: Buffer,
        new: tuple[Buffer, Buffer],
        shift: int,
        bits: int,
    ) -> PrimFunc:
        """Return the function that puts the terms of each chunk where those of its digit begin."""
        lines, (keys, order), (to, order_to) = self.m.lines, old, new
        c, d, j, term = self._fresh("c", "d", "j", "k")
        key = Var(self.facts.names.fresh("target"), WORD)
        at = Buffer(self.facts.names.fresh("at"), WORD, (), Scope.LOCAL)
        here = Load(at.name, (), WORD)
        slot: tuple[Expr, ...] = (*lines, Cast(here, INDEX))
        number = Cast(term, WORD) if order is None else Load(order.name, (*lines, term), WORD)
        put = Block((
            Store(to.name, slot, key), Store(order_to.name, slot, number),
            Store(at.name, (), Binary("add", here, Const(1, WORD))),
        ))  # fmt: skip
        mine = If(Compare("eq", self._digit(key, shift, bits), Cast(d, WORD)), put)
        one = Let(key, Load(keys.name, (*lines, term), WORD), mine)
        each = guarded(tail(term, self.m.count, self.chunk), one)
        loop = For(j, ix.index(self.chunk), Let(term, self._number(j, c), each))
        first = Store(at.name, (), Load(bases.name, (*lines, self._slot(d, c)), WORD))
        params = [keys, bases] if order is None else [keys, order, bases]
        axes = [(c, self.chunks), (d, ix.index(1 << bits))]
        return self._function(params, new, axes, Allocate(at, Block((first, loop))))

    def _starts(self, keys: Buffer, starts: Buffer) -> PrimFunc:
        """Return the function that finds the first term of each place, by halving."""
        lines, (t, turn) = self.m.lines, self._fresh("t", "turn")
        fresh = self.facts.names.fresh
        low, high = (Buffer(fresh(n), WORD, (), Scope.LOCAL) for n in ("low", "high"))
        lo, hi = Load(low.name, (), WORD), Load(high.name, (), WORD)
        mid = Var(fresh("mid"), WORD)
        key = Load(keys.name, (*lines, Cast(mid, INDEX)), WORD)
        up = Store(low.name, (), Binary("add", mid, Const(1, WORD)))
        halve = If(Compare("lt", key, Cast(t, WORD)), up, Store(high.name, (), mid))
        half = Binary("shr", Binary("sub", hi, lo), Const(1, WORD))
        step = If(Compare("lt", lo, hi), Let(mid, Binary("add", lo, half), halve))
        turns = self.facts.largest(self.m.count).bit_length()
        body: Stmt = Block((
            Store(low.name, (), Const(0, WORD)),
            Store(high.name, (), Cast(self.m.count, WORD)),
            For(turn, ix.index(turns), step), Store(starts.name, (*lines, t), lo),
        ))  # fmt: skip
        body = Allocate(low, Allocate(high, body))
        axes = [(t, ix.add(self.m.size, ix.ONE))]
        return self._function([keys], [starts], axes, body)
