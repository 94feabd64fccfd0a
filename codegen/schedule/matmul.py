"""Matrix products: square tiles of both operands in shared memory, a thread for each element.

What precedes the product is computed as the tiles are filled, what follows it at the store.  A
tile's products are summed apart and then added to the total, which keeps the chain of additions
near K / tile + tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.lower.scalar import identity
from codegen.schedule.folds import FoldNest, freshened, needed, with_lets
from codegen.schedule.nest import Scene, bound, guarded, let_all, tail
from refimpl.ir import expr as ix
from refimpl.ir.loop import (
    Allocate,
    Barrier,
    Binary,
    Block,
    Buffer,
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
from refimpl.ir.walk import subexprs, substitute_expr

TILE = 16
SMALL = 4  # products with fewer terms than this are not worth a tile


@dataclass(frozen=True, slots=True)
class Product:
    """``sum over k of left * right``: left without column index, right without row index."""

    fold: FoldNest
    left: Expr
    right: Expr
    lets: tuple[Let, ...]  # of the step


def find(scene: Scene, fold: FoldNest) -> Product | None:
    """Return the matrix product that a fold is, if it is one."""
    store = fold.value()
    if fold.is_arg or len(fold.ks) != 1 or len(fold.nest.index) < 2 or store is None:
        return None
    total = store.value
    if not isinstance(total, Binary) or total.op != "add" or not isinstance(total.rhs, Binary):
        return None
    if total.rhs.op != "mul" or scene.largest(fold.length) < SMALL:
        return None
    lets: list[Let] = []
    s = fold.step
    while isinstance(s, Let):
        lets.append(s)
        s = s.body
    i, j, k = fold.nest.index[-2].name, fold.nest.index[-1].name, fold.ks[0].name
    every = [*fold.lets, *lets]

    def free(e: Expr) -> set[str]:
        return needed(every, subexprs(e))

    a, b = total.rhs.lhs, total.rhs.rhs
    for left, right in ((a, b), (b, a)):
        x, y = free(left), free(right)
        if j not in x and i not in y and {i, k} <= x and {j, k} <= y:
            return Product(fold, left, right, tuple(lets))
    return None


def tiled(scene: Scene, p: Product) -> PrimFunc:
    """Schedule a product."""
    fold, fresh = p.fold, scene.names.fresh
    i, j = fold.nest.index[-2:]
    m, n = fold.nest.extents[-2:]
    length = fold.length
    tile = TILE
    most = max(scene.largest(m), scene.largest(n))
    while tile > SMALL and tile >= 2 * most:
        tile //= 2
    size = ix.index(tile)
    acc = fold.accs[0].buffer
    block, row, column = Var(fresh("bx")), Var(fresh("row")), Var(fresh("column"))
    turn = Var(fresh("turn"))
    left = Buffer(fresh("left_tile"), p.left.dtype, (tile, tile), Scope.SHARED)
    right = Buffer(fresh("right_tile"), p.right.dtype, (tile, tile), Scope.SHARED)

    def fill(t: Buffer, value: Expr, along: Var, inside: list[Expr]) -> Stmt:
        """Store a tile's element, 0 where the operand has none; ``along`` counts terms."""
        k = Var(fresh(fold.ks[0].name))
        value = _closed(scene, [*fold.lets, *p.lets], value, {fold.ks[0].name: k})
        at = ix.add(ix.mul(turn, size), along)
        here = ix.all_of([*inside, *tail(k, length, tile)])
        zero = identity("add", t.dtype)
        return Let(k, at, Store(t.name, (row, column), ix.select(here, value, zero)))

    steps = (
        fill(left, p.left, column, tail(i, m, tile)),
        fill(right, p.right, row, tail(j, n, tile)),
        Barrier(),
        *_multiply(scene, acc, left, right, (row, column), tile),
        Barrier(),
    )
    loop = For(turn, ix.ceildiv(length, size), Block(_flattened(steps)))
    inside = [*tail(i, m, tile), *tail(j, n, tile)]
    final = with_lets(fold.lets, fold.rest)
    body: Stmt = Block((Store(acc.name, (), fold.accs[0].start), loop, guarded(inside, final)))
    body = Allocate(acc, body)
    tiles_m, tiles_n = ix.ceildiv(m, size), ix.ceildiv(n, size)
    *batch, ti, tj = ix.unflatten(block, (*fold.nest.extents[:-2], tiles_m, tiles_n))
    values = [*batch, ix.add(ix.mul(ti, size), row), ix.add(ix.mul(tj, size), column)]
    body = let_all(dict(zip(fold.nest.index, values, strict=True)), body)
    body = bound(column, size, "threadIdx.x", body)
    body = bound(row, size, "threadIdx.y", body)
    body = Allocate(left, Allocate(right, body))
    grid = ix.mul(*fold.nest.extents[:-2], tiles_m, tiles_n)
    return scene.kernel(bound(block, grid, "blockIdx.x", body), "matmul")


def _multiply(
    scene: Scene, acc: Buffer, left: Buffer, right: Buffer, at: tuple[Var, Var], tile: int
) -> tuple[Stmt, ...]:
    part = Buffer(scene.names.fresh(f"{acc.name}_part"), acc.dtype, (), Scope.LOCAL)
    u = Var(scene.names.fresh("u"))
    term = Binary(
        "mul",
        Load(left.name, (at[0], u), left.dtype),
        Load(right.name, (u, at[1]), right.dtype),
    )
    so_far = Load(part.name, (), part.dtype)
    total = Binary("add", Load(acc.name, (), acc.dtype), so_far)
    inner = For(
        u, ix.index(tile), Store(part.name, (), Binary("add", so_far, term)), LoopKind.UNROLLED
    )
    run = Block(
        (Store(part.name, (), identity("add", part.dtype)), inner, Store(acc.name, (), total))
    )
    return (Allocate(part, run),)


def _closed(scene: Scene, lets: Sequence[Let], e: Expr, table: dict[str, Expr]) -> Expr:
    """Expression with the variables of ``lets`` bound inside it, under fresh names."""
    used = needed(lets, subexprs(e))
    for x in reversed(lets):
        if x.var.name in used:
            e = LetExpr(x.var, x.value, e)
    return freshened(substitute_expr(e, table), scene.names)


def _flattened(items: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return tuple(s for x in items for s in (x.body if isinstance(x, Block) else (x,)))
