"""How the threads that share a row make one result of their parts of a fold.

Threads of a warp give each other what they have: after each exchange twice as many threads know of
one another's terms.  Where several warps share a row, each leaves what it has in shared memory, and
the threads of every warp meet over that again.  Rows whose threads are no neighbours meet in a tree
in shared memory.  Where several blocks share a row, each gives what it has to all of them, and all
merge the parts in the order of the blocks.  The order is fixed: a result is the same at every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didyma.codegen.schedule.folds import loaded, merged
from didyma.codegen.schedule.nest import NestFacts
from didyma.codegen.schedule.reduction import combined
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Barrier,
    Binary,
    Block,
    Buffer,
    Exchange,
    Expr,
    Fold,
    For,
    If,
    Load,
    LoopKind,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import INTS, DType

_EXCHANGED = (DType.F64, DType.F32, *INTS, DType.BOOL)


def shared(
    target: Target, dtypes: Sequence[DType], groups: int, lanes: int, *, across: bool
) -> int:
    """Return the bytes that the threads of a block share for the parts of one fold."""
    size = sum(d.nbytes for d in dtypes)
    if _in_tree(target, dtypes, across):
        return groups * lanes * size
    return groups * (lanes // target.warp) * size if lanes > target.warp else 0


def of_cluster(dtypes: Sequence[DType], groups: int, blocks: int) -> int:
    """Return the bytes of a block in which the blocks of a cluster leave the parts of one fold."""
    return groups * blocks * sum(d.nbytes for d in dtypes) if blocks > 1 else 0


def _in_tree(target: Target, dtypes: Sequence[DType], across: bool) -> bool:
    """Return whether threads cannot give each other what they have."""
    return across or target.warp == 1 or any(d not in _EXCHANGED for d in dtypes)


@dataclass(frozen=True, slots=True)
class Met:
    """Statements after which every thread loads ``results``; ``tiles`` are shared among them."""

    tiles: tuple[Buffer, ...]
    statements: tuple[Stmt, ...]
    results: tuple[Load, ...]


@dataclass(frozen=True, slots=True)
class Team:
    """``lanes`` threads for each of ``groups`` rows of a block, and their variables.

    With ``across``, neighbouring threads have neighbouring rows, else lanes of one.  Each of
    ``blocks`` blocks, of which ``rank`` is the number, has such threads for the same rows.
    """

    facts: NestFacts
    group: Var
    lane: Var
    groups: int
    lanes: int
    across: bool = False
    blocks: int = 1
    rank: Var | None = None

    @property
    def place(self) -> Expr:
        """The number of a thread among those of all blocks that share its row."""
        if self.rank is None:
            return self.lane
        return ix.add(ix.mul(self.rank, ix.index(self.lanes)), self.lane)

    @property
    def threads(self) -> int:
        """The threads that share a row, of all blocks."""
        return self.lanes * self.blocks

    def meet(self, fold: Fold, mine: Sequence[Buffer]) -> Met:
        """Make one result of each thread's part of a fold, which it has in ``mine``."""
        met = self.in_block(fold, mine)
        return met if self.rank is None else self._in_cluster(fold, mine, met, self.rank)

    def _in_cluster(self, fold: Fold, mine: Sequence[Buffer], met: Met, rank: Var) -> Met:
        """Make one result of those of blocks, each of which gives its own to every one.

        What blocks leave in a block's memory nobody overwrites: no block waits for another again.
        """
        fresh, shape = self.facts.names.fresh, (self.blocks, self.blocks, self.groups)
        tiles = tuple(
            Buffer(fresh(f"{b.name}_blocks"), b.dtype, shape, Scope.CLUSTER) for b in mine
        )
        parts, turn = loaded(mine), Var(fresh("turn"))
        give = [
            Store(t.name, (self.lane, rank, self.group), x)
            for t, x in zip(tiles, met.results, strict=True)
        ]
        first = loaded(tiles, (rank, ix.ZERO, self.group))
        take = [Store(b.name, (), x) for b, x in zip(mine, first, strict=True)]
        other = loaded(tiles, (rank, ix.add(turn, ix.ONE), self.group))
        others = merged(fold, parts, other, self.facts.names)
        statements = (
            *met.statements,
            If(ix.compare("lt", self.lane, ix.index(self.blocks)), _one(give)),
            Barrier(Scope.CLUSTER),
            *take,
            For(turn, ix.index(self.blocks - 1), others, LoopKind.UNROLLED),
        )
        return Met((*met.tiles, *tiles), statements, parts)

    def in_block(self, fold: Fold, mine: Sequence[Buffer]) -> Met:
        """Make one result of what the threads of a block have of a fold."""
        if _in_tree(self.facts.target, [b.dtype for b in mine], self.across):
            return self._meet_in_tree(fold, mine)
        warp, parts = self.facts.target.warp, loaded(mine)
        if self.lanes <= warp:
            return Met((), tuple(self._exchanged(fold, parts, self.lanes)), parts)
        warps = self.lanes // warp
        tiles = self._tiles(mine, (self.groups, warps))
        own = (self.group, Binary("shr", self.lane, ix.index(warp.bit_length() - 1)))
        other = (self.group, Binary("and", self.lane, ix.index(warps - 1)))
        first = ix.compare("eq", Binary("and", self.lane, ix.index(warp - 1)), ix.ZERO)
        stored = [Store(t.name, own, x) for t, x in zip(tiles, parts, strict=True)]
        taken = [Store(x.buffer, (), y) for x, y in zip(parts, loaded(tiles, other), strict=True)]
        statements = (
            *self._exchanged(fold, parts, warp),
            If(first, _one(stored)),
            Barrier(),
            *taken,
            *self._exchanged(fold, parts, warps),
        )
        return Met(tiles, statements, parts)

    def _exchanged(self, fold: Fold, parts: tuple[Load, ...], width: int) -> list[Stmt]:
        """Return the exchanges by which ``width`` neighbours come to know each other's parts."""
        names, found = self.facts.names, list[Stmt]()
        for n in range(width.bit_length() - 1):
            others = [Var(names.fresh(f"{x.buffer}_other"), x.dtype) for x in parts]
            body = merged(fold, parts, others, names)
            for other, x in reversed(list(zip(others, parts, strict=True))):
                body = Exchange(other, x, 1 << n, body)
            found.append(body)
        return found

    def _tiles(self, mine: Sequence[Buffer], shape: tuple[int, int]) -> tuple[Buffer, ...]:
        fresh = self.facts.names.fresh
        return tuple(Buffer(fresh(f"{b.name}_tile"), b.dtype, shape, Scope.SHARED) for b in mine)

    def _meet_in_tree(self, fold: Fold, mine: Sequence[Buffer]) -> Met:
        shape = (self.lanes, self.groups) if self.across else (self.groups, self.lanes)
        tiles = self._tiles(mine, shape)

        def at(n: Expr) -> tuple[Expr, Expr]:
            return (n, self.group) if self.across else (self.group, n)

        keep = (Store(t.name, at(self.lane), x) for t, x in zip(tiles, loaded(mine), strict=True))
        tree = combined(self.facts, fold, tiles, self.lane, self.lanes, at)
        statements = (*keep, Barrier(), *tree)
        return Met(tiles, statements, loaded(tiles, at(ix.ZERO)))


def _one(stores: Sequence[Store]) -> Stmt:
    return Block(tuple(stores)) if len(stores) > 1 else stores[0]
