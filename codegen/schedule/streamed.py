"""Schedule rows for blocks that stay: while a thread computes, its elements of the next row come.

Each thread copies its elements of the next row from device to shared memory, and waits for them
when it has done a row, so that no other thread need wait for them.  A block that has a
multiprocessor nearly to itself keeps memory busy by that while it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from didyma.codegen.schedule import prefetch, row_wide, rows, sweep
from didyma.codegen.schedule.nest import NestFacts, bound, let_all, tail
from didyma.codegen.schedule.online import OnePass
from didyma.codegen.schedule.paired import Paired
from didyma.codegen.schedule.row_kernel import Threads, of_row
from didyma.codegen.schedule.row_stages import Stages, filled
from didyma.codegen.schedule.rows import RowNest
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
    For,
    Let,
    Load,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import substitute_expr


def copied(facts: NestFacts, nest: RowNest, kept: Sequence[Load], width: int) -> tuple[Load, ...]:
    """Return the loads that threads keep and rows do not share, if all are whole accesses."""
    names = {v.name for v in nest.nest.index}
    wide = row_wide.of(facts, nest, width)
    found = tuple(x for x in kept if not sweep.same_in_rows(nest, x))
    whole = all(
        prefetch.varies(x, names) and x.dtype.nbytes * width >= 4 and (width == 1 or wide.has(x))
        for x in found
    )
    return found if whole else ()


def scheduled(
    facts: NestFacts,
    nest: RowNest,
    threads: Threads,
    count: int,
    loads: Mapping[Load, Sequence[int]],
    once: OnePass | None = None,
) -> PrimFunc:
    """Schedule ``count`` blocks of threads, or clusters of blocks, which take rows in turn.

    Threads keep their elements of a row, of the ``loads`` of its stages, as far as registers do.
    The blocks of a cluster share a row, of which two folds are done in one pass.
    """
    fresh, width = facts.names.fresh, threads.wide
    group, lane, turn = (Var(fresh(n)) for n in ("group", "lane", "turn"))
    rank = Var(fresh("rank")) if threads.blocks > 1 else None
    team = Team(facts, group, lane, threads.groups, threads.lanes, blocks=threads.blocks, rank=rank)
    turns = rows.turns_of(facts, nest, team.threads, width) or 0
    held = rows.kept_loads(facts, nest, team.threads, width, loads)
    kept = {
        x: Buffer(fresh(f"{x.buffer}_row"), x.dtype, (turns * width,), Scope.LOCAL) for x in held
    }
    size = turns * width * threads.groups * threads.lanes
    tiles = {
        x: Buffer(fresh(f"{x.buffer}_next"), x.dtype, (size,), Scope.SHARED)
        for x in copied(facts, nest, held, width)
    }
    wide = row_wide.of(facts, nest, width)
    if once is None:
        stages = Stages(team, nest, wide, turns, 0, kept)
    else:
        stages = Paired(team, nest, wide, turns, 0, kept, once, now=ix.mod(turn, ix.index(2)))
    return _Streamed(stages, count, tiles, turn).kernel()


@dataclass(frozen=True, slots=True)
class _Streamed:
    """Writes the kernel: ``tiles`` are shared memory to which rows are copied before their turn.

    Each thread has places of its own there.  Each of ``count`` blocks, or clusters of blocks, has
    rows of its own, one in each ``turn``.
    """

    stages: Stages
    count: int
    tiles: Mapping[Load, Buffer]
    turn: Var

    def kernel(self) -> PrimFunc:
        stages, team = self.stages, self.stages.team
        block = Var(team.facts.names.fresh("bx"))
        known = {x: b for x, b in stages.kept.items() if sweep.same_in_rows(stages.rows, x)}
        first = [stages.over(partial(filled, known), [], at_once=True)] if known else []
        at = ix.add(ix.mul(block, ix.index(team.groups)), team.group)
        count = stages.rows.nest.numel
        last = ix.sub(count, ix.ONE)
        known_some = isinstance(count, Const) and count.value > 0
        some = [] if known_some else [ix.compare("lt", ix.ZERO, count)]
        begun = self._copies(Binary("min", at, last), some)  # a row that is computed in vain, too
        met = [] if team.rank is None else [Barrier(Scope.CLUSTER)]  # all blocks have begun
        body: Stmt = Block((*first, begun, *met, self._rows(block, known)))
        for b in known.values():
            body = Allocate(b, body)
        body = bound(team.lane, ix.index(team.lanes), "threadIdx.x", body)
        body = bound(team.group, ix.index(team.groups), "threadIdx.y", body)
        across = [t for t in stages.tiles if t.scope is Scope.CLUSTER]
        for t in (*(t for t in stages.tiles if t not in across), *self.tiles.values()):
            body = Allocate(t, body)
        if team.rank is not None:
            body = bound(team.rank, ix.index(team.blocks), RANK, body)
        for t in across:
            body = Allocate(t, body)
        body = bound(block, ix.index(self.count), "blockIdx.x", body)
        return team.facts.kernel(body, "rows_streamed", stages.wide.buffers)

    def _rows(self, block: Var, known: Mapping[Load, Buffer]) -> Stmt:
        """Return the loop over the rows of a thread."""
        stages, team, count = self.stages, self.stages.team, self.stages.rows.nest.numel
        turn, row = self.turn, Var(team.facts.names.fresh("row"))
        share = self.count * team.groups
        more = ix.compare("lt", ix.add(row, ix.index(share)), count)
        hint = self._copies(ix.add(row, ix.index(share)), [more])
        body = of_row(stages, row, tail(row, count, share), known, [hint], self._next)
        if stages.filled == 1:  # no thread is a row ahead of one that still reads
            body = Block((body, Barrier()))
        at = ix.add(ix.mul(turn, ix.index(self.count)), block)
        body = Let(row, ix.add(ix.mul(at, ix.index(team.groups)), team.group), body)
        return For(turn, ix.ceildiv(count, ix.index(share)), body)

    def _next(self, load: Load, position: Expr) -> Load:
        """Return the load of what has been copied for the element at a thread's position."""
        match position:
            case Binary("add", Binary("mul", turn), v) if self.stages.wide.width > 1:
                return self._at(load, turn, v)
            case _:
                return self._at(load, position, None)

    def _at(self, load: Load, turn: Expr, v: Expr | None) -> Load:
        """Return the load of neighbour ``v`` of those that a thread takes in a turn."""
        team, width = self.stages.team, ix.index(self.stages.wide.width)
        unit = ix.add(ix.mul(turn, ix.index(team.groups)), team.group)
        unit = ix.add(ix.mul(unit, ix.index(team.lanes)), team.lane)
        at = unit if v is None else ix.add(ix.mul(unit, width), v)
        return Load(self.tiles[load].name, (at,), load.dtype)

    def _copies(self, row: Expr, conditions: list[Expr]) -> Stmt:
        """Return the statement by which a thread begins to copy its elements of a row."""
        stages, fresh = self.stages, self.stages.facts.names.fresh
        nest, later = stages.rows.nest, Var(fresh("later"))
        index = [Var(fresh(v.name)) for v in nest.index]
        table: dict[str, Expr] = {v.name: n for v, n in zip(nest.index, index, strict=True)}

        def of(position: Expr) -> Stmt:
            pairs = [(self._next(x, position), substitute_expr(x, table)) for x in self.tiles]
            return Block(tuple(Store(to.buffer, to.index, x) for to, x in pairs))

        body = stages.over(of, conditions, at_once=True)
        body = AttrStmt("copies", "begin", body)
        places = dict(zip(index, ix.unflatten(later, nest.extents), strict=True))
        return Let(later, row, let_all(places, body))
