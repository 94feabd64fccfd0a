"""Rows whose two folds are done in one pass, and whose threads meet once for both.

The threads of a warp join what they have of both folds, then the warps of a block, and then the
blocks of a cluster, which tell each other both at once: a row costs one barrier of a block, and one
meeting of a cluster.  A part that has another shift than all, as its largest element, corrects its
second result first.  An exponential that its thread keeps is one of the distance from the largest
element which the thread has, and is corrected as its sum is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from didyma.codegen.schedule import parted
from didyma.codegen.schedule.folds import allocated, loaded, merged, started
from didyma.codegen.schedule.online import OnePass, Online
from didyma.codegen.schedule.row_stages import Stages
from didyma.codegen.schedule.rows import RowNest, renamed
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    AttrStmt,
    Barrier,
    Binary,
    Block,
    Buffer,
    Cast,
    Exchange,
    Expr,
    Fold,
    If,
    Intrinsic,
    Let,
    Load,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import map_expr, map_stmt, substitute


@dataclass(slots=True, kw_only=True)
class Paired(Stages):
    """Writes stages whose two folds the threads of a row join in one meeting.

    What they tell each other has two places, of which ``now`` is that of this row: nobody is two
    rows ahead.
    """

    now: Expr

    def both(self, once: OnePass, a: Fold, later: Sequence[Let | Fold], exists: list[Expr]) -> Stmt:
        """Return the statements of two folds in one pass, of lets between, and of the rest."""
        *lets, b = later[: once.online.second - once.online.first]
        assert isinstance(b, Fold)
        first, second = self.mine(a), self.mine(b)
        (x,), (y,) = loaded(first), loaded(second)
        shift = Buffer(self.facts.names.fresh("shift_part"), x.dtype, (), Scope.LOCAL)
        (own,) = loaded([shift])
        start = Store(shift.name, (), a.accs[0].start)
        loop = self._parts(once, (a, b), (x, y, own), exists)
        rest = self._rest(once, own, b.accs[0].var, later[len(lets) + 1 :], exists)
        pair = _Pair(self, once.online, (a, b), (x, y), tuple(lets), rest)
        self.filled += 2  # each place is used again when all have been at the other
        body = Block((*started(a, first), *started(b, second), start, loop, pair.of_threads(own)))
        return allocated((*first, *second, shift), body)

    def _rest(
        self, once: OnePass, own: Load, total: Var, later: Sequence[Let | Fold], exists: list[Expr]
    ) -> Stmt:
        """Return the rest, in which what a thread keeps is scaled to the shift of the row."""
        if once.terms is None or self.rows.each is None:
            return self.write(later, exists)
        factor, share = (Var(self.facts.names.fresh(n), total.dtype) for n in ("factor", "share"))
        each = _scaled(self.rows.each, once.terms, total, factor, share)
        self.rows = replace(self.rows, each=each)
        distance = Intrinsic(once.online.scale, (Binary("sub", own, once.online.asked),))
        rest = Let(share, Binary("div", factor, total), self.write(later, exists))
        return Let(factor, distance, rest)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two folds of which every thread has a part, and what follows once it has all of both.

    ``lets`` are those between the folds, of what the second asks of the first.
    """

    stages: Paired
    online: Online
    folds: tuple[Fold, Fold]
    mine: tuple[Load, Load]
    lets: tuple[Let | Fold, ...]
    rest: Stmt

    def of_threads(self, own: Load) -> Stmt:
        """Return how a thread that has a shift of its own joins what all threads have."""
        s, team = self.stages, self.stages.team
        warp = team.facts.target.warp
        if team.threads <= warp:
            return self._joined(own, s.count(), team.lanes, None, self.rest)
        return self._joined(own, s.count(), warp, self._count(warp, self._warp()), self._of_warps())

    def _warp(self) -> Expr:
        """Return the number of a thread's warp among those of all blocks."""
        warp = self.stages.facts.target.warp
        return Binary("shr", self.stages.team.place, ix.index(warp.bit_length() - 1))

    def _of_warps(self) -> Stmt:
        """Return how the warps of a block tell each other what they have, and join it."""
        s, team = self.stages, self.stages.team
        warp = team.facts.target.warp
        warps = team.lanes // warp
        if warps == 1:  # whose threads have read what their block was told of the row before
            return Block((Barrier(), self._of_blocks()))
        tiles = self._tiles("warps", (2, team.groups, warps), Scope.SHARED)
        own = Binary("shr", team.lane, ix.index(warp.bit_length() - 1))
        place = Binary("and", team.lane, ix.index(warps - 1))
        first = ix.compare("eq", Binary("and", team.lane, ix.index(warp - 1)), ix.ZERO)
        told = (If(first, self._stores(tiles, (s.now, team.group, own))), Barrier())
        number: Expr = place
        if team.rank is not None:
            number = ix.add(ix.mul(team.rank, ix.index(warps)), place)
        of_block = None if team.rank is None else self._count(team.lanes, team.rank)
        rest = self.rest if team.rank is None else self._of_blocks()
        at, count = (s.now, team.group, place), self._count(warp, number)
        return Block((*told, self._taken(tiles, at, count, warps, of_block, rest)))

    def _of_blocks(self) -> Stmt:
        """Return how the blocks of a cluster tell each other what they have, and join it."""
        s, team = self.stages, self.stages.team
        assert team.rank is not None
        tiles = self._tiles("blocks", (team.blocks, 2, team.blocks), Scope.CLUSTER)
        give = self._stores(tiles, (team.lane, s.now, team.rank))
        some = ix.compare("lt", team.lane, ix.index(team.blocks))
        told = AttrStmt("waits", "stores", Block((If(some, give), Barrier(Scope.CLUSTER))))
        place = Binary("and", team.lane, ix.index(team.blocks - 1))
        at, count = (team.rank, s.now, place), self._count(team.lanes, place)
        return Block((told, self._taken(tiles, at, count, team.blocks, None, self.rest)))

    def _tiles(self, of: str, shape: tuple[int, ...], scope: Scope) -> list[Buffer]:
        fresh = self.stages.facts.names.fresh
        made = [Buffer(fresh(f"{x.buffer}_{of}"), x.dtype, shape, scope) for x in self.mine]
        self.stages.tiles += made
        return made

    def _stores(self, tiles: Sequence[Buffer], at: tuple[Expr, ...]) -> Stmt:
        pairs = zip(tiles, self.mine, strict=True)
        return Block(tuple(Store(t.name, at, x) for t, x in pairs))

    def _taken(
        self, tiles: Sequence[Buffer], at: tuple[Expr, ...], count: Expr, parts: int,
        all_: Expr | None, rest: Stmt,
    ) -> Stmt:  # fmt: skip
        """Return how a thread takes one of so many parts, and joins those of its neighbours."""
        take = (
            Store(x.buffer, (), Load(t.name, at, t.dtype))
            for t, x in zip(tiles, self.mine, strict=True)
        )
        shift = Var(self.stages.facts.names.fresh("part_shift"), self.mine[0].dtype)
        joined = self._joined(shift, count, parts, all_, rest)
        return Block((*take, Let(shift, self._shift(count), joined)))

    def _joined(self, shift: Expr, count: Expr, parts: int, all_: Expr | None, rest: Stmt) -> Stmt:
        """Return how neighbours that have so many parts join them, and the rest.

        A part of ``count`` elements has a ``shift``; joined are ``all_`` so many, or the whole row.
        """
        o, (a, b), (x, y) = self.online, self.folds, self.mine
        new = o.asked if all_ is None else Var(self.stages.facts.names.fresh("shift"), x.dtype)
        correct = Store(y.buffer, (), o.corrected(y, Cast(count, x.dtype), shift, new))
        end = rest if all_ is not None else Let(b.accs[0].var, y, rest)
        body: Stmt = Block((correct, *self._exchanged(b, y, parts), end))
        if isinstance(new, Var) and all_ is not None:
            body = Let(new, self._shift(all_), body)
        else:
            for s in reversed(self.lets):
                assert isinstance(s, Let)
                body = Let(s.var, self.stages.wide.flat_expr(s.value), body)
            body = Let(a.accs[0].var, x, body)
        return Block((*self._exchanged(a, x, parts), body))

    def _shift(self, count: Expr) -> Expr:
        x = self.mine[0]
        return self.online.shifted(x, Cast(count, x.dtype))

    def _count(self, lanes: int, part: Expr) -> Expr:
        """Return how many elements of a row one of its parts has, of so many threads each."""
        s = self.stages
        return parted.count(s.wide, s.rows.length, lanes, s.team.threads // lanes, part)

    def _exchanged(self, fold: Fold, mine: Load, parts: int) -> list[Stmt]:
        """Return the exchanges by which neighbours join what so many of them have."""
        found, names = list[Stmt](), self.stages.facts.names
        for n in range(parts.bit_length() - 1):
            other = Var(names.fresh(f"{mine.buffer}_other"), mine.dtype)
            found.append(Exchange(other, mine, 1 << n, merged(fold, [mine], [other], names)))
        return found


def keeping(nest: RowNest, o: Online) -> OnePass | None:
    """Return the pass whose threads keep the exponentials that rows say; None for other rows.

    A thread that has no element but -inf takes the least float for the largest, so that its
    exponentials are 0, not NaN: they are scaled as all others are.
    """
    values = [v for v in nest.values if isinstance(v.value, Intrinsic) and v.value.name == o.scale]
    if not o.scale or len(values) != 1 or len(nest.values) != 1:
        return None
    (value,) = values

    def of_thread(e: Expr) -> Expr:
        return o.shift if e == o.asked else map_expr(of_thread, e)

    b = nest.stages[o.second]
    assert isinstance(b, Fold)
    step = substitute(b.step, renamed(b, nest))
    store = Store(value.name, (), of_thread(value.value))
    found = replace(o, step=Block((store, step)), kept=True)
    return OnePass(found, 1, Load(value.name, (), value.dtype))


def _scaled(each: Stmt, terms: Load, total: Var, factor: Var, share: Var) -> Stmt:
    """Return what is done of an element, with terms times a factor, or divided by their total."""

    def on_expr(e: Expr) -> Expr:
        match e:
            case Binary("div", lhs, Var(total.name)) if lhs == terms:
                return Binary("mul", terms, share)
            case _:
                return Binary("mul", terms, factor) if e == terms else map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        return map_stmt(s, on_expr, on_stmt)

    return on_stmt(each)
