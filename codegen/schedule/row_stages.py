"""Write a kernel of rows: each thread takes some of the elements of a row, at every stage the same.

So that it can keep them in registers, in the dtype in which they lie in memory.  A thread takes
several neighbours at once, where they are one access; then those that all threads of the row are
farther on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from didyma.codegen.schedule import row_wide
from didyma.codegen.schedule.folds import copied, loaded
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, same, tail
from didyma.codegen.schedule.row_wide import Wide
from didyma.codegen.schedule.rows import (
    Pick,
    RowNest,
    kept_loads,
    picks,
    renamed,
    sure_loads,
    turns_of,
    written_out,
)
from didyma.codegen.schedule.team import Team
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    RANK,
    Allocate,
    AttrStmt,
    Barrier,
    Binary,
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
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.unfold import folded_into
from didyma.refimpl.ir.walk import map_expr, map_stmt, substitute

UNROLLED = 4  # turns of a loop that are written out, so that as many loads are on their way


@dataclass(frozen=True, slots=True)
class Threads:
    """``lanes`` threads for each row, ``groups`` rows in a block, ``wide`` neighbours at once.

    With ``across``, neighbouring threads have neighbouring rows, else elements of one.  Each of the
    ``blocks`` of a cluster has such threads for the same rows.
    """

    groups: int
    lanes: int
    wide: int
    across: bool = False
    blocks: int = 1


def scheduled(
    facts: NestFacts,
    rows: RowNest,
    threads: Threads,
    loads: Mapping[Load, Sequence[int]] | None,
    name: str = "rows",
) -> PrimFunc:
    """Schedule threads for rows.

    They hold their elements of a row, as far as registers do, of the ``loads`` of its stages; with
    None each stage loads them again, in a loop.
    """
    groups, lanes, width = threads.groups, threads.lanes, threads.wide
    fresh = facts.names.fresh
    block, group, lane, row = (Var(fresh(n)) for n in ("bx", "group", "lane", "row"))
    count = rows.nest.numel
    exists = tail(row, count, groups)
    rank = Var(fresh("rank")) if threads.blocks > 1 else None
    team = Team(facts, group, lane, groups, lanes, threads.across, threads.blocks, rank)
    turns = None if loads is None else turns_of(facts, rows, team.threads, width)
    wide = row_wide.of(facts, rows, width)
    edges = 0 if wide.edges is None else -(-wide.edges.most // team.threads)
    held = (turns or 0) * width + edges
    kept = {
        x: Buffer(fresh(f"{x.buffer}_row"), x.dtype, (held,), Scope.LOCAL)
        for x in (() if loads is None else kept_loads(facts, rows, team.threads, width, loads))
    }
    stages = _Stages(team, rows, wide, turns, edges, kept)
    body = stages.write(rows.stages, exists)
    for x in rows.values:
        body = Allocate(Buffer(x.name, x.dtype, (held,), Scope.LOCAL), body)
    if rank is not None:  # every block has begun before another gives it something
        body = Block((Barrier(Scope.CLUSTER), *_items(body)))
    if kept:
        fill = stages.over(partial(_filled, kept), exists, at_once=True)
        body = Block((fill, *_items(body)))
        for b in reversed(kept.values()):
            body = Allocate(b, body)
    body = let_all({} if wide.edges is None else wide.edges.lets, body)
    # A thread beyond the last row sees that row's scalars, and none of its elements.
    at = Var(fresh("at")) if exists else row
    last = Binary("min", row, ix.sub(count, ix.ONE))
    index = dict(zip(rows.nest.index, ix.unflatten(at, rows.nest.extents), strict=True))
    body = let_all({**({at: last} if exists else {}), **index}, body)
    body = Let(row, ix.add(ix.mul(block, ix.index(groups)), group), body)
    axes = [(lane, lanes), (group, groups)]
    for axis, (v, n) in zip("xy", axes[::-1] if team.across else axes, strict=True):
        body = bound(v, ix.index(n), f"threadIdx.{axis}", body)
    for t in (t for t in reversed(stages.tiles) if t.scope is Scope.SHARED):
        body = Allocate(t, body)
    if rank is not None:
        body = bound(rank, ix.index(threads.blocks), RANK, body)
    for t in (t for t in reversed(stages.tiles) if t.scope is Scope.CLUSTER):
        body = Allocate(t, body)
    body = bound(block, ix.ceildiv(count, ix.index(groups)), "blockIdx.x", body)
    return facts.kernel(body, name, stages.wide.buffers)


@dataclass(slots=True)
class _Stages:
    """Writes the stages of a row for one thread; ``tiles`` are the shared buffers they use.

    A thread takes elements of a row in ``turns``, one after another; None if their number is not
    fixed.  Then it takes those at the edges of the row one by one, in ``edges`` turns.  ``kept``
    are registers for what loads give.
    """

    team: Team
    rows: RowNest
    wide: Wide
    turns: int | None
    edges: int
    kept: dict[Load, Buffer]
    tiles: list[Buffer] = field(default_factory=list[Buffer])

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
                return self._fold(fold, stages[1:], exists)

    def _fold(self, s: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        fresh = self.facts.names.fresh
        mine = [Buffer(fresh(f"{a.var.name}_part"), a.var.dtype, (), Scope.LOCAL) for a in s.accs]
        step = substitute(folded_into(s, loaded(mine), self.facts.names), renamed(s, self.rows))
        met = self.team.meet(s, mine)
        self.tiles += met.tiles
        rest = self.write(later, exists)
        for a, x in reversed(list(zip(s.accs, met.results, strict=True))):
            rest = Let(a.var, x, rest)
        starts = [Store(b.name, (), a.start) for a, b in zip(s.accs, mine, strict=True)]
        terms = self.over(partial(self._held, self.kept, self._leaving(step, len(later))), exists)
        body: Stmt = Block((*starts, terms, *met.statements, rest))
        for b in reversed(mine):
            body = Allocate(b, body)
        return body

    def _leaving(self, step: Stmt, later: int) -> Stmt:
        """Return a stage, ``later`` stages and lets before the last, with the values it leaves."""
        done = self.rows.stages[: len(self.rows.stages) - later - 1]
        stage = sum(isinstance(s, Fold) for s in done)
        values = [Store(x.name, (), x.value) for x in self.rows.values if x.first == stage]
        return Block((*values, step)) if values else step

    def _end(self, exists: list[Expr]) -> Stmt:
        each, once, group = self.rows.each, self.rows.once, self.team.group
        last = (
            []
            if each is None
            else [self.over(partial(self._held, self.kept, each), exists, at_once=True)]
        )
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
            first = [ix.compare("eq", self.team.place, ix.ZERO), *exists]
            body = once[0] if len(once) == 1 else Block(once)
            last.append(guarded(first, self.wide.flat(_with(body, table.get))))
        return last[0] if len(last) == 1 else Block(tuple(last))

    def _picked(self, pick: Pick, tile: str, position: Expr) -> Stmt:
        """Return the statement by which the thread that has an element shares it.

        Of several blocks, the first gets it.
        """
        b = self.kept[pick.kept]
        here = ix.compare("eq", self.rows.axes[0], pick.place)
        at = (self.team.group,) if self.team.rank is None else (ix.ZERO, self.team.group)
        return If(here, Store(tile, at, Load(b.name, (position,), b.dtype)))

    def over(
        self, inside: Callable[[Expr], Stmt], conds: list[Expr], *, at_once: bool = False
    ) -> Stmt:
        """Return the loop over a thread's elements; ``inside`` gets the place of one among them.

        With ``at_once`` neighbours may be done at once: each stores elements of its own.
        """
        fresh, wide, team = self.facts.names.fresh, self.wide, self.team
        turn, unit = Var(fresh("turn")), Var(fresh("k"))
        new = [Var(fresh(v.name)) for v in self.rows.axes]
        part = new[-1] if wide.width == 1 else Var(fresh("part"))
        body = self._neighbours(inside, turn, part, new[-1], at_once=at_once)
        names = {v.name: n for v, n in zip(self.rows.axes, new, strict=True)}
        places = zip((*new[:-1], part), ix.unflatten(unit, wide.units), strict=True)
        body = let_all(dict(places), substitute(body, names))
        units = ix.mul(*wide.units)
        body = guarded([*conds, *tail(unit, units, team.threads)], body)
        body = Let(unit, ix.add(ix.mul(turn, ix.index(team.threads)), team.place), body)
        if self.turns is not None:
            loop: Stmt = For(turn, ix.index(self.turns), body, LoopKind.UNROLLED)
        else:
            loop = For(turn, ix.ceildiv(wide.most, ix.index(team.threads)), body)
            loop = loop if wide.width == 1 else AttrStmt("unroll", UNROLLED, loop)
        return Block((self._at_edges(inside, conds), loop)) if self.edges else loop

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
            for x in sorted(set(loads), key=lambda x: x.buffer)
        }
        if not some:
            return loop(LoopKind.UNROLLED, one)
        fill = loop(LoopKind.VECTORIZED, lambda v: _filled(some, v))
        use = loop(LoopKind.UNROLLED, lambda v: self._held(some, one(v), v))
        body: Stmt = Block((fill, use))
        for b in reversed(some.values()):
            body = Allocate(b, body)
        return body

    def _held(self, some: Mapping[Load, Buffer], s: Stmt, place: Expr) -> Stmt:
        """Read local buffers in place of what they hold, and use values at the thread's place."""
        values = {x.name for x in self.rows.values}

        def held(load: Load) -> Load | None:
            if load.buffer in values and not load.index:
                return replace(load, index=(place,))
            b = some.get(written_out(self.facts, load))
            return None if b is None else Load(b.name, (place,), b.dtype)

        def left(b: Stmt) -> Stmt:
            if isinstance(b, Store) and b.buffer in values and not b.index:
                return replace(b, index=(place,))
            return map_stmt(b, same, left)

        return left(_with(s, held)) if values else _with(s, held)


def _filled(some: Mapping[Load, Buffer], place: Expr) -> Stmt:
    """Return the statement that loads what local buffers hold of an element."""
    stores = tuple(Store(b.name, (place,), x) for x, b in some.items())
    return stores[0] if len(stores) == 1 else Block(stores)


def _with(s: Stmt, new: Callable[[Load], Load | None]) -> Stmt:
    """Replace those loads for which there is a new one."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, (Var, Const)):
            return e
        found = new(e) if isinstance(e, Load) else None
        return map_expr(on_expr, e) if found is None else found

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def _items(s: Stmt) -> tuple[Stmt, ...]:
    return s.body if isinstance(s, Block) else (s,)
