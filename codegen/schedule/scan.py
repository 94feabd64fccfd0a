"""Schedule running folds: the threads of a line share it, and each element is read once.

In a turn each thread of a line takes a few vectors and folds them; threads of a warp exchange their
results, warps share theirs in shared memory, and a line that is longer than a turn takes several,
to which the result so far is carried.  The order is fixed: a result is the same at every run.
Exchanges double the distance each time (W. D. Hillis and G. L. Steele, 1986), and go both ways, so
that each thread knows the result of those before it, and that of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from typing import TypeAlias

from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.folds import allocated, copied
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.codegen.schedule.nest import scan as scan_of
from didyma.codegen.schedule.pointwise import moved
from didyma.codegen.schedule.running import Running
from didyma.codegen.schedule.scan_shape import Shape
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import plus
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
    Chain,
    Exchange,
    Expr,
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
)
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import items, substitute

Values: TypeAlias = Sequence[Expr]
Then: TypeAlias = Callable[[Values, Values], Stmt]
Combined: TypeAlias = Callable[[Sequence[Values], Values], Stmt]
Finished: TypeAlias = Callable[[Values, Sequence[Values], Values], Stmt]


@dataclass(frozen=True, slots=True)
class Links:
    """The buffers by which blocks that share a line hand on results: their states and totals."""

    states: Buffer
    totals: Buffer


def chained(facts: NestFacts, run: Running, shape: Shape, links: Links) -> PrimFunc:
    """Schedule a running fold in blocks along each line, which wait for those before them.

    Each element is read once, and written once (D. Merrill and M. Garland, 2016).
    """
    fresh = facts.names.fresh
    block, group, lane, line = (Var(fresh(n)) for n in ("bx", "group", "lane", "line"))
    writer = _Scan(facts, run, shape, group, lane, Var(fresh("part")), [], links)
    body = substitute(writer.round(block, []), {group.name: ix.ZERO})
    extents = [run.nest.extents[n] for n in run.others]
    at = ix.unflatten(line, extents) if ix.mul(*extents) != ix.ONE else [ix.ZERO] * len(extents)
    body = let_all(dict(zip((run.nest.index[n] for n in run.others), at, strict=True)), body)
    body = bound(lane, ix.index(shape.lanes), "threadIdx.x", body)
    for b in writer.tiles:
        body = Allocate(b, body)
    body = bound(block, ix.ceildiv(writer.vectors, ix.index(writer.capacity)), "blockIdx.x", body)
    lines = ix.mul(*extents)
    body = bound(line, lines, "blockIdx.y", body) if lines != ix.ONE else body
    func = facts.func
    more = (links.states, links.totals)
    names = tuple(b.name for b in more)
    func = replace(func, params=(*func.params, *more), outputs=(*func.outputs, *names))
    statements, inside = scan_of(body)
    known = replace(facts, func=func, statements=tuple(statements), inside=tuple(inside))
    return known.kernel(body, "scan_chain", shape.wide)


def scheduled(facts: NestFacts, run: Running, shape: Shape) -> PrimFunc:
    """Schedule a running fold in a shape."""
    fresh = facts.names.fresh
    block, group, lane, line = (Var(fresh(n)) for n in ("bx", "group", "lane", "line"))
    across = shape.across
    index = [run.nest.index[n] for n in run.others]
    extents = [run.nest.extents[n] for n in run.others]
    column = Var(fresh("part"))
    if across and shape.width > 1:
        part = lanes.part_of_size(facts, extents[-1], shape.width)
        assert part is not None
        index[-1], extents[-1] = column, part
    count = ix.mul(*extents)
    exists = tail(line, count, shape.groups)
    writer = _Scan(facts, run, shape, group, lane, column, exists)
    body = writer.rounds()
    # A thread beyond the last line sees the last one, and none of its elements.
    at = Var(fresh("at")) if exists else line
    last = Binary("min", line, ix.sub(count, ix.ONE))
    table = dict(zip(index, ix.unflatten(at, extents), strict=True))
    body = let_all({**({at: last} if exists else {}), **table}, body)
    body = Let(line, ix.add(ix.mul(block, ix.index(shape.groups)), group), body)
    threads = [(group, shape.groups), (lane, shape.lanes)]
    for axis, (v, n) in zip("xy", threads if across else threads[::-1], strict=True):
        body = bound(v, ix.index(n), f"threadIdx.{axis}", body)
    for b in writer.tiles:
        body = Allocate(b, body)
    grid = ix.ceildiv(count, ix.index(shape.groups))
    return facts.kernel(bound(block, grid, "blockIdx.x", body), "scan", shape.wide)


@dataclass(slots=True)
class _Scan:
    """Writes what a thread does; ``tiles`` are the shared buffers that it uses.

    A thread holds ``turns`` vectors.  Along a line each of them is a segment of the line, and the
    threads of a warp have neighbouring ones; across lines they are one segment of several lines.
    """

    facts: NestFacts
    run: Running
    shape: Shape
    group: Var
    lane: Var
    column: Var  # the vector of lines, if there are several
    exists: list[Expr]
    links: Links | None = None
    tiles: list[Buffer] = field(default_factory=list[Buffer])

    @property
    def beside(self) -> int:
        """The lines that a thread takes."""
        return self.shape.width if self.shape.across else 1

    @property
    def near(self) -> int:
        """The threads of a line that are in one warp."""
        warp = self.facts.target.warp // (self.shape.groups if self.shape.across else 1)
        return max(1, min(self.shape.lanes, warp))

    @property
    def parts(self) -> int:
        """The warps of a line."""
        return self.shape.lanes // self.near

    @property
    def vectors(self) -> Expr:
        """The vectors of a line."""
        if self.shape.across or self.shape.width == 1:
            return self.run.size
        part = lanes.part_of_size(self.facts, self.run.size, self.shape.width)
        assert part is not None
        return part

    @property
    def capacity(self) -> int:
        """The vectors that the threads of a line take in a round."""
        return self.shape.lanes * self.shape.turns

    def rounds(self) -> Stmt:
        """Return the rounds of a thread, with what they carry along."""
        rounds = ix.ceildiv(self.vectors, ix.index(self.capacity))
        if rounds == ix.ONE:
            return self.round(ix.ZERO, [])
        turn = Var(self.facts.names.fresh("turn"))
        carries = [self._scalar("carry") for _ in range(self.beside)]
        starts = [Store(b.name, (), self.run.start) for b in carries]
        return allocated(carries, Block((*starts, For(turn, rounds, self.round(turn, carries)))))

    def round(self, turn: Expr, carries: Sequence[Buffer]) -> Stmt:
        """Return one round: load and fold, combine with other threads, and finish each element."""
        held = [self._vector("held") for _ in range(self.shape.turns)]
        places = [self._place(turn, j) for j in range(self.shape.turns)]
        loads = [self._each(p, self._load(b), b) for b, p in zip(held, places, strict=True)]
        sums, inner = self._inner(held)

        def finished(before: Values, firsts: Sequence[Values], total: Values) -> Stmt:
            def finish(carried: Values) -> Stmt:
                bases = self._bases(carried, before, firsts)
                return self._finish(sums, places, bases, carries, total)

            return finish(_scalars(carries)) if self.links is None else self._linked(total, finish)

        total = [Load(sums[-1].name, (ix.index(n),), self.dtype) for n in range(self.beside)]
        combined = partial(self._warps, turn if carries else None, finished)
        if self.shape.across:
            body = self._exchange(total, lambda p, q: combined([p], q))
        else:
            body = self._segments(sums, [], None, combined)
        body = Block((*loads, *inner, *items(body)))
        for b in reversed((*held, *(x for x in sums if x not in held))):
            body = Allocate(b, body)
        return body

    # The elements of a thread

    def _place(self, turn: Expr, j: int) -> Expr:
        """Return the number of a vector along the line, in the order of the fold."""
        near, turns = ix.index(self.near), ix.index(self.shape.turns)
        if self.shape.across:
            mine = ix.add(ix.mul(turn, ix.index(self.shape.lanes)), self.lane)
            return ix.add(ix.mul(mine, turns), ix.index(j))
        warp = ix.add(ix.mul(turn, ix.index(self.parts)), ix.floordiv(self.lane, near))
        segment = ix.add(ix.mul(warp, turns), ix.index(j))
        return ix.add(ix.mul(segment, near), ix.mod(self.lane, near))

    def _each(self, place: Expr, stmt: Callable[[Expr], Stmt], empty: Buffer | None = None) -> Stmt:
        """Return what is done for the elements of a vector; if there is none, it is ``empty``."""
        run, shape, fresh = self.run, self.shape, self.facts.names.fresh
        here, v = Var(fresh("k")), Var(fresh("v"))
        by = ix.index(shape.width)
        at: Expr = here
        if run.reverse:
            at = ix.sub(ix.sub(self.vectors, ix.ONE), here)
        along = Var(fresh(run.along.name))
        if shape.width == 1:
            body = copied(stmt(ix.ZERO), self.facts.names)
            body = let_all({along: at}, substitute(body, {run.along.name: along}))
        else:
            part = self.column if shape.across else Var(fresh("part"))
            neighbour = run.nest.index[run.others[-1]] if shape.across else run.along
            new = Var(fresh(neighbour.name))
            body = moved(stmt(v), shape.wide, self._to(neighbour, part, v))
            body = copied(body, self.facts.names)
            body = substitute(body, {neighbour.name: new})
            body = For(
                v, by, let_all({new: ix.add(ix.mul(part, by), v)}, body), LoopKind.VECTORIZED
            )
            table = {along: at} if shape.across else {part: at}
            body = let_all(table, substitute(body, {run.along.name: along}))
        inside = tail(here, self.vectors, self.capacity)
        body = guarded([*self.exists, *inside], body)
        if isinstance(body, If) and empty is not None:
            indices = map(ix.index, range(shape.width))
            starts = tuple(Store(empty.name, (n,), run.start) for n in indices)
            body = replace(body, other=starts[0] if len(starts) == 1 else Block(starts))
        return Let(here, place, body)

    def _to(self, neighbour: Var, part: Var, v: Var) -> Callable[[str, tuple[Expr, ...]], Expr]:
        def to(name: str, index: tuple[Expr, ...]) -> Expr:
            offset = self.facts.offset(name, index)
            rest = lanes.from_row(self.facts, offset, neighbour, self.shape.width)
            assert rest is not None
            group = self.facts.affine.expr(plus(rest, {(part.name,): 1}))
            return ix.add(ix.mul(group, ix.index(self.shape.width)), v)

        return to

    def _load(self, held: Buffer) -> Callable[[Expr], Stmt]:
        return lambda v: self.run.kept(held.name, v)

    def _inner(self, held: Sequence[Buffer]) -> tuple[Sequence[Buffer], list[Stmt]]:
        """Return the buffers of the results of vectors so far, and how they are made."""
        width, name = self.shape.width, self.facts.names.fresh
        if self.shape.across:
            sums = [held[0], *(self._vector("sums") for _ in held[1:])]
            made = list[Stmt]()
            for n, (b, new) in enumerate(zip(sums[1:], held[1:], strict=True)):
                v = Var(name("v"))
                both = self._joined(*(Load(x.name, (v,), self.dtype) for x in (sums[n], new)))
                made.append(For(v, ix.index(width), Store(b.name, (v,), both), LoopKind.UNROLLED))
            return sums, made
        return held, [s for b in held for s in self._steps(b)]

    def _steps(self, b: Buffer) -> Iterator[Stmt]:
        order = self._order()
        for before, n in pairwise(order):
            both = self._joined(self._element(b, before), self._element(b, n))
            yield Store(b.name, (ix.index(n),), both)

    def _order(self) -> list[int]:
        """Return the elements of a vector along the line in the order of the fold."""
        order = list(range(self.shape.width))
        return order[::-1] if self.run.reverse else order

    # Other threads

    def _segments(
        self, sums: Sequence[Buffer], firsts: list[Values], total: Values | None, then: Combined
    ) -> Stmt:
        """Combine the vectors of a warp, one after another; ``total`` is the result so far."""
        if len(firsts) == len(sums):
            assert total is not None
            return then(firsts, total)
        last = self._element(sums[len(firsts)], self._order()[-1])

        def add(p: Values, q: Values) -> Stmt:
            if total is None:
                return self._segments(sums, [p], q, then)
            first, both = self._joined(total[0], p[0]), self._joined(total[0], q[0])

            def rest(first: Values, both: Values) -> Stmt:
                return self._segments(sums, [*firsts, first], both, then)

            return self._bound(
                "first", [first], lambda x: self._bound("total", [both], lambda y: rest(x, y))
            )

        return self._exchange([last], add)

    def _exchange(self, mine: Values, then: Then) -> Stmt:
        """Combine the results of the threads of a warp: of those before each, and of all."""

        def level(n: int, before: Values, total: Values) -> Stmt:
            if 1 << n >= self.near:
                return then(before, total)
            bit = ix.mod(ix.floordiv(self.lane, ix.index(1 << n)), ix.index(2))
            behind = ix.compare("eq", bit, ix.ONE)
            others = [Var(self.facts.names.fresh("other"), self.dtype) for _ in total]

            def chosen(p: Expr, other: Expr) -> Expr:
                return Select(behind, other if p == self.run.start else self._joined(other, p), p)

            p = [chosen(a, b) for a, b in zip(before, others, strict=True)]
            q = [self._joined(a, b) for a, b in zip(total, others, strict=True)]
            body = self._bound(
                "before", p, lambda p: self._bound("total", q, lambda q: level(n + 1, p, q))
            )
            mask = (1 << n) * (self.shape.groups if self.shape.across else 1)
            for other, x in reversed(list(zip(others, total, strict=True))):
                body = Exchange(other, x, mask, body)
            return body

        return self._bound("total", mine, lambda q: level(0, [self.run.start] * len(q), q))

    def _warps(
        self, turn: Expr | None, then: Finished, firsts: Sequence[Values], total: Values
    ) -> Stmt:
        """Combine what the warps of a line have, in a buffer that they share, in each ``turn``."""
        if self.parts == 1:
            return then([self.run.start] * len(total), firsts, total)
        again = turn is not None or self.links is not None
        shape = (1 if turn is None else 2, self.parts, self.shape.groups, len(total))
        tile = Buffer(self.facts.names.fresh("total_tile"), self.dtype, shape, Scope.SHARED)
        self.tiles.append(tile)
        slot = ix.ZERO if turn is None else ix.mod(turn, ix.index(2))
        warp, near = ix.floordiv(self.lane, ix.index(self.near)), ix.index(self.near)
        first = [] if self.near == 1 else [ix.compare("eq", ix.mod(self.lane, near), ix.ZERO)]
        shared = tuple(
            Store(tile.name, (slot, warp, self.group, ix.index(n)), x) for n, x in enumerate(total)
        )
        other = Var(self.facts.names.fresh("warp"))
        before = [self._scalar("before") for _ in total]
        whole = [self._scalar("whole") for _ in total] if again else []
        starts = [Store(b.name, (), self.run.start) for b in (*before, *whole)]
        steps = list[Stmt]()
        for n, b in enumerate(before):
            x = Load(tile.name, (slot, other, self.group, ix.index(n)), self.dtype)
            old = Load(b.name, (), self.dtype)
            earlier = ix.compare("lt", other, warp)
            steps.append(Store(b.name, (), Select(earlier, self._joined(old, x), old)))
            steps += [
                Store(w.name, (), self._joined(Load(w.name, (), self.dtype), x))
                for w in whole[n : n + 1]
            ]
        loop = For(other, ix.index(self.parts), Block(tuple(steps)), LoopKind.UNROLLED)
        rest = then(_scalars(before), firsts, _scalars(whole) if again else total)
        share = guarded(first, shared[0] if len(shared) == 1 else Block(shared))
        body = Block((*starts, share, Barrier(), loop, *items(rest)))
        return allocated((*before, *whole), body)

    # Other blocks

    def _linked(self, total: Values, then: Callable[[Values], Stmt]) -> Stmt:
        """Wait for the result of the blocks before, of the only line."""
        assert self.links is not None
        op, (value,) = self.run.fold.op, total
        assert op == "add" or op == "mul"
        carry, names = Var(self.facts.names.fresh("carry"), self.dtype), self.links
        rest = then([carry])
        return Chain(carry, op, self.run.start, value, names.states.name, names.totals.name, rest)

    # The end

    def _bases(self, carries: Values, before: Values, firsts: Sequence[Values]) -> list[Values]:
        """Return what comes before each segment."""
        start = self.run.start

        def joined(parts: Sequence[Expr]) -> Expr:
            real = [x for x in parts if x != start]
            return reduce(self._joined, real) if real else start

        carried = carries or [start] * len(before)
        return [[joined(x) for x in zip(carried, before, f, strict=True)] for f in firsts]

    def _finish(
        self,
        sums: Sequence[Buffer],
        places: Sequence[Expr],
        bases: Sequence[Values],
        carries: Sequence[Buffer],
        total: Values,
    ) -> Stmt:
        """Return what is done with each element, and what is carried to the next round."""
        stmts, made = list[Stmt](), list[Buffer]()
        for values in bases:
            b = Buffer(self.facts.names.fresh("base"), self.dtype, (len(values),), Scope.LOCAL)
            made.append(b)
            stmts += [Store(b.name, (ix.index(n),), x) for n, x in enumerate(values)]
        for j, place in enumerate(places):
            segment = 0 if self.shape.across else j
            empty = all(x == self.run.start for x in bases[segment])
            source: Buffer | None = sums[j]
            if not self.run.inclusive and self.shape.across:
                source = sums[j - 1] if j else None
            elif not self.run.inclusive:
                stmts += self._shifted(sums[j])
            final = partial(self._final, source, None if empty else made[segment])
            stmts.append(self._each(place, final))
        for b, x in zip(carries, total, strict=True) if carries else ():
            stmts.append(Store(b.name, (), self._joined(Load(b.name, (), self.dtype), x)))
        return allocated(made, Block(tuple(stmts)))

    def _final(self, source: Buffer | None, base: Buffer | None, v: Expr) -> Stmt:
        parts = list[Expr]()
        if base is not None:
            parts.append(Load(base.name, (v if self.shape.across else ix.ZERO,), self.dtype))
        if source is not None:
            parts.append(Load(source.name, (v,), self.dtype))
        value = reduce(self._joined, parts) if parts else self.run.start
        return self.run.done(value)

    def _shifted(self, b: Buffer) -> Iterator[Stmt]:
        """Yield what leaves each element of a vector out of its result."""
        order = self._order()
        for n, before in pairwise(order[::-1]):
            yield Store(b.name, (ix.index(n),), self._element(b, before))
        yield Store(b.name, (ix.index(order[0]),), self.run.start)

    # Small parts

    @property
    def dtype(self) -> DType:
        """The dtype of the fold."""
        return self.run.start.dtype

    def _joined(self, a: Expr, b: Expr) -> Expr:
        return self.run.joined(a, b)

    def _element(self, b: Buffer, n: int) -> Expr:
        return Load(b.name, (ix.index(n),), self.dtype)

    def _vector(self, name: str) -> Buffer:
        return Buffer(self.facts.names.fresh(name), self.dtype, (self.shape.width,), Scope.LOCAL)

    def _scalar(self, name: str) -> Buffer:
        return Buffer(self.facts.names.fresh(name), self.dtype, (), Scope.LOCAL)

    def _bound(self, name: str, values: Values, then: Callable[[Values], Stmt]) -> Stmt:
        """Bind values to variables."""
        new = [Var(self.facts.names.fresh(name), self.dtype) for _ in values]
        body = then(new)
        for v, x in reversed(list(zip(new, values, strict=True))):
            body = Let(v, x, body)
        return body


def _scalars(buffers: Sequence[Buffer]) -> list[Expr]:
    return [Load(b.name, (), b.dtype) for b in buffers]
