"""Schedule transpositions by tiles in shared memory: reads and writes are both contiguous.

A load whose last axis is not the result's is staged; everything else happens at the store.  Rows
of the tile have one element more than they hold, which keeps columns in different banks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Expr,
    For,
    Let,
    LetExpr,
    Load,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import (
    certain_children,
    map_expr,
    map_stmt,
    subexprs,
    substitute_expr,
)

TILE = 32
ROWS = 8  # rows of a full tile that are loaded at once
LEAST = 4  # axes shorter than this are not worth a tile


@dataclass(frozen=True, slots=True)
class Turned:
    """A load to stage, and the position of the axis along which it is in order."""

    load: Load
    axis: int


def find(facts: NestFacts) -> Turned | None:
    """Return the load of a straight nest that runs across the result's last axis.

    Only a load that happens whatever the values are: one behind a guard may not be made early.
    """
    nest = facts.nest
    if len(nest.index) < 2 or facts.largest(nest.extents[-1]) < LEAST:
        return None
    if not all(isinstance(s, (Let, Block, Store)) for s in facts.statements):
        return None
    *others, last = nest.index
    names = {v.name for v in nest.index} | {d.name for d in facts.func.dims}
    for e in _certain(nest.body):
        free = {x.name for x in subexprs(e) if isinstance(x, Var)}
        if e.buffer not in facts.buffers or not free <= names or any(map(_loads, e.index)):
            continue
        at = facts.offset(e.buffer, e.index)
        across = coefficient(at, last.name)
        if not across or across == {(): 1}:
            continue
        for axis, v in enumerate(others):
            if coefficient(at, v.name) == {(): 1} and facts.largest(nest.extents[axis]) >= LEAST:
                return Turned(e, axis)
    return None


def _certain(s: Stmt) -> Iterator[Load]:
    """Yield the loads that happen whatever the values are and depend on no inner binding."""
    match s:
        case Block(body):
            for b in body:
                yield from _certain(b)
        case Let(_, value, body):
            yield from _always(value)
            yield from _certain(body)
        case Store(_, _, value):
            yield from _always(value)
        case _:
            pass


def _always(e: Expr) -> Iterator[Load]:
    if isinstance(e, Load):
        yield e
    elif not isinstance(e, LetExpr):
        for c in certain_children(e):
            yield from _always(c)


def _loads(e: Expr) -> bool:
    return isinstance(e, Load) or any(map(_loads, certain_children(e)))


def tile_shape(facts: NestFacts, turned: Turned) -> tuple[int, int]:
    """Return the side of the tile, and how many of its rows are loaded at once."""
    nest = facts.nest
    side = TILE
    most = max(facts.largest(nest.extents[turned.axis]), facts.largest(nest.extents[-1]))
    while side > LEAST and side >= 2 * most:
        side //= 2
    return side, min(side, ROWS)


def tiled(facts: NestFacts, turned: Turned, side: int, rows: int) -> PrimFunc:
    """Schedule a nest with the load staged in a square tile; ``rows`` divides its ``side``."""
    nest, fresh = facts.nest, facts.names.fresh
    p, q = nest.index[turned.axis], nest.index[-1]
    size_p, size_q = nest.extents[turned.axis], nest.extents[-1]
    block, tx, ty = Var(fresh("bx")), Var(fresh("column")), Var(fresh("row"))
    load = turned.load
    tile = Buffer(fresh(f"{load.buffer}_tile"), load.dtype, (side, side + 1), Scope.SHARED)
    rest = [n for n in range(len(nest.index) - 1) if n != turned.axis]
    count = ix.index(side)
    tiles = (ix.ceildiv(size_p, count), ix.ceildiv(size_q, count))
    outer = [nest.extents[n] for n in rest]
    *where, tp, tq = ix.unflatten(block, (*outer, *tiles))

    def each(across: tuple[Var, Expr], down: tuple[Var, Expr], at: Var, body: Stmt) -> Stmt:
        """Do ``body`` for the tile's elements, threads across, turns and threads down."""
        turn = Var(fresh("turn"))
        sizes = {p.name: size_p, q.name: size_q, first_p.name: size_p, first_q.name: size_q}
        inside = [c for v, _ in (across, down) for c in tail(v, sizes[v.name], side)]
        body = guarded(inside, body)
        for (v, t), n in ((across, tx), (down, at)):
            body = Let(v, ix.add(ix.mul(t, count), n), body)
        body = Let(at, ix.add(ix.mul(turn, ix.index(rows)), ty), body)
        return For(turn, ix.index(side // rows), body)

    first_p, first_q = Var(fresh(p.name)), Var(fresh(q.name))
    down_in, down_out = Var(fresh("down")), Var(fresh("down"))
    staged = substitute_expr(load, {p.name: first_p, q.name: first_q})
    stage = Store(tile.name, (down_in, tx), staged)
    final = _instead(nest.body, load, Load(tile.name, (tx, down_out), load.dtype))
    body: Stmt = Block(
        (
            each((first_p, tp), (first_q, tq), down_in, stage),
            Barrier(),
            each((q, tq), (p, tp), down_out, final),
        )
    )
    table = {nest.index[n]: w for n, w in zip(rest, where, strict=True)}
    body = let_all(table, body)
    body = bound(tx, count, "threadIdx.x", body)
    body = bound(ty, ix.index(rows), "threadIdx.y", body)
    grid = ix.mul(*outer, *tiles)
    return facts.kernel(bound(block, grid, "blockIdx.x", Allocate(tile, body)), "transpose")


def _instead(s: Stmt, old: Expr, new: Expr) -> Stmt:
    def on_expr(e: Expr) -> Expr:
        return new if e == old else map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)
