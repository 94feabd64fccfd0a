"""Schedule few long rows that are folded in one pass: blocks share a row, in two kernels.

In the first kernel each block folds its part of a row, and leaves the result in memory that both
kernels know.  In the second each block joins the parts of its row in their order, and computes
the results of its own part, which it reads again: from the last row on, so that it begins with what
caches still hold.  Of rows that are only folded, one block joins the parts.  Of neighbouring rows
that lie together in memory a block has several.  No block waits for another, and a result is the
same at every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from didyma.codegen.schedule import row_wide, split
from didyma.codegen.schedule.beside import Beside
from didyma.codegen.schedule.folds import allocated, loaded, merged, started
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, scan, tail
from didyma.codegen.schedule.online import OnePass, Online
from didyma.codegen.schedule.row_stages import Stages
from didyma.codegen.schedule.row_wide import Wide
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import Met, Team
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    AttrStmt,
    Binary,
    Block,
    Buffer,
    Cast,
    Expr,
    Fold,
    For,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """``parts`` blocks for each row, of ``lanes`` threads that take ``wide`` neighbours at once.

    A thread takes elements of ``turns`` turns before it corrects its part of the second fold.  Rows
    that share a block lie side by side in memory: ``groups`` times ``each``, which a thread has.
    """

    lanes: int
    wide: int
    turns: int
    parts: int
    groups: int = 1
    each: int = 1


def scheduled(
    facts: NestFacts, rows: RowNest, once: OnePass, shape: Shape
) -> tuple[PrimFunc, PrimFunc]:
    """Return the kernel that folds parts of rows, and the one that computes their results."""
    func, folds = facts.func, (rows.stages[once.online.first], rows.stages[once.online.second])
    accs = [a for s in folds if isinstance(s, Fold) for a in s.accs]
    names = (facts.names.fresh(f"{a.var.name}_parts") for a in accs)
    sizes = split.sizes(facts, rows.nest.extents)
    places = (shape.parts, *sizes) if shape.groups > 1 else (*sizes, shape.parts)
    left = tuple(Buffer(n, a.var.dtype, places) for n, a in zip(names, accs, strict=True))
    facts.func = replace(func, params=(*func.params, *left), outputs=(*func.outputs, *_names(left)))
    facts.buffers = {b.name: b for b in facts.func.params}
    return _folding(facts, rows, once, shape, left), _joining(facts, rows, once, shape, left)


def _names(buffers: Sequence[Buffer]) -> tuple[str, ...]:
    return tuple(b.name for b in buffers)


@dataclass(frozen=True, slots=True)
class _Part(Team):
    """The threads of all blocks that share a row: those of one meet without the others."""

    def meet(self, fold: Fold, mine: Sequence[Buffer]) -> Met:
        return self.in_block(fold, mine)


@dataclass(slots=True, kw_only=True)
class _Folding(Stages):
    """Writes stages up to the two folds, whose parts it leaves in a block's place of ``left``."""

    left: tuple[Buffer, ...]
    shape: Shape

    def write(self, stages: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        assert self.once is not None
        if len(self.rows.stages) - len(stages) <= self.once.online.second:
            return Stages.write(self, stages, exists)
        assert self.team.rank is not None
        found = [v for n in (self.once.online.first, self.once.online.second) for v in self._of(n)]
        at = _place(self, self.team.rank)
        stores = tuple(Store(b.name, at, v) for b, v in zip(self.left, found, strict=True))
        return guarded([ix.compare("eq", self.team.lane, ix.ZERO), *exists], Block(stores))

    def centre(self, o: Online, first: Fold) -> Expr:
        """Return the shift of the block's own part, which it has no more of the row to know."""
        assert self.team.rank is not None
        (acc,) = first.accs
        return o.shifted(acc.var, Cast(_count(self, self.team.rank), acc.var.dtype))

    def _of(self, stage: int) -> list[Var]:
        fold = self.rows.stages[stage]
        return [a.var for a in fold.accs] if isinstance(fold, Fold) else []


@dataclass(slots=True, kw_only=True)
class _Joining(Stages):
    """Writes stages of which the two folds join the parts in ``left``, shared by the threads."""

    left: tuple[Buffer, ...]
    shape: Shape

    def both(self, once: OnePass, a: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        o, lane, lanes, parts = once.online, self.team.lane, self.team.lanes, self.shape.parts
        *lets, b = later[: o.second - o.first]
        assert isinstance(b, Fold)
        first, second = self.mine(a), self.mine(b)
        (x,), (y,) = loaded(first), loaded(second)

        def take(fold: Fold, mine: Load, value: Callable[[Expr], Expr]) -> Stmt:
            """Return how a thread takes its parts: the first, with which it merges the others."""
            first = Store(mine.buffer, (), value(lane))
            if lanes > parts:
                return guarded([ix.compare("lt", lane, ix.index(parts))], first)
            if lanes == parts:
                return first
            turn = Var(self.facts.names.fresh("turn"))
            part = ix.add(ix.mul(ix.add(turn, ix.ONE), ix.index(lanes)), lane)
            more = merged(fold, (mine,), (value(part),), self.facts.names)
            return Block((first, For(turn, ix.index(parts // lanes - 1), more, LoopKind.UNROLLED)))

        def old(part: Expr) -> Load:
            return Load(self.left[0].name, _place(self, part), self.left[0].dtype)

        def corrected(part: Expr) -> Expr:
            total = Load(self.left[1].name, _place(self, part), self.left[1].dtype)
            count = Cast(_count(self, part), x.dtype)
            return o.corrected(total, count, o.shifted(old(part), count), o.asked)

        def rest() -> Stmt:
            return self.write(later[o.second - o.first :], exists)

        def joined() -> Stmt:
            body = self.met(b, second, partial(take, b, y, corrected), rest, started(b, second))
            for s in reversed(lets):
                assert isinstance(s, Let)
                body = Let(s.var, self.wide.flat_expr(s.value), body)
            return body

        body = self.met(a, first, partial(take, a, x, old), joined, started(a, first))
        return allocated((*first, *second), body)

    def results(self, each: Stmt, exists: list[Expr]) -> list[Stmt]:
        return [AttrStmt("cache", "pass", s) for s in Stages.results(self, each, exists)]


def _place(stages: _Folding | _Joining, part: Expr) -> tuple[Expr, ...]:
    """Return the place of a part of the stages' row: of neighbours together where they are read."""
    index = stages.rows.nest.index
    return (part, *index) if stages.shape.groups > 1 else (*index, part)


def _count(stages: _Folding | _Joining, part: Expr) -> Expr:
    """Return how many elements of a row a part has."""
    return count(stages.wide, stages.rows.length, stages.shape.lanes, stages.shape.parts, part)


def count(wide: Wide, length: Expr, lanes: int, parts: int, part: Expr) -> Expr:
    """Return how many elements of a row one of its parts has, of so many threads each.

    The first part has those at the edges.
    """
    own, threads = ix.index(lanes), ix.index(lanes * parts)
    units = ix.mul(*wide.units)
    rest = ix.maximum(ix.ZERO, ix.sub(ix.mod(units, threads), ix.mul(part, own)))
    taken = ix.add(ix.mul(ix.floordiv(units, threads), own), ix.minimum(rest, own))
    found = ix.mul(taken, ix.index(wide.width))
    if wide.edges is None:
        return found
    edges = wide.edges.count(length, wide.width)
    return ix.add(found, ix.select(ix.compare("eq", part, ix.ZERO), edges, ix.ZERO))


def _folding(
    facts: NestFacts, rows: RowNest, once: OnePass, shape: Shape, left: tuple[Buffer, ...]
) -> PrimFunc:
    team, block = _team(facts, shape, shape.lanes, shape.parts), Var(facts.names.fresh("bx"))
    stages = _Folding(team, rows, *_wide(team, rows, shape), {}, once, left=left, shape=shape)
    return _kernel(stages, block, lambda blocks: block)


def _joining(
    facts: NestFacts, rows: RowNest, once: OnePass, shape: Shape, left: tuple[Buffer, ...]
) -> PrimFunc:
    """Return the kernel that joins parts; one block is enough for what is stored once a row."""
    lanes, parts = shape.lanes, shape.parts
    if rows.each is None:
        lanes, parts = min(parts, facts.target.threads // shape.groups), 1
    team, block = _team(facts, shape, lanes, parts), Var(facts.names.fresh("bx"))
    stages = _Joining(team, rows, *_wide(team, rows, shape), {}, once, left=left, shape=shape)
    return _kernel(stages, block, lambda blocks: ix.sub(ix.sub(blocks, ix.ONE), block))


def _team(facts: NestFacts, shape: Shape, lanes: int, parts: int) -> _Part:
    """Return the threads of a block, and its number among those that share its rows."""
    group, lane, part = (Var(facts.names.fresh(n)) for n in ("group", "lane", "part"))
    across = shape.groups > 1
    return _Part(facts, group, lane, shape.groups, lanes, across, blocks=parts, rank=part)


def _wide(team: Team, rows: RowNest, shape: Shape) -> tuple[Wide, None, int]:
    """Return what threads take at once, that their turns are not fixed, and those at the edges."""
    wide = row_wide.of(team.facts, rows, shape.wide)
    return wide, None, 0 if wide.edges is None else -(-wide.edges.most // team.threads)


def _kernel(stages: _Folding | _Joining, block: Var, number: Callable[[Expr], Expr]) -> PrimFunc:
    """Return the kernel of blocks, of which each has a number: the parts of its rows in order."""
    facts, team, rows, wide = stages.facts, stages.team, stages.rows, stages.wide
    beside = Beside.of(facts, rows, stages.shape.each, stages.left)
    nest, part = beside.nest, team.rank
    row, count = Var(facts.names.fresh("row")), nest.numel
    assert part is not None
    exists = tail(row, count, team.groups)
    body = let_all({} if wide.edges is None else wide.edges.lets, stages.write(rows.stages, exists))
    # A thread beyond the last row sees that row's scalars, and none of its elements.
    at = Var(facts.names.fresh("at")) if exists else row
    last = Binary("min", row, ix.sub(count, ix.ONE))
    index = dict(zip(nest.index, ix.unflatten(at, nest.extents), strict=True))
    body = let_all({**({at: last} if exists else {}), **index, **beside.lets}, body)
    several, blocks = ix.index(team.blocks), ix.ceildiv(count, ix.index(team.groups))
    at_block = number(ix.mul(blocks, several))
    first = ix.mul(ix.floordiv(at_block, several), ix.index(team.groups))
    own = ix.add(first, team.group) if team.groups > 1 else first
    body = let_all({row: own, part: ix.mod(at_block, several)}, body)
    body, tiles = beside.each(body, stages.tiles)
    axes = [(team.lane, team.lanes), (team.group, team.groups)]
    for axis, (v, n) in zip("xy", axes[::-1] if team.across else axes, strict=True):
        body = bound(v, ix.index(n), f"threadIdx.{axis}", body)
    for t in reversed(tiles):
        body = Allocate(t, body)
    body = bound(block, ix.mul(blocks, several), "blockIdx.x", body)
    statements, inside = scan(body)  # which touch the parts, too
    known = replace(facts, statements=tuple(statements), inside=tuple(inside))
    return known.kernel(body, "rows_parted", wide.buffers | beside.buffers)
