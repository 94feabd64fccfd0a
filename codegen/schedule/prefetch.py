"""Say which rows will be loaded next, so that memory is busy while threads compute.

A block that has a multiprocessor nearly to itself loads its rows, and then computes while nothing
is on its way.  A hint for rows that a later block takes fetches them into the cache meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from didyma.codegen.schedule.nest import guarded
from didyma.codegen.schedule.row_stages import Stages
from didyma.codegen.schedule.rows import written_out
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import Block, Expr, For, Let, Load, LoopKind, Prefetch, Stmt, Var
from didyma.refimpl.ir.walk import subexprs, substitute_expr

LINE = 128  # bytes that a hint fetches


def of_row(stages: Stages, later: Expr, loads: Collection[Load], lines: int = 0) -> Sequence[Stmt]:
    """Return the statements by which the threads of a row announce the elements of a later one.

    Of the ``loads`` at one element of a row, those count that differ from row to row.  Unless 0,
    each thread announces so many ``lines`` of memory of each, from the beginning of the row on.
    """
    row, some = Var(stages.facts.names.fresh("later")), _of_rows(stages, loads)
    found = [_one(stages, x, row, lines) for x in sorted(some, key=lambda x: x.buffer)]
    if not found:
        return ()
    exists = ix.compare("lt", row, stages.rows.nest.numel)
    return (Let(row, later, guarded([exists], Block(tuple(found)))),)


def _one(stages: Stages, load: Load, row: Var, lines: int) -> Stmt:
    """Return the statement by which threads announce what a load gives of the elements of a row."""
    facts, rows, team = stages.facts, stages.rows, stages.team
    turn, place = Var(facts.names.fresh("turn")), Var(facts.names.fresh("place"))
    variables = (*rows.nest.index, *rows.axes)
    values = (*ix.unflatten(row, rows.nest.extents), *ix.unflatten(place, rows.extents))
    table = {v.name: e for v, e in zip(variables, values, strict=True)}
    index = tuple(substitute_expr(i, table) for i in written_out(facts, load).index)
    if load.buffer in stages.wide.buffers:
        index = (ix.flatten(index, facts.shape(load.buffer)),)
    step = max(1, LINE // load.dtype.nbytes)
    count = -(-facts.largest(rows.length) // (step * team.threads))
    count = min(count, lines) if lines else count
    at = ix.mul(ix.add(ix.mul(turn, ix.index(team.threads)), team.place), ix.index(step))
    body = guarded([ix.compare("lt", place, rows.length)], Prefetch(load.buffer, index))
    return For(turn, ix.index(count), Let(place, at, body), LoopKind.UNROLLED)


def _of_rows(stages: Stages, loads: Collection[Load]) -> Iterator[Load]:
    outer, axes = ({v.name for v in vs} for vs in (stages.rows.nest.index, stages.rows.axes))
    return (x for x in loads if varies(x, outer) and varies(x, axes))


def varies(load: Load, names: Collection[str]) -> bool:
    """Return whether the index of a load uses variables of these names."""
    return any(e.name in names for i in load.index for e in subexprs(i) if isinstance(e, Var))
