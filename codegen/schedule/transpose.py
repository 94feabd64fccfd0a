"""Schedule transpositions by tiles in shared memory: reads and writes are both contiguous.

A load whose last axis is not the result's is staged; everything else happens at the store.  Rows
of the tile have a word more than they hold, which keeps columns in different banks.  Where sizes
allow, a thread loads and stores several neighbours at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.codegen.schedule import lanes
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.codegen.schedule.pointwise import moved
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, plus
from didyma.refimpl.ir.loop import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Let,
    LetExpr,
    Load,
    LoopKind,
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
    substitute,
    substitute_expr,
)

TILE = 32
WIDE_TILE = 64  # likewise, where several elements are moved at once
ROWS = 8  # rows of a full tile that are loaded at once
BANK = 4  # bytes of a bank of shared memory
LEAST = 4  # axes shorter than this are not worth a square tile
NARROW = 16  # the longest axis that is worth a tile of its own length
LONG_TILE = 256  # the other side of such a tile, if there are as many elements
Make: TypeAlias = Callable[[Expr], Stmt]


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
    if len(nest.index) < 2 or (last_size := facts.largest(nest.extents[-1])) < LEAST:
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
            size = facts.largest(nest.extents[axis])
            worth = size >= LEAST or (size > 1 and last_size >= LONG_TILE)
            if coefficient(at, v.name) == {(): 1} and worth:
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


def tile_shape(facts: NestFacts, turned: Turned) -> tuple[int, int, int]:
    """Return the side of the tile, how many of its rows are loaded at once, and by which width."""
    nest = facts.nest
    sizes = [facts.largest(nest.extents[n]) for n in (turned.axis, -1)]
    if _is_narrow(facts, turned) and max(sizes) >= LONG_TILE:
        return LONG_TILE, max(1, facts.block // LONG_TILE), 1
    width, _ = width_of(facts, turned)
    small = turned.load.dtype.nbytes < BANK and min(sizes) >= WIDE_TILE
    side = WIDE_TILE if width > 1 or small else TILE
    if width > 1 and side > min(sizes):
        side = TILE
        width = width if min(sizes) >= TILE else 1
    while side > LEAST and side >= 2 * max(sizes):
        side //= 2
    rows = facts.block // side if width == 1 and side > TILE else ROWS
    return side, max(1, min(side, rows if width == 1 else facts.block * width // side)), width


def _is_narrow(facts: NestFacts, turned: Turned) -> bool:
    """Return whether one of the axes that are exchanged has a short known length."""
    both = (facts.nest.extents[n] for n in (turned.axis, -1))
    return any(isinstance(n, Const) and int(n.value) <= NARROW for n in both)


def sides(facts: NestFacts, turned: Turned, side: int) -> tuple[int, int]:
    """Return the sides of a tile, along the load and along the result: a narrow one is exact."""
    both = (facts.nest.extents[n] for n in (turned.axis, -1))
    found = (int(n.value) if isinstance(n, Const) else side for n in both)
    along, across = (n if n <= min(side, NARROW) else side for n in found)
    return along, across


def width_of(facts: NestFacts, turned: Turned) -> tuple[int, frozenset[str]]:
    """Return how many neighbours a thread takes at once, and in which buffers by one access.

    The load to stage is made along its own axis, all others along the result's last one.
    """
    nest, load = facts.nest, turned.load
    p, q = nest.index[turned.axis], nest.index[-1]
    if not all(at == load.index for name, at in facts.accesses() if name == load.buffer):
        return 1, frozenset()
    for n in lanes.widths(facts):
        rest = {
            (name, at): lanes.from_row(
                facts, facts.offset(name, at), p if name == load.buffer else q, n
            )
            for name, at in facts.accesses()
        }
        narrow = {name for (name, _), at in rest.items() if at is None}
        wide = frozenset(name for name, _ in rest) - narrow
        sizes = (nest.extents[turned.axis], nest.extents[-1])
        if (
            {load.buffer, *facts.func.outputs} & {name for name, _ in rest} <= wide
            and lanes.suit(facts, wide, n)
            and all(lanes.part_of_size(facts, size, n) is not None for size in sizes)
        ):
            return n, wide
    return 1, frozenset()


def columns_of(side: int, load: Load) -> int:
    """Return the elements of a row of a tile, among them those that nothing is in.

    Rows have an odd number of words, so that neighbours in a column lie in different banks.
    """
    words = -(-side * load.dtype.nbytes // BANK) | 1
    return -(-words * BANK // load.dtype.nbytes)


def tiled(facts: NestFacts, turned: Turned, side: int, rows: int, width: int) -> PrimFunc:
    """Schedule a nest with the load staged in a square tile; ``rows`` divides its ``side``.

    A thread takes ``width`` neighbours at once, 1 or what ``width_of`` says.  Where a side is
    narrow, threads take the elements of the tile in their order in memory, so that all have some.
    """
    nest, fresh = facts.nest, facts.names.fresh
    p, q = nest.index[turned.axis], nest.index[-1]
    size_p, size_q = nest.extents[turned.axis], nest.extents[-1]
    block, tx, ty = Var(fresh("bx")), Var(fresh("column")), Var(fresh("row"))
    load = turned.load
    wide = width_of(facts, turned)[1] if width > 1 else frozenset[str]()
    side_p, side_q = sides(facts, turned, side) if width == 1 else (side, side)
    tile = Buffer(
        fresh(f"{load.buffer}_tile"), load.dtype, (side_q, columns_of(side_p, load)), Scope.SHARED
    )
    rest = [n for n in range(len(nest.index) - 1) if n != turned.axis]
    tiles = (ix.ceildiv(size_p, ix.index(side_p)), ix.ceildiv(size_q, ix.index(side_q)))
    outer = [nest.extents[n] for n in rest]
    *where, tp, tq = ix.unflatten(block, (*outer, *tiles))

    by, count = ix.index(width), ix.index(side)

    def each(across: tuple[Var, Expr], down: tuple[Var, Expr], at: Var, stmt: Make) -> Stmt:
        """Do what ``stmt`` says for the tile's elements, threads across, turns and threads down.

        It is given the place across of an element in the tile.
        """
        turn = Var(fresh("turn"))
        sizes = {p.name: size_p, q.name: size_q, first_p.name: size_p, first_q.name: size_q}
        (v, t), (w, s) = across, down
        by_v, by_w = (side_p, side_q) if v in (p, first_p) else (side_q, side_p)
        exists = [*tail(v, sizes[v.name], by_v), *tail(w, sizes[w.name], by_w)]
        if (side_p, side_q) != (side, side):
            at_v = Var(fresh("along"))
            moves = guarded(exists, stmt(at_v))
            body: Stmt = Let(v, ix.add(ix.mul(t, ix.index(by_v)), at_v), moves)
            body = Let(w, ix.add(ix.mul(s, ix.index(by_w)), at), body)
            thread = ix.add(ix.mul(ty, count), tx)
            return _in_order(facts, ((at, by_w), (at_v, by_v)), thread, side * rows, body)
        if width == 1:
            body = guarded(exists, stmt(tx))
            body = Let(v, ix.add(ix.mul(t, count), tx), body)
        else:
            part, lane = Var(fresh("part")), Var(fresh("v"))
            old = p if v is first_p else q
            body = moved(
                stmt(ix.add(ix.mul(tx, by), lane)), wide, _to(facts, old, part, lane, width)
            )
            body = substitute(body, {p.name: first_p, q.name: first_q}) if v is first_p else body
            body = let_all({v: ix.add(ix.mul(part, by), lane)}, body)
            body = For(lane, by, body, LoopKind.VECTORIZED)
            parts = lanes.part_of_size(facts, sizes[v.name], width)
            assert parts is not None
            inside = [*tail(part, parts, side // width), *tail(w, sizes[w.name], side)]
            body = guarded(inside, body)
            body = Let(part, ix.add(ix.mul(t, ix.index(side // width)), tx), body)
        body = Let(w, ix.add(ix.mul(s, count), at), body)
        body = Let(at, ix.add(ix.mul(turn, ix.index(rows)), ty), body)
        return For(turn, ix.index(side // rows), body)

    first_p, first_q = Var(fresh(p.name)), Var(fresh(q.name))
    down_in, down_out = Var(fresh("down")), Var(fresh("down"))

    def stage(at: Expr) -> Stmt:
        if width > 1:
            return Store(tile.name, (down_in, at), load)
        staged = substitute_expr(load, {p.name: first_p, q.name: first_q})
        return Store(tile.name, (down_in, at), staged)

    def final(at: Expr) -> Stmt:
        return instead(nest.body, load, Load(tile.name, (at, down_out), load.dtype))

    body: Stmt = Block(
        (
            each((first_p, tp), (first_q, tq), down_in, stage),
            Barrier(),
            each((q, tq), (p, tp), down_out, final),
        )
    )
    table = {nest.index[n]: w for n, w in zip(rest, where, strict=True)}
    body = let_all(table, body)
    body = bound(tx, ix.index(side // width), "threadIdx.x", body)
    body = bound(ty, ix.index(rows), "threadIdx.y", body)
    grid = ix.mul(*outer, *tiles)
    body = bound(block, grid, "blockIdx.x", Allocate(tile, body))
    return facts.kernel(body, "transpose", wide)


def _in_order(
    facts: NestFacts, places: Sequence[tuple[Var, int]], thread: Expr, threads: int, body: Stmt
) -> Stmt:
    """Do what a body says at all places, which threads take in turn, in the order of the places."""
    turn, number = Var(facts.names.fresh("turn")), Var(facts.names.fresh("number"))
    size = math.prod(n for _, n in places)
    at = ix.unflatten(number, [ix.index(n) for _, n in places])
    body = guarded(
        tail(number, ix.index(size), threads),
        let_all(dict(zip((v for v, _ in places), at, strict=True)), body),
    )
    body = Let(number, ix.add(ix.mul(turn, ix.index(threads)), thread), body)
    return For(turn, ix.index(-(-size // threads)), body, LoopKind.UNROLLED)


def _to(
    facts: NestFacts, along: Var, part: Var, lane: Var, width: int
) -> Callable[[str, tuple[Expr, ...]], Expr]:
    """Return where an element of a buffer is that is accessed by vectors along a variable."""

    def to(name: str, index: tuple[Expr, ...]) -> Expr:
        rest = lanes.from_row(facts, facts.offset(name, index), along, width)
        assert rest is not None
        group = facts.affine.expr(plus(rest, {(part.name,): 1}))
        return ix.add(ix.mul(group, ix.index(width)), lane)

    return to


def instead(s: Stmt, old: Expr, new: Expr) -> Stmt:
    """Return a statement with one expression in place of another."""

    def on_expr(e: Expr) -> Expr:
        return new if e == old else map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)
