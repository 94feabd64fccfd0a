"""Schedule rows for blocks that stay: while a thread computes, its elements of the next row come.

Each thread copies its elements of the next row from device to shared memory, and waits for them
when it has done a row, so that no other thread need wait for them.  A block that has a
multiprocessor nearly to itself keeps memory busy by that while it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from didyma.codegen.schedule import prefetch, row_wide, rows, sweep
from didyma.codegen.schedule.nest import NestFacts, bound, let_all, tail
from didyma.codegen.schedule.row_kernel import Threads, of_row
from didyma.codegen.schedule.row_stages import OnePass, Stages, filled
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import Team
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    AttrStmt,
    Barrier,
    Block,
    Buffer,
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
    """Return those of the loads that threads keep that are of each row, and of whole accesses."""
    names = {v.name for v in nest.nest.index}
    wide = row_wide.of(facts, nest, width)
    return tuple(
        x
        for x in kept
        if prefetch.varies(x, names) and x.dtype.nbytes * width >= 4 and (width == 1 or wide.has(x))
    )


def scheduled(
    facts: NestFacts,
    nest: RowNest,
    threads: Threads,
    blocks: int,
    loads: Mapping[Load, Sequence[int]],
    once: OnePass | None = None,
) -> PrimFunc:
    """Schedule ``blocks`` blocks of threads, which take rows in turn.

    Threads keep their elements of a row, of the ``loads`` of its stages, as far as registers do.
    """
    fresh, width = facts.names.fresh, threads.wide
    group, lane = (Var(fresh(n)) for n in ("group", "lane"))
    team = Team(facts, group, lane, threads.groups, threads.lanes)
    turns = rows.turns_of(facts, nest, threads.lanes, width) or 0
    held = rows.kept_loads(facts, nest, threads.lanes, width, loads)
    kept = {
        x: Buffer(fresh(f"{x.buffer}_row"), x.dtype, (turns * width,), Scope.LOCAL) for x in held
    }
    extents = tuple(facts.largest(e) for e in nest.extents)
    tiles = {
        x: Buffer(fresh(f"{x.buffer}_next"), x.dtype, (threads.groups, *extents), Scope.SHARED)
        for x in copied(facts, nest, held, width)
    }
    own = replace(facts, buffers=facts.buffers | {t.name: t for t in tiles.values()})
    wide = row_wide.of(own, nest, width)
    if width > 1:
        wide = replace(wide, buffers=wide.buffers | {t.name for t in tiles.values()})
    stages = Stages(replace(team, facts=own), nest, wide, turns, 0, kept, once)
    return _Streamed(facts, stages, blocks, tiles).kernel()


@dataclass(frozen=True, slots=True)
class _Streamed:
    """Writes the kernel: ``tiles`` are shared memory to which rows are copied before their turn."""

    facts: NestFacts
    stages: Stages
    blocks: int
    tiles: Mapping[Load, Buffer]

    def kernel(self) -> PrimFunc:
        stages, team = self.stages, self.stages.team
        block = Var(team.facts.names.fresh("bx"))
        known = {x: b for x, b in stages.kept.items() if sweep.same_in_rows(stages.rows, x)}
        first = [stages.over(partial(filled, known), [], at_once=True)] if known else []
        at = ix.add(ix.mul(block, ix.index(team.groups)), team.group)
        body: Stmt = Block((*first, self._copies(at), self._rows(block, known)))
        for b in known.values():
            body = Allocate(b, body)
        body = bound(team.lane, ix.index(team.lanes), "threadIdx.x", body)
        body = bound(team.group, ix.index(team.groups), "threadIdx.y", body)
        flat = stages.wide.buffers
        for t in (*stages.tiles, *self.tiles.values()):
            body = Allocate(replace(t, shape=(dims.mul(*t.shape),)) if t.name in flat else t, body)
        body = bound(block, ix.index(self.blocks), "blockIdx.x", body)
        return self.facts.kernel(body, "rows_streamed", flat)

    def _rows(self, block: Var, known: Mapping[Load, Buffer]) -> Stmt:
        """Return the loop over the rows of a thread."""
        stages, team, count = self.stages, self.stages.team, self.stages.rows.nest.numel
        turn, row = (Var(team.facts.names.fresh(n)) for n in ("turn", "row"))
        share = self.blocks * team.groups
        near = {x: self._in(t, x) for x, t in self.tiles.items()}
        hint = self._copies(ix.add(row, ix.index(share)))
        body = of_row(stages, row, tail(row, count, share), known, [hint], near)
        if stages.filled == 1:  # no thread is a row ahead of one that still reads
            body = Block((body, Barrier()))
        at = ix.add(ix.mul(turn, ix.index(self.blocks)), block)
        body = Let(row, ix.add(ix.mul(at, ix.index(team.groups)), team.group), body)
        return For(turn, ix.ceildiv(count, ix.index(share)), body)

    def _in(self, tile: Buffer, load: Load) -> Load:
        """Return the load of an element of a row that has been copied."""
        return Load(tile.name, (self.stages.team.group, *self.stages.rows.axes), load.dtype)

    def _copies(self, row: Expr) -> Stmt:
        """Return the statement by which a thread begins to copy its elements of a row."""
        stages, fresh = self.stages, self.stages.facts.names.fresh
        nest, later = stages.rows.nest, Var(fresh("later"))
        index = [Var(fresh(v.name)) for v in nest.index]
        table: dict[str, Expr] = {v.name: n for v, n in zip(nest.index, index, strict=True)}

        def of(_: Expr) -> Stmt:
            return Block(
                tuple(
                    Store(t.name, self._in(t, x).index, substitute_expr(x, table))
                    for x, t in self.tiles.items()
                )
            )

        body = stages.over(of, [ix.compare("lt", later, nest.numel)], at_once=True)
        body = AttrStmt("copies", "begin", body)
        places = dict(zip(index, ix.unflatten(later, nest.extents), strict=True))
        return Let(later, row, let_all(places, body))
