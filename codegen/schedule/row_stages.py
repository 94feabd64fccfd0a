"""Write a kernel of rows: each thread takes some of the elements of a row, at every stage the same.

So that it can keep them in registers, in the dtype in which they lie in memory.  A thread takes
several neighbours at once, where they are one access; then those that all threads of the row are
farther on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from didyma.codegen.schedule.folds import allocated, copied, loaded, started, with_loads
from didyma.codegen.schedule.nest import NestFacts, guarded, let_all, same
from didyma.codegen.schedule.online import OnePass, Online, loads, taken
from didyma.codegen.schedule.row_wide import Wide
from didyma.codegen.schedule.rows import (
    Pick,
    RowNest,
    picks,
    renamed,
    sure_loads,
    written_out,
)
from didyma.codegen.schedule.team import Team
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    AttrStmt,
    Barrier,
    Binary,
    Block,
    Buffer,
    Cast,
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
from didyma.refimpl.ir.unfold import folded_into
from didyma.refimpl.ir.walk import map_stmt, one_of, substitute

UNROLLED = 4  # turns of a loop that are written out, so that as many loads are on their way


@dataclass(slots=True)
class Stages:
    """Writes the stages of a row for one thread; ``tiles`` are the shared buffers they use.

    A thread takes elements of a row in ``turns``, one after another; None if their number is not
    fixed.  Then it takes those at the edges of the row one by one, in ``edges`` turns.  ``kept``
    are registers for what loads give.  With ``before`` these turns follow others, and are among the
    first ``most`` of a row, if that is known.  With ``back``, every second pass over a row that is
    loaded again goes from its end to its beginning, so that it begins with what caches still hold.
    ``filled`` counts how often the threads of a block wait in a row until all have left something.
    Under the conditions ``ends`` a row is stored.  In one pass for two folds, threads put what
    loads give in the first ``shelved`` turns on the ``shelf``, in shared memory, and take it from
    there for the results.  ``passing`` says that what is not loaded again, and results, had better
    leave caches first.  Results compute again the exponentials whose sum is the second fold of
    ``again``: the least of its terms may be zero.  Threads that have their part of both folds of
    one pass do the ``hint`` before they meet.
    """

    team: Team
    rows: RowNest
    wide: Wide
    turns: int | None
    edges: int
    kept: dict[Load, Buffer]
    once: OnePass | None = None
    before: Expr | None = None
    most: int | None = None
    back: bool = False
    tiles: list[Buffer] = field(default_factory=list[Buffer])
    filled: int = 0
    ends: tuple[Expr, ...] = ()
    shelf: Mapping[Load, Buffer] = field(default_factory=dict[Load, Buffer])
    shelved: int = 0
    passing: bool = False
    again: Online | None = None
    hint: Sequence[Stmt] = ()

    @property
    def facts(self) -> NestFacts:
        """The facts about the nest."""
        return self.team.facts

    def write(self, stages: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        """Return the statements of stages and of what follows them."""
        if not stages:
            return self._end(exists)
        match stages[0]:
            case Let(var, value):
                return Let(var, self.wide.flat_expr(value), self.write(stages[1:], exists))
            case Fold() as fold:
                at = len(self.rows.stages) - len(stages)
                if self.once is not None and at == self.once.online.first:
                    return self.both(self.once, fold, stages[1:], exists)
                return self._fold(fold, stages[1:], exists)

    def _fold(self, s: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        mine = self.mine(s)
        step = self._leaving(self._step(s, mine), len(later))
        at = len(self.rows.stages) - len(later) - 1
        back = self._is_back(at) and s.op is not None  # of equal elements, the first counts
        if self.again is not None and at == self.again.second:
            step = AttrStmt("flush", self.again.scale, step)
        part = partial(self._over, step, exists, back=back)
        rest = partial(self.write, later, exists)
        return allocated(mine, self.met(s, mine, part, rest, started(s, mine)))

    def mine(self, s: Fold) -> list[Buffer]:
        """Return a local buffer for each accumulator of a fold: a thread's part."""
        fresh = self.facts.names.fresh
        return [Buffer(fresh(f"{a.var.name}_part"), a.var.dtype, (), Scope.LOCAL) for a in s.accs]

    def _step(self, s: Fold, mine: Sequence[Buffer]) -> Stmt:
        """Return what a fold does with an element."""
        return substitute(folded_into(s, loaded(mine), self.facts.names), renamed(s, self.rows))

    def met(
        self,
        s: Fold,
        mine: Sequence[Buffer],
        part: Callable[[], Stmt],
        rest: Callable[[], Stmt],
        starts: Sequence[Stmt],
    ) -> Stmt:
        """Return the statements that make a thread's part of a fold, join parts, and the rest."""
        met = self.team.meet(s, mine)
        self.tiles += met.tiles
        self.filled += bool(met.tiles)
        body = rest()
        for a, x in reversed(list(zip(s.accs, met.results, strict=True))):
            body = Let(a.var, x, body)
        return Block((*starts, part(), *met.statements, body))

    def both(self, once: OnePass, a: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        """Return the statements of two folds in one pass, of lets between, and of the rest."""
        o = once.online
        *lets, b = later[: o.second - o.first]
        assert isinstance(b, Fold)
        first, second = self.mine(a), self.mine(b)
        (x,), (y,) = loaded(first), loaded(second)
        shift = Buffer(self.facts.names.fresh("shift_part"), x.dtype, (), Scope.LOCAL)
        (now,) = loaded([shift])
        count, centre = Cast(self.count(), x.dtype), self.centre(o, a)
        correct = Store(y.buffer, (), o.corrected(y, count, now, centre))

        def rest() -> Stmt:
            return self.write(later[o.second - o.first :], exists)

        def joined() -> Stmt:
            body = self.met(b, second, lambda: correct, rest, ())
            for s in reversed(lets):
                assert isinstance(s, Let)
                body = Let(s.var, self.wide.flat_expr(s.value), body)
            return body

        def parts() -> Stmt:
            start = Store(shift.name, (), a.accs[0].start)
            loop = self._parts(once, (a, b), (x, y, now), exists)
            return Block((*started(b, second), start, loop, *self.hint))

        return allocated(
            (*first, *second, shift), self.met(a, first, parts, joined, started(a, first))
        )

    def centre(self, o: Online, first: Fold) -> Expr:
        """Return what the threads that meet correct the second of two folds to."""
        del first
        return o.asked

    def _parts(
        self, once: OnePass, folds: tuple[Fold, Fold], mine: Sequence[Load], exists: list[Expr]
    ) -> Stmt:
        """Return the loop over a thread's elements for two folds, some turns at a time.

        ``mine`` is where it has its part of each, and the shift of the second.
        """
        if self.turns is not None:
            over = partial(self._over, exists=exists)
            return self._part(once.online, folds, mine, over, None, self.count())
        every = ix.ceildiv(self.wide.most, ix.index(self.team.threads * once.turns))
        first = self.shelved // once.turns if self.shelf else 0
        rest = self._some(once, folds, mine, exists, (ix.index(first), every))
        if first:
            put = self._some(once, folds, mine, exists, (ix.ZERO, ix.index(first)), put=True)
            rest = Block((copied(put, self.facts.names), rest))
        return self._then_edges(once.online, folds, mine, exists, rest) if self.edges else rest

    def _then_edges(
        self,
        o: Online,
        folds: tuple[Fold, Fold],
        mine: Sequence[Load],
        exists: list[Expr],
        body: Stmt,
    ) -> Stmt:
        """Return a loop over whole accesses with what a thread does at the edges, loaded before."""
        fresh = self.facts.names.fresh
        some = {
            e: Buffer(fresh(f"{e.buffer}_edges"), e.dtype, (self.edges,), Scope.LOCAL)
            for e in loads(self.facts, self.rows, o)
        }

        def over(s: Stmt) -> Stmt:
            return self._at_edges(partial(self._held, some, s), exists)

        inner = self._taken(None)
        last = self._part(o, folds, mine, over, inner, ix.add(inner, self._own_edges()))
        fill = [self._at_edges(partial(filled, some), exists)] if some else []
        last = copied(last, self.facts.names)
        return allocated([*some.values()], Block((*fill, body, last)))

    def _some(
        self,
        once: OnePass,
        folds: tuple[Fold, Fold],
        mine: Sequence[Load],
        exists: list[Expr],
        span: tuple[Expr, Expr],
        *,
        put: bool = False,
    ) -> Stmt:
        """Return a loop over some turns at a time; with ``put`` what they load is shelved."""
        fresh, turn = self.facts.names.fresh, Var(self.facts.names.fresh("turn"))
        size, (start, stop) = once.turns * self.wide.width, span
        some = {
            e: Buffer(fresh(f"{e.buffer}_some"), e.dtype, (size,), Scope.LOCAL)
            for e in loads(self.facts, self.rows, once.online)
        }
        before = ix.mul(ix.add(start, turn), ix.index(once.turns))
        most = self.shelved if put else None
        these = replace(self, turns=once.turns, kept=some, before=before, most=most, edges=0)
        fill = [these.over(partial(filled, some), exists, at_once=True)] if some else []
        if put:
            fill = [*map(self._passed, fill)]
            fill.append(these.over(partial(these._put, some), exists, at_once=True))
        over, end = partial(these._over, exists=exists), ix.add(before, ix.index(once.turns))
        old, new = self._taken(before), self._taken(end)
        body = Block((*fill, these._part(once.online, folds, mine, over, old, new)))
        return For(turn, ix.sub(stop, start), allocated([*some.values()], body))

    def _part(
        self,
        o: Online,
        folds: tuple[Fold, Fold],
        mine: Sequence[Load],
        over: Callable[[Stmt], Stmt],
        old: Expr | None,
        new: Expr,
    ) -> Stmt:
        """Return the statements for some of a thread's elements, ``over`` which a fold goes.

        The thread has taken ``old`` elements before, None if it has no sum yet, and then ``new``.
        """
        names, (x, y, now), (a, b) = self.facts.names, mine, folds
        step = substitute(a.step, renamed(a, self.rows))
        first = over(folded_into(replace(a, step=step), [x], names))
        second = over(folded_into(replace(b, step=o.step), [y], names))
        if o.scale and not o.kept:  # the largest element met so far adds 1
            second = AttrStmt("flush", o.scale, second)
        late = list[Stmt]()
        if old is not None:
            late = [Store(y.buffer, (), o.corrected(y, Cast(old, x.dtype), now, o.shift))]
        end = Block((*late, Store(now.buffer, (), o.shift), second))
        return Block((first, Let(o.shift, o.shifted(x, Cast(new, x.dtype)), end)))

    def _taken(self, turns: Expr | None) -> Expr:
        """Return how many elements a thread has taken after some turns; after all with None."""
        units = ix.mul(*self.wide.units)
        found = taken(units, self.team.place, self.team.threads, turns)
        return ix.mul(found, ix.index(self.wide.width))

    def _own_edges(self) -> Expr:
        """Return how many elements at the edges of a row a thread takes."""
        edges = self.wide.edges
        if edges is None:
            return ix.ZERO
        count = edges.count(self.rows.length, self.wide.width)
        return taken(count, self.team.place, self.team.threads, None)

    def count(self) -> Expr:
        """Return how many elements of a row a thread takes."""
        return ix.add(self._taken(None), self._own_edges())

    def _put(self, some: Mapping[Load, Buffer], position: Expr) -> Stmt:
        """Return the statement that puts on the shelf what local buffers hold of an element."""
        places = ((self._shelved(x, position), some[x]) for x in self.shelf)
        held = ((to, Load(b.name, (position,), b.dtype)) for to, b in places)
        stores = [Store(to.buffer, to.index, x) for to, x in held]
        return one_of(stores)

    def _shelved(self, load: Load, position: Expr) -> Load:
        """Return the load from the shelf of the element at a thread's position."""
        team, width = self.team, ix.index(self.wide.width)
        match position:
            case Binary("add", Binary("mul", turn), v) if self.wide.width > 1:
                lane: Expr | None = v
            case _:
                turn, lane = position, None
        now = turn if self.before is None else ix.add(self.before, turn)
        unit = ix.add(ix.mul(now, ix.index(team.groups)), team.group)
        unit = ix.add(ix.mul(unit, ix.index(team.lanes)), team.lane)
        at = unit if lane is None else ix.add(ix.mul(unit, width), lane)
        return Load(self.shelf[load].name, (at,), load.dtype)

    def _from_shelf(self, s: Stmt, position: Expr) -> Stmt:
        def shelved(load: Load) -> Load | None:
            load = written_out(self.facts, load)
            return self._shelved(load, position) if load in self.shelf else None

        return with_loads(s, shelved)

    def _over(self, s: Stmt, exists: list[Expr], *, back: bool = False) -> Stmt:
        """Return a statement done for each element that a thread has, held ones from registers."""
        return self.over(partial(self._held, self.kept, s), exists, back=back)

    def _is_back(self, done: int) -> bool:
        """Return whether the pass after so many stages and lets begins at the end of the row."""
        passes = sum(isinstance(s, Fold) for s in self.rows.stages[:done])
        if self.once is not None and self.once.online.second < done:
            passes -= 1
        return self.back and self.turns is None and passes % 2 == 1

    def _leaving(self, step: Stmt, later: int) -> Stmt:
        """Return a stage, ``later`` stages and lets before the last, with the values it leaves."""
        done = self.rows.stages[: len(self.rows.stages) - later - 1]
        stage = sum(isinstance(s, Fold) for s in done)
        values = [Store(x.name, (), x.value) for x in self.rows.values if x.first == stage]
        return Block((*values, step)) if values else step

    def _end(self, exists: list[Expr]) -> Stmt:
        each, once, group = self.rows.each, self.rows.once, self.team.group
        exists = [*exists, *self.ends]
        last = [] if each is None else self.results(each, exists)
        if once:
            table = dict[Load, Load]()
            scope = Scope.SHARED if self.team.rank is None else Scope.CLUSTER
            for load, pick in picks(self.facts, self.rows, self.kept).items():
                name, rank = self.facts.names.fresh(f"{load.buffer}_pick"), self.team.rank
                blocks = () if rank is None else (self.team.blocks,)
                shape = (*blocks, self.team.groups)
                self.tiles.append(Buffer(name, load.dtype, shape, scope))
                table[load] = Load(name, (group,) if rank is None else (rank, group), load.dtype)
                last.append(self.over(partial(self._picked, pick, name), exists))
            last += [Barrier(scope)] if table else []
            self.filled += bool(table)
            first = [ix.compare("eq", self.team.place, ix.ZERO), *exists]
            body = one_of(once)
            last.append(guarded(first, self.wide.flat(with_loads(body, table.get))))
        return one_of(last)

    def results(self, each: Stmt, exists: list[Expr]) -> list[Stmt]:
        """Return the loops over a thread's elements for the results, those on the shelf apart."""
        back = self._is_back(len(self.rows.stages))
        loops = partial(self.over, at_once=True, back=back)
        held = partial(self._held, self.kept, each)
        if not self.shelf:
            return [loops(held, exists)]
        first = loops(partial(self._from_shelf, each), exists, span=(0, self.shelved))
        rest = loops(held, exists, span=(self.shelved, None))
        return [*map(self._passed, (rest, first) if back else (first, rest))]

    def _passed(self, s: Stmt) -> Stmt:
        """Return a statement that touches elements of a row for the last time."""
        return AttrStmt("cache", "pass", s) if self.passing else s

    def _picked(self, pick: Pick, tile: str, position: Expr) -> Stmt:
        """Return the statement by which the thread that has an element shares it.

        Of several blocks, the first gets it.
        """
        b = self.kept[pick.kept]
        here = ix.compare("eq", self.rows.axes[0], pick.place)
        at = (self.team.group,) if self.team.rank is None else (ix.ZERO, self.team.group)
        return If(here, Store(tile, at, Load(b.name, (position,), b.dtype)))

    def over(
        self,
        inside: Callable[[Expr], Stmt],
        conds: list[Expr],
        *,
        at_once: bool = False,
        back: bool = False,
        span: tuple[int, int | None] = (0, None),
    ) -> Stmt:
        """Return the loop over a thread's elements; ``inside`` gets the place of one among them.

        With ``at_once`` neighbours may be done at once: each stores elements of its own.  ``back``
        is from the end of the row.  A ``span`` is of turns, where their number is not fixed; with
        an end it leaves the edges out.
        """
        fresh, wide, team = self.facts.names.fresh, self.wide, self.team
        turn, unit = Var(fresh("turn")), Var(fresh("k"))
        count = ix.ceildiv(wide.most, ix.index(team.threads))
        start, stop = ix.index(span[0]), count if span[1] is None else ix.index(span[1])
        now = turn if self.before is None else ix.add(self.before, turn)
        now = ix.sub(ix.sub(stop, ix.ONE), turn) if back else ix.add(start, now)
        new = [Var(fresh(v.name)) for v in self.rows.axes]
        part = new[-1] if wide.width == 1 else Var(fresh("part"))
        here = now if self.shelf and self.turns is None else turn
        body = self._neighbours(inside, here, part, new[-1], at_once=at_once)
        names = {v.name: n for v, n in zip(self.rows.axes, new, strict=True)}
        places = zip((*new[:-1], part), ix.unflatten(unit, wide.units), strict=True)
        body = let_all(dict(places), substitute(body, names))
        alone, most = self.before is None, self.most if span[1] is None else span[1]
        out, by = (turn if self.turns else None, 1) if alone else (None, self.turns or 1)
        guards = wide.guards(unit, team.threads, by, most, out)
        apart = team.across or not guards or self.rows.sums != ()
        body = guarded([*(conds if apart else ()), *guards], body)
        body = Let(unit, ix.add(ix.mul(now, ix.index(team.threads)), team.place), body)
        if self.turns is not None:
            loop: Stmt = For(turn, ix.index(self.turns), body, LoopKind.UNROLLED)
        else:
            loop = For(turn, ix.sub(stop, start), body)
            loop = loop if wide.width == 1 else AttrStmt("unroll", UNROLLED, loop)
        if self.edges and span[1] is None:
            loop = Block((self._at_edges(inside, conds if apart else []), loop))
        return loop if apart else guarded(conds, loop)  # loads of all turns are under way at once

    def _at_edges(self, inside: Callable[[Expr], Stmt], conds: list[Expr]) -> Stmt:
        """Return the loop over a thread's elements at the edges of a row, which it takes last."""
        fresh, wide, team, edges = self.facts.names.fresh, self.wide, self.team, self.wide.edges
        assert edges is not None
        turn, n, (old,) = Var(fresh("turn")), Var(fresh("edge")), self.rows.axes
        new, held = Var(fresh(old.name)), ix.index((self.turns or 0) * wide.width)
        body = substitute(wide.flat(inside(ix.add(held, turn))), {old.name: new})
        body = Let(new, edges.place(n, wide.width), copied(body, self.facts.names))
        count = edges.count(self.rows.length, wide.width)
        body = guarded([*conds, ix.compare("lt", n, count)], body)
        body = Let(n, ix.add(ix.mul(turn, ix.index(team.threads)), team.place), body)
        return For(turn, ix.index(self.edges), body, LoopKind.UNROLLED)

    def _neighbours(
        self, inside: Callable[[Expr], Stmt], turn: Expr, part: Expr, last: Var, *, at_once: bool
    ) -> Stmt:
        """Return what a thread does for neighbours in a row: ``last`` is their innermost index."""
        if self.wide.width == 1:
            return inside(turn)
        by, old = ix.index(self.wide.width), self.rows.axes[-1].name

        def loop(kind: LoopKind, stmt: Callable[[Expr], Stmt]) -> Stmt:
            v = Var(self.facts.names.fresh("v"))
            body = substitute(self.wide.moved(stmt(v), part, v), {old: last})
            return For(v, by, let_all({last: self.wide.at(part, v)}, body), kind)

        def one(v: Expr) -> Stmt:
            return inside(ix.add(ix.mul(turn, by), v))

        if at_once:
            return loop(LoopKind.VECTORIZED, one)
        fresh = self.facts.names.fresh
        loads = [x for x in sure_loads(self.facts, self.rows, one(turn)) if self.wide.has(x)]
        some = {
            x: Buffer(fresh(f"{x.buffer}_some"), x.dtype, (self.wide.width,), Scope.LOCAL)
            for x in sorted(dict.fromkeys(loads), key=lambda x: x.buffer)
        }
        if not some:
            return loop(LoopKind.UNROLLED, one)
        fill = loop(LoopKind.VECTORIZED, lambda v: filled(some, v))
        use = loop(LoopKind.UNROLLED, lambda v: self._held(some, one(v), v))
        return allocated([*some.values()], Block((fill, use)))

    def _held(self, some: Mapping[Load, Buffer], s: Stmt, place: Expr) -> Stmt:
        """Read local buffers in place of what they hold, and use values at the thread's place."""
        values = {*(x.name for x in self.rows.values), *self.rows.sums}

        def held(load: Load) -> Load | None:
            if load.buffer in values and not load.index:
                return replace(load, index=(place,))
            b = some.get(written_out(self.facts, load))
            return None if b is None else Load(b.name, (place,), b.dtype)

        def left(b: Stmt) -> Stmt:
            if isinstance(b, Store) and b.buffer in values and not b.index:
                return replace(b, index=(place,))
            return map_stmt(b, same, left)

        return left(with_loads(s, held))


def filled(some: Mapping[Load, Buffer], place: Expr) -> Stmt:
    """Return the statement that loads what local buffers hold of an element."""
    stores = tuple(Store(b.name, (place,), x) for x, b in some.items())
    return one_of(stores)
