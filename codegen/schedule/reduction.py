"""Schedule folds of columns: several threads for each result, and a tree in shared memory.

Threads take terms in strides, and neighbouring threads hold neighbouring results; the longest chain
of additions is the terms of one thread and the height of the tree.  The tree's order is fixed: a
result is the same at every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from didyma.codegen.schedule.folds import FoldNest, loaded, merged, with_lets
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
    Expr,
    Fold,
    For,
    If,
    Let,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.unfold import folded_into

At: TypeAlias = Callable[[Expr], tuple[Expr, Expr]]

COLUMNS = 32  # results of a block side by side when columns are folded
LAYERS = 8  # threads for each of them
FULL = 16  # times the results that fill a device: threads that fill it where each reads its own


def column_shape(facts: NestFacts, fold: FoldNest) -> tuple[int, int]:
    """Return how many results share a block, and the threads for each, where terms are a column."""
    results = facts.largest(fold.nest.numel)
    side = min(COLUMNS, 1 << max(0, results - 1).bit_length())
    layers = LAYERS
    length, full = facts.largest(fold.length), FULL * facts.options.kernels.full
    while layers < facts.block // side and layers * 32 < length:
        layers *= 2
    while layers < facts.target.threads // side and layers * 4 < length and results * layers < full:
        layers *= 2
    return side, layers


def columns(facts: NestFacts, fold: FoldNest, side: int, layers: int) -> PrimFunc:
    """Fold outer axes: neighbouring threads hold neighbouring results."""
    fresh = facts.names.fresh
    block, column, layer = Var(fresh("bx")), Var(fresh("group")), Var(fresh("lane"))
    count, out = fold.nest.numel, Var(fresh("column"))
    tiles = tuple(
        Buffer(fresh(f"{b.name}_tile"), b.dtype, (layers, side), Scope.SHARED) for b in fold.scalars
    )

    def at(n: Expr) -> tuple[Expr, Expr]:
        return (n, column)

    exists = tail(out, count, side)
    partial = _partial(facts, fold, layer, layers)
    keep = [Store(t.name, at(layer), x) for t, x in zip(tiles, loaded(fold.scalars), strict=True)]
    final = fold.after(loaded(tiles, at(ix.ZERO)))
    first = [ix.compare("eq", layer, ix.ZERO), *exists]
    body: Stmt = Block(
        (
            *(Store(a.var.name, (), a.start) for a in fold.fold.accs),
            guarded(exists, partial),
            *keep,
            Barrier(),
            *combined(facts, fold.fold, tiles, layer, layers, at),
            guarded(first, with_lets(fold.lets, final, facts.names)),
        )
    )
    for b in reversed(fold.scalars):
        body = Allocate(b, body)
    index = dict(zip(fold.nest.index, ix.unflatten(out, fold.nest.extents), strict=True))
    body = let_all(index, body)
    body = Let(out, ix.add(ix.mul(block, ix.index(side)), column), body)
    body = bound(column, ix.index(side), "threadIdx.x", body)
    body = bound(layer, ix.index(layers), "threadIdx.y", body)
    for t in reversed(tiles):
        body = Allocate(t, body)
    body = bound(block, ix.ceildiv(count, ix.index(side)), "blockIdx.x", body)
    return facts.kernel(body, "reduce_column")


def _partial(facts: NestFacts, fold: FoldNest, lane: Var, lanes: int) -> Stmt:
    """Fold the terms of one lane: every ``lanes``-th."""
    length = fold.length
    k = fold.ks[0] if len(fold.ks) == 1 else Var(facts.names.fresh("k"))
    turn = Var(facts.names.fresh("turn"))
    step = folded_into(fold.fold, loaded(fold.scalars), facts.names)
    if len(fold.ks) > 1:
        table = dict(zip(fold.ks, ix.unflatten(k, fold.extents), strict=True))
        step = let_all(table, step)
    step = guarded(tail(k, length, lanes), step)
    step = Let(k, ix.add(ix.mul(turn, ix.index(lanes)), lane), step)
    loop = For(turn, ix.ceildiv(length, ix.index(lanes)), step)
    return with_lets(fold.lets, loop)


def combined(
    facts: NestFacts,
    fold: Fold,
    tiles: tuple[Buffer, ...],
    lane: Var,
    lanes: int,
    at: At,
) -> list[Stmt]:
    """Halve the number of partial results until one is left."""
    if lanes == 1:
        return []
    level, half = Var(facts.names.fresh("level")), Var(facts.names.fresh("half"))
    mine, other = loaded(tiles, at(lane)), loaded(tiles, at(ix.add(lane, half)))
    step = merged(fold, mine, other, facts.names)
    step = Block((If(ix.compare("lt", lane, half), step), Barrier()))
    step = Let(half, Binary("shr", ix.index(lanes // 2), level), step)
    return [For(level, ix.index(lanes.bit_length() - 1), step)]
