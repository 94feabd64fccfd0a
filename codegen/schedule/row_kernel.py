"""A kernel of rows: its blocks and threads, what they keep and share, and its stages inside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.schedule import prefetch, row_wide
from didyma.codegen.schedule.beside import Beside
from didyma.codegen.schedule.nest import NestFacts, bound, let_all, tail
from didyma.codegen.schedule.online import OnePass, Online, shelvable
from didyma.codegen.schedule.row_stages import Stages, filled
from didyma.codegen.schedule.rows import (
    RowNest,
    kept_loads,
    turns_of,
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
    Expr,
    Let,
    Load,
    PrimFunc,
    Scope,
    Stmt,
    Var,
)
from didyma.refimpl.ir.walk import items


@dataclass(frozen=True, slots=True)
class Threads:
    """``lanes`` threads for each row, ``groups`` rows in a block, ``wide`` neighbours at once.

    With ``across``, neighbouring threads have neighbouring rows, else elements of one.  Each of the
    ``blocks`` of a cluster has such threads for the same rows.  Unless 0, ``ahead`` is after how
    many rows comes that of which threads say that it will be loaded, once they have loaded theirs:
    all of it, or, unless 0, so many ``lines`` of memory for each thread.
    A thread has ``each`` rows side by side, which are one of the ``groups``.
    """

    groups: int
    lanes: int
    wide: int
    across: bool = False
    blocks: int = 1
    ahead: int = 0
    each: int = 1
    lines: int = 0


def scheduled(
    facts: NestFacts,
    rows: RowNest,
    threads: Threads,
    loads: Mapping[Load, Sequence[int]] | None,
    name: str = "rows",
    once: OnePass | None = None,
    *,
    back: bool = False,
    shelved: int = 0,
    passing: bool = False,
    again: Online | None = None,
) -> PrimFunc:
    """Schedule threads for rows.

    They hold their elements of a row, as far as registers do, of the ``loads`` of its stages; with
    None each stage loads them again, in a loop, but for the second fold of ``once``; with ``back``
    every second one does so from the end.  Of a row that is folded in one pass, what is loaded in
    the first ``shelved`` turns stays in shared memory; with ``passing`` caches lose first what is
    touched for the last time.
    """
    groups, lanes, width = threads.groups, threads.lanes, threads.wide
    fresh = facts.names.fresh
    block, group, lane, row = (Var(fresh(n)) for n in ("bx", "group", "lane", "row"))
    beside = Beside.of(facts, rows, threads.each)
    count = beside.nest.numel
    exists = tail(row, count, groups)
    rank = Var(fresh("rank")) if threads.blocks > 1 else None
    team = Team(facts, group, lane, groups, lanes, threads.across, threads.blocks, rank)
    turns = None if loads is None else turns_of(facts, rows, team.threads, width)
    wide = row_wide.of(facts, rows, width)
    edges = 0 if wide.edges is None else -(-wide.edges.most // team.threads)
    kept = {
        x: Buffer(fresh(f"{x.buffer}_row"), x.dtype, ((turns or 0) * width + edges,), Scope.LOCAL)
        for x in (() if loads is None else kept_loads(facts, rows, team.threads, width, loads))
    }
    shelf = {
        x: Buffer(
            fresh(f"{x.buffer}_shelf"), x.dtype, (shelved * groups * lanes * width,), Scope.SHARED
        )
        for x in (shelvable(facts, rows, wide, once.online) if shelved and once else ())
    }
    stages = Stages(
        team, rows, wide, turns, edges, kept, once,
        back=back, shelf=shelf, shelved=shelved, passing=passing, again=again,
    )  # fmt: skip
    stages.tiles += shelf.values()
    hint: Sequence[Stmt] = ()
    if threads.ahead:
        announced = loads if loads is not None else shelf
        later = ix.add(row, ix.index(threads.ahead))
        hint = prefetch.of_row(stages, later, announced, threads.lines)
    if loads is None:
        stages.hint, hint = hint, ()
    body = of_row(stages, row, exists, hint=hint, beside=beside)
    body = Let(row, ix.add(ix.mul(block, ix.index(groups)), group), body)
    body, tiles = beside.each(body, stages.tiles)
    axes = [(lane, lanes), (group, groups)]
    for axis, (v, n) in zip("xy", axes[::-1] if team.across else axes, strict=True):
        body = bound(v, ix.index(n), f"threadIdx.{axis}", body)
    for t in (t for t in reversed(tiles) if t.scope is Scope.SHARED):
        body = Allocate(t, body)
    if rank is not None:
        body = bound(rank, ix.index(threads.blocks), RANK, body)
    for t in (t for t in reversed(tiles) if t.scope is Scope.CLUSTER):
        body = Allocate(t, body)
    body = bound(block, ix.ceildiv(count, ix.index(groups)), "blockIdx.x", body)
    return facts.kernel(body, name, stages.wide.buffers | beside.buffers)


def of_row(
    stages: Stages,
    row: Var,
    exists: list[Expr],
    known: Collection[Load] = (),
    hint: Sequence[Stmt] = (),
    copied: Callable[[Load, Expr], Load] | None = None,
    beside: Beside | None = None,
) -> Stmt:
    """Return what a thread does of a row, which ``exists`` where these conditions hold.

    The thread has what it keeps of the ``known`` loads from another row.  The ``hint`` comes after
    its loads.  With ``copied`` these are what it tells of each at a position, for rows beyond the
    last one, too.  Of rows ``beside`` each other, that is what it does of one, by their group.
    """
    rows, wide = stages.rows, stages.wide
    held = (stages.turns or 0) * wide.width + stages.edges
    if copied is not None:
        stages.ends = tuple(exists)
    computed = exists if copied is None else []
    body = stages.write(rows.stages, computed)
    for x in rows.values:
        body = Allocate(Buffer(x.name, x.dtype, (held,), Scope.LOCAL), body)
    if stages.team.rank is not None and copied is None:  # all have begun before one gives another
        body = Block((Barrier(Scope.CLUSTER), *items(body)))
    if new := {x: b for x, b in stages.kept.items() if x not in known}:

        def here(place: Expr) -> Stmt:
            return filled({copied(x, place) if copied else x: b for x, b in new.items()}, place)

        fill = stages.over(here, computed, at_once=True)
        fill = fill if copied is None else AttrStmt("copies", "end", fill)
        body = Block((fill, *hint, *items(body)))
        for b in reversed(new.values()):
            body = Allocate(b, body)
    body = let_all({} if wide.edges is None else wide.edges.lets, body)
    # A thread beyond the last row sees that row's scalars, and none of its elements.
    at = Var(stages.facts.names.fresh("at")) if exists else row
    beside = beside or Beside.of(stages.facts, rows, 1)
    nest = beside.nest
    last = Binary("min", row, ix.sub(nest.numel, ix.ONE))
    index = dict(zip(nest.index, ix.unflatten(at, nest.extents), strict=True))
    return let_all({**({at: last} if exists else {}), **index, **beside.lets}, body)
