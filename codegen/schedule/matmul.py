"""Schedule matrix products: tiles of both operands in shared memory, a thread for each element.

Any fold of products is one whose operands have output axes of their own: batched products, and
convolutions with enough channels, whose windows are gathered as a tile is filled (implicit GEMM).

What precedes the product is computed as the tiles are filled, what follows it at the store.  A
tile's products are summed apart and then added to the total, which keeps the chain of additions
near K / tile + tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didyma.codegen.lower.scalar import identity
from didyma.codegen.schedule.folds import FoldNest, freshened, loaded, needed, with_lets
from didyma.codegen.schedule.nest import NestFacts, bound, guarded, let_all, tail
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.loop import (
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
from didyma.refimpl.ir.walk import items, subexprs, substitute_expr

TILE = 16
SMALL = 4  # products with fewer terms than this are not worth a tile


@dataclass(frozen=True, slots=True)
class Product:
    """``sum over k of left * right``: left without column index, right without row index.

    Output axes are batch, then ``rows``, then ``columns``; each may be several.
    """

    fold: FoldNest
    left: Expr
    right: Expr
    rows: int
    columns: int


def find(facts: NestFacts, fold: FoldNest) -> Product | None:
    """Return the matrix product that a fold is, if it is one."""
    (term, *_) = fold.terms
    if len(fold.nest.index) < 2 or fold.fold.op != "add":
        return None
    if not isinstance(term, Binary) or term.op != "mul" or facts.largest(fold.length) < SMALL:
        return None
    ks = {k.name for k in fold.ks}
    every = [*fold.lets, *fold.step]

    def free(e: Expr) -> set[str]:
        return needed(every, subexprs(e))

    for left, right in ((term.lhs, term.rhs), (term.rhs, term.lhs)):
        x, y = free(left), free(right)
        rows, columns = _sides([v.name for v in fold.nest.index], x, y)
        product = Product(fold, left, right, rows, columns)
        if rows and columns and ks & x & y and _pays(facts, product):
            return product
    return None


def _sides(index: Sequence[str], x: set[str], y: set[str]) -> tuple[int, int]:
    """Count the last axes that the left operand lacks, and those before that the right lacks.

    0 where an operand has none of its own.
    """
    at = len(index)
    while at and index[at - 1] not in x:
        at -= 1
    columns, end = index[at:], at
    while at and index[at - 1] not in y:
        at -= 1
    rows = index[at:end]
    return (len(rows) if x & set(rows) else 0), (len(columns) if y & set(columns) else 0)


def _pays(facts: NestFacts, p: Product) -> bool:
    """Return whether tiles are worth filling; a plain product's always are."""
    if len(p.fold.ks) == 1:
        return True
    m, n = _extents(p)
    wide = min(facts.largest(m), facts.largest(n)) >= facts.options.kernels.wide_product
    return wide and facts.largest(p.fold.length) >= facts.options.kernels.gathered


def _extents(p: Product) -> tuple[Expr, Expr]:
    """Return the numbers of rows and of columns."""
    extents = p.fold.nest.extents
    split = len(extents) - p.columns
    return ix.mul(*extents[split - p.rows : split]), ix.mul(*extents[split:])


def tile_side(facts: NestFacts, p: Product) -> int:
    """Return the side of a product's tiles: smaller where the product has few rows and columns."""
    m, n = _extents(p)
    tile = TILE
    most = max(facts.largest(m), facts.largest(n))
    while tile > SMALL and tile >= 2 * most:
        tile //= 2
    return tile


def tiled(facts: NestFacts, p: Product, tile: int) -> PrimFunc:
    """Schedule a product by square tiles of this side."""
    fold, fresh = p.fold, facts.names.fresh
    m, n = _extents(p)
    length = fold.length
    size = ix.index(tile)
    (acc,) = fold.scalars
    block, row, column = Var(fresh("bx")), Var(fresh("row")), Var(fresh("column"))
    turn = Var(fresh("turn"))
    left = Buffer(fresh("left_tile"), p.left.dtype, (tile, tile), Scope.SHARED)
    right = Buffer(fresh("right_tile"), p.right.dtype, (tile, tile), Scope.SHARED)

    def fill(t: Buffer, value: Expr, along: Var, inside: list[Expr]) -> Stmt:
        """Store a tile's element, 0 where the operand has none; ``along`` counts terms."""
        k = Var(fresh(fold.ks[0].name))
        parts = zip(fold.ks, ix.unflatten(k, fold.extents), strict=True)
        value = _closed(facts, [*fold.lets, *fold.step], value, {v.name: e for v, e in parts})
        at = ix.add(ix.mul(turn, size), along)
        here = ix.all_of([*inside, *tail(k, length, tile)])
        zero = identity("add", t.dtype)
        return Let(k, at, Store(t.name, (row, column), ix.select(here, value, zero)))

    split = len(fold.nest.index) - p.columns
    first = split - p.rows
    index, extents = fold.nest.index, fold.nest.extents
    i = index[first] if p.rows == 1 else Var(fresh("i"))
    j = index[split] if p.columns == 1 else Var(fresh("j"))
    steps = (
        fill(left, p.left, column, tail(i, m, tile)),
        fill(right, p.right, row, tail(j, n, tile)),
        Barrier(),
        *_multiply(facts, acc, left, right, (row, column), tile),
        Barrier(),
    )
    loop = For(turn, ix.ceildiv(length, size), Block(_flattened(steps)))
    inside = [*tail(i, m, tile), *tail(j, n, tile)]
    final = with_lets(fold.lets, fold.after(loaded((acc,))))
    body: Stmt = Block((Store(acc.name, (), fold.fold.accs[0].start), loop, guarded(inside, final)))
    body = Allocate(acc, body)
    tiles_m, tiles_n = ix.ceildiv(m, size), ix.ceildiv(n, size)
    *batch, ti, tj = ix.unflatten(block, (*extents[:first], tiles_m, tiles_n))
    values: dict[Var, Expr] = dict(zip(index[:first], batch, strict=True))
    values |= _axes(i, ix.add(ix.mul(ti, size), row), index[first:split], extents[first:split])
    values |= _axes(j, ix.add(ix.mul(tj, size), column), index[split:], extents[split:])
    body = let_all(values, body)
    body = bound(column, size, "threadIdx.x", body)
    body = bound(row, size, "threadIdx.y", body)
    body = Allocate(left, Allocate(right, body))
    grid = ix.mul(*extents[:first], tiles_m, tiles_n)
    return facts.kernel(bound(block, grid, "blockIdx.x", body), "matmul")


def _axes(flat: Var, at: Expr, index: Sequence[Var], extents: Sequence[Expr]) -> dict[Var, Expr]:
    """Return the values of a flat index and of the axes that it stands for."""
    values: dict[Var, Expr] = {flat: at}
    if len(index) > 1:
        values |= dict(zip(index, ix.unflatten(flat, extents), strict=True))
    return values


def _multiply(
    facts: NestFacts, acc: Buffer, left: Buffer, right: Buffer, at: tuple[Var, Var], tile: int
) -> tuple[Stmt, ...]:
    part = Buffer(facts.names.fresh(f"{acc.name}_part"), acc.dtype, (), Scope.LOCAL)
    u = Var(facts.names.fresh("u"))
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


def _closed(facts: NestFacts, lets: Sequence[Let], e: Expr, table: dict[str, Expr]) -> Expr:
    """Expression with the variables of ``lets`` bound inside it, under fresh names."""
    used = needed(lets, subexprs(e))
    for x in reversed(lets):
        if x.var.name in used:
            e = LetExpr(x.var, x.value, e)
    return freshened(substitute_expr(e, table), facts.names)


def _flattened(parts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return tuple(s for x in parts for s in items(x))
