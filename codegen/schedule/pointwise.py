"""A thread for each element of the result, by a flat index; four elements where that is legal."""

from __future__ import annotations

from codegen.lower.affine import Poly, is_constant
from codegen.schedule.nest import Scene, bound, guarded, let_all
from refimpl.ir import expr as ix
from refimpl.ir.loop import (
    Block,
    Const,
    Expr,
    For,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from refimpl.ir.walk import map_expr, map_stmt

LANES = 4


def elementwise(scene: Scene, schedule: str = "pointwise") -> PrimFunc:
    """Schedule a nest with one thread for each element, or each four."""
    same = _contiguous(scene)
    if same is None:
        return _by_element(scene, schedule)
    numel = scene.nest.numel
    if _is_wide(scene, numel):
        return _vector(scene, same, schedule)
    i = Var(scene.names.fresh("i"))
    body = _flat(scene.nest.body, same, i)
    return scene.kernel(_spread(scene, i, numel, body), schedule, same)


def _spread(scene: Scene, i: Var, count: Expr, body: Stmt) -> Stmt:
    """Run ``body`` for each ``i`` below ``count``, a thread each."""
    most = scene.largest(count)
    threads = scene.threads(max(32, most)) if most != 1 else 1
    block, thread = Var(scene.names.fresh("bx")), Var(scene.names.fresh("tx"))
    at = ix.add(ix.mul(block, ix.index(threads)), thread)
    full = isinstance(count, Const) and int(count.value) % threads == 0
    inner = body if full else guarded([ix.compare("lt", i, count)], body)
    inner = Let(i, at, inner)
    grid = ix.ceildiv(count, ix.index(threads))
    inner = bound(thread, ix.index(threads), "threadIdx.x", inner)
    return bound(block, grid, "blockIdx.x", inner)


def _by_element(scene: Scene, schedule: str) -> PrimFunc:
    nest = scene.nest
    if not nest.index:
        one = bound(Var(scene.names.fresh("tx")), ix.ONE, "threadIdx.x", nest.body)
        block = Var(scene.names.fresh("bx"))
        return scene.kernel(bound(block, ix.ONE, "blockIdx.x", one), schedule)
    if len(nest.index) == 1:
        return scene.kernel(_spread(scene, nest.index[0], nest.numel, nest.body), schedule)
    i = Var(scene.names.fresh("i"))
    table = dict(zip(nest.index, ix.unflatten(i, nest.extents), strict=True))
    body = let_all(table, nest.body)
    return scene.kernel(_spread(scene, i, nest.numel, body), schedule)


def _contiguous(scene: Scene) -> frozenset[str] | None:
    """Parameters that are read and written at the flat index of the nest alone.

    None if a parameter with more than one element is read at another index, or an index
    variable has another use.
    """
    nest = scene.nest
    if not nest.index:
        return None
    sizes = [scene.affine.poly(e) for e in nest.extents]
    flat: Poly = scene.affine.offset(nest.index, sizes)
    numel = scene.affine.poly(nest.numel)
    same: set[str] = set()
    for name, at in scene.accesses():
        if scene.offset(name, at) == flat:
            size = scene.affine.poly(ix.mul(*scene.shape(name)))
            if size != numel:
                return None
            same.add(name)
        elif not (is_constant(scene.offset(name, at)) and name not in same):
            return None
    loops = {v.name for v in nest.index}
    return None if _uses(nest.body, loops, same) else frozenset(same)


def _uses(s: Stmt, names: set[str], same: set[str]) -> bool:
    """Tell whether a variable is used outside the indices of the parameters ``same``."""
    found = False

    def on_expr(e: Expr) -> Expr:
        nonlocal found
        if isinstance(e, Var) and e.name in names:
            found = True
        if not (isinstance(e, Load) and e.buffer in same):
            map_expr(on_expr, e)
        return e

    def on_stmt(b: Stmt) -> Stmt:
        if isinstance(b, Store) and b.buffer in same:
            on_expr(b.value)
        else:
            map_stmt(b, on_expr, on_stmt)
        return b

    on_stmt(s)
    return found


def _is_wide(scene: Scene, numel: Expr) -> bool:
    if not (scene.vectorise and isinstance(numel, Const) and int(numel.value) % LANES == 0):
        return False
    return int(numel.value) > 0 and _is_straight(scene.nest.body)


def _is_straight(s: Stmt) -> bool:
    match s:
        case Let(body=body):
            return _is_straight(body)
        case Block(body):
            return all(_is_straight(b) for b in body)
        case _:
            return isinstance(s, Store)


def _flat(s: Stmt, same: frozenset[str], at: Expr) -> Stmt:
    """Read and write the parameters ``same`` at ``at``."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in same:
            return Load(e.buffer, (at,), e.dtype)
        return map_expr(on_expr, e)

    def on_stmt(b: Stmt) -> Stmt:
        if isinstance(b, Store) and b.buffer in same:
            return Store(b.buffer, (at,), on_expr(b.value))
        return map_stmt(b, on_expr, on_stmt)

    return on_stmt(s)


def _vector(scene: Scene, same: frozenset[str], schedule: str) -> PrimFunc:
    i, v = Var(scene.names.fresh("i")), Var(scene.names.fresh("v"))
    at = ix.add(ix.mul(i, ix.index(LANES)), v)
    body = _flat(scene.nest.body, same, at)
    loop = For(v, ix.index(LANES), body, LoopKind.VECTORIZED)
    count = ix.floordiv(scene.nest.numel, ix.index(LANES))
    return scene.kernel(_spread(scene, i, count, loop), f"{schedule}_wide", same)
