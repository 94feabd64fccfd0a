"""Schedule few long rows that are folded in one pass: blocks share a row, in two kernels.

In the first kernel each block folds its part of a row, and leaves what that comes to in memory that
both kernels know.  In the second each block joins the parts of its row in their order, and computes
the results of its own part, which it reads again: from the last row on, so that it begins with what
caches still hold.  No block waits for another, and a result is the same at every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import row_wide, split
from didyma.codegen.schedule.folds import allocated, loaded, started
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, scan
from didyma.codegen.schedule.online import Online
from didyma.codegen.schedule.row_stages import OnePass, Stages
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.team import Met, Team
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    AttrStmt,
    Block,
    Buffer,
    Cast,
    Expr,
    Fold,
    If,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """``parts`` blocks for each row, of ``lanes`` threads that take ``wide`` neighbours at once.

    A thread takes elements of ``turns`` turns before it corrects its part of the second fold.
    """

    lanes: int
    wide: int
    turns: int
    parts: int


def scheduled(
    facts: NestFacts, rows: RowNest, once: OnePass, shape: Shape
) -> tuple[PrimFunc, PrimFunc]:
    """Return the kernel that folds parts of rows, and the one that computes their results."""
    func, folds = facts.func, (rows.stages[once.online.first], rows.stages[once.online.second])
    accs = [a for s in folds if isinstance(s, Fold) for a in s.accs]
    names = (facts.names.fresh(f"{a.var.name}_parts") for a in accs)
    sizes = split.sizes(facts, rows.nest.extents)
    left = tuple(
        Buffer(n, a.var.dtype, (*sizes, shape.parts)) for n, a in zip(names, accs, strict=True)
    )
    facts.func = replace(func, params=(*func.params, *left), outputs=(*func.outputs, *_names(left)))
    facts.buffers = {b.name: b for b in facts.func.params}
    return _kernel(facts, rows, once, shape, _Folding, left), _kernel(
        facts, rows, once, shape, _Joining, left
    )


def _names(buffers: Sequence[Buffer]) -> tuple[str, ...]:
    return tuple(b.name for b in buffers)


@dataclass(frozen=True, slots=True)
class _Part(Team):
    """The threads of all blocks that share a row: those of one meet without the others."""

    def meet(self, fold: Fold, mine: Sequence[Buffer]) -> Met:
        return self.in_block(fold, mine)


@dataclass(slots=True)
class _Folding(Stages):
    """Writes stages up to the two folds, whose parts it leaves in a block's place of ``left``."""

    left: tuple[Buffer, ...] = ()

    def write(self, stages: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        assert self.once is not None
        if len(self.rows.stages) - len(stages) <= self.once.online.second:
            return Stages.write(self, stages, exists)
        assert self.team.rank is not None
        found = [v for n in (self.once.online.first, self.once.online.second) for v in self._of(n)]
        at = (*self.rows.nest.index, self.team.rank)
        stores = tuple(Store(b.name, at, v) for b, v in zip(self.left, found, strict=True))
        return guarded([ix.compare("eq", self.team.lane, ix.ZERO)], Block(stores))

    def centre(self, o: Online, first: Fold) -> Expr:
        """Return the shift of the block's own part, which it has no more of the row to know."""
        assert self.team.rank is not None
        (acc,) = first.accs
        return o.shifted(acc.var, Cast(_count(self, self.team.rank), acc.var.dtype))

    def _of(self, stage: int) -> list[Var]:
        fold = self.rows.stages[stage]
        return [a.var for a in fold.accs] if isinstance(fold, Fold) else []


@dataclass(slots=True)
class _Joining(Stages):
    """Writes stages of which the two folds join the parts in ``left``, one of each thread."""

    left: tuple[Buffer, ...] = ()

    def both(self, once: OnePass, a: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        o, lane = once.online, self.team.lane
        *lets, b = later[: o.second - o.first]
        assert isinstance(b, Fold)
        first, second = self.mine(a), self.mine(b)
        (x,), (y,) = loaded(first), loaded(second)
        old, total = (Load(t.name, (*self.rows.nest.index, lane), t.dtype) for t in self.left)
        count = Cast(_count(self, lane), x.dtype)
        shift = o.shifted(old, count)
        some = ix.compare("lt", lane, ix.index(self.team.blocks))

        def rest() -> Stmt:
            return self.write(later[o.second - o.first :], exists)

        def joined() -> Stmt:
            again = If(some, Store(y.buffer, (), o.corrected(total, count, shift, o.asked)))
            body = self.met(b, second, lambda: again, rest, started(b, second))
            for s in reversed(lets):
                assert isinstance(s, Let)
                body = Let(s.var, self.wide.flat_expr(s.value), body)
            return body

        take = If(some, Store(x.buffer, (), old))
        return allocated(
            (*first, *second), self.met(a, first, lambda: take, joined, started(a, first))
        )

    def results(self, each: Stmt, exists: list[Expr]) -> list[Stmt]:
        return [AttrStmt("cache", "pass", s) for s in Stages.results(self, each, exists)]


def _count(stages: Stages, part: Expr) -> Expr:
    """Return how many elements of a row a part has; the first one has those at the edges."""
    wide, lanes = stages.wide, ix.index(stages.team.lanes)
    units, threads = ix.mul(*wide.units), ix.index(stages.team.threads)
    rest = ix.maximum(ix.ZERO, ix.sub(ix.mod(units, threads), ix.mul(part, lanes)))
    own = ix.add(ix.mul(ix.floordiv(units, threads), lanes), ix.minimum(rest, lanes))
    found = ix.mul(own, ix.index(wide.width))
    if wide.edges is None:
        return found
    edges = wide.edges.count(stages.rows.length, wide.width)
    return ix.add(found, ix.select(ix.compare("eq", part, ix.ZERO), edges, ix.ZERO))


def _kernel(
    facts: NestFacts,
    rows: RowNest,
    once: OnePass,
    shape: Shape,
    of: type[_Folding] | type[_Joining],
    left: tuple[Buffer, ...],
) -> PrimFunc:
    fresh, nest = facts.names.fresh, rows.nest
    block, part, row, group, lane = (Var(fresh(n)) for n in ("bx", "part", "row", "group", "lane"))
    team = _Part(facts, group, lane, 1, shape.lanes, blocks=shape.parts, rank=part)
    wide = row_wide.of(facts, rows, shape.wide)
    edges = 0 if wide.edges is None else -(-wide.edges.most // team.threads)
    stages = of(team, rows, wide, None, edges, {}, once, left=left)
    body = let_all({} if wide.edges is None else wide.edges.lets, stages.write(rows.stages, []))
    body = let_all(dict(zip(nest.index, ix.unflatten(row, nest.extents), strict=True)), body)
    split_, count = ix.index(shape.parts), ix.mul(nest.numel, ix.index(shape.parts))
    number: Expr = block if of is _Folding else ix.sub(ix.sub(count, ix.ONE), block)
    body = let_all({row: ix.floordiv(number, split_), part: ix.mod(number, split_)}, body)
    body = bound(lane, ix.index(shape.lanes), "threadIdx.x", body)
    body = bound(group, ix.ONE, "threadIdx.y", body)
    for t in reversed(stages.tiles):
        body = Allocate(t, body)
    body = bound(block, count, "blockIdx.x", body)
    statements, inside = scan(body)  # which touch the parts, too
    known = replace(facts, statements=tuple(statements), inside=tuple(inside))
    return known.kernel(body, "rows_parted", wide.buffers)
