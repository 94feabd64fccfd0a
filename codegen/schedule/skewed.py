"""Schedule transpositions whose results begin between sectors of memory, by slanted tiles.

Rows of the result that are no whole number of sectors long begin at other places within one.  Tiles
with the same columns of each row would store parts of sectors on both sides, which memory fills
from what another tile stores.  A slanted tile has other columns of each row: those from one
sector's beginning to another's.  It loads a few more rows than it stores columns of any.
"""

from __future__ import annotations

from didyma.codegen.lower.affine import Poly
from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.codegen.schedule.transpose import Turned, columns_of, instead
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
    Allocate,
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

SECTOR = 32  # bytes that memory takes at once


def before(facts: NestFacts, turned: Turned) -> Poly | None:
    """Return how far behind a sector's beginning rows of the result begin, in elements.

    None unless that differs from row to row.
    """
    last, nbytes = facts.nest.index[-1], turned.load.dtype.nbytes
    for s in facts.statements:
        if isinstance(s, Store):
            first = lanes.first_of_row(facts, facts.offset(s.buffer, s.index), last)
            n = SECTOR // nbytes
            if first is None or facts.buffers[s.buffer].dtype.nbytes != nbytes:
                return None
            return {m: k % n for m, k in first.items() if k % n} or None
    return None


def tiled(facts: NestFacts, turned: Turned, side: int, rows: int) -> PrimFunc:
    """Schedule a nest with the load staged in slanted tiles of ``side`` columns and rows.

    A block has ``rows`` rows of threads, each of ``side``.
    """
    nest, fresh, load = facts.nest, facts.names.fresh, turned.load
    p, q = nest.index[turned.axis], nest.index[-1]
    size_p, size_q = nest.extents[turned.axis], nest.extents[-1]
    more = SECTOR // load.dtype.nbytes - 1
    shape = (side + more, columns_of(side, load))
    tile = Buffer(fresh(f"{load.buffer}_tile"), load.dtype, shape, Scope.SHARED)
    block, x, y, tp, tq = (Var(fresh(n)) for n in ("bx", "column", "row", "along", "across"))
    first_p, first_q = Var(fresh(p.name)), Var(fresh(q.name))

    def turns(count: int, down: Var, body: Stmt) -> Stmt:
        turn = Var(fresh("turn"))
        body = guarded(tail(down, ix.index(count), rows), body)
        body = Let(down, ix.add(ix.mul(turn, ix.index(rows)), y), body)
        return For(turn, ix.index(-(-count // rows)), body)

    down, staged = Var(fresh("down")), substitute_expr(load, {p.name: first_p, q.name: first_q})
    stage: Stmt = Store(tile.name, (down, x), staged)
    stage = guarded([*tail(first_p, size_p, side), *_inside(first_q, size_q)], stage)
    stage = let_all(
        {
            first_p: ix.add(ix.mul(tp, ix.index(side)), x),
            first_q: ix.sub(ix.add(ix.mul(tq, ix.index(side)), down), ix.index(more)),
        },
        stage,
    )
    stage = turns(shape[0], down, stage)

    base = before(facts, turned)
    assert base is not None, "rows of the result begin at sectors"
    out, shift = Var(fresh("down")), Var(fresh("shift"))
    at = ix.sub(ix.add(x, ix.index(more)), shift)
    final = instead(nest.body, load, Load(tile.name, (at, out), load.dtype))
    final = guarded([*tail(p, size_p, side), *_inside(q, size_q)], final)
    final = let_all(
        {
            p: ix.add(ix.mul(tp, ix.index(side)), out),
            shift: ix.mod(facts.affine.expr(base), ix.index(more + 1)),
            q: ix.sub(ix.add(ix.mul(tq, ix.index(side)), x), shift),
        },
        final,
    )
    body: Stmt = Block((stage, Barrier(), turns(side, out, final)))
    rest = [n for n in range(len(nest.index) - 1) if n != turned.axis]
    counts = (
        ix.ceildiv(size_p, ix.index(side)),
        ix.ceildiv(ix.add(size_q, ix.index(more)), ix.index(side)),
    )
    grid = [*(nest.extents[n] for n in rest), *counts]
    *where, at_p, at_q = ix.unflatten(block, grid)
    table = {nest.index[n]: w for n, w in zip(rest, where, strict=True)}
    body = let_all({**table, tp: at_p, tq: at_q}, body)
    body = bound(x, ix.index(side), "threadIdx.x", body)
    body = bound(y, ix.index(rows), "threadIdx.y", body)
    body = bound(block, ix.mul(*grid), "blockIdx.x", Allocate(tile, body))
    return facts.kernel(body, "transpose", frozenset())


def _inside(v: Var, size: Expr) -> list[Expr]:
    return [ix.compare("ge", v, ix.ZERO), ix.compare("lt", v, size)]
