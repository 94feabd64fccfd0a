"""How the threads of a drawn kernel run: each for itself, in lanes, one alone, or together."""

from __future__ import annotations

from random import Random

from didyma.fuzz.emission.expressions import DTYPES
from didyma.fuzz.emission.kernels import SHORT, SIZE, STATEMENTS, Case, Draft, loaded
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.loop import (
    Allocate,
    AttrStmt,
    Barrier,
    Binary,
    Block,
    Buffer,
    Compare,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import DType

THREADS = (16, 32, 48)
GROUPS = (4, 4, 2, 8, 16)  # neighbours of a thread


def draw(r: Random) -> Case:
    """Draw a kernel."""
    k = Draft(r)
    n: Dim = SIZE
    env: tuple[tuple[str, int], ...] = ()
    if r.random() < 0.4:
        k.dims.append(DimVar("n", 0, SIZE))
        k.x.counters.append(Var("n"))
        n, env = dims.symbol("n"), (("n", r.choice((0, 1, 17, 47, 48))),)
    body = r.choice(_FORMS)(k, n)
    used = loaded(body)
    for f in k.functions:
        used |= loaded(f.body)
    every = (b for d in dict.fromkeys(DTYPES) for b in (*k.inputs[d], k.short[d]))
    inputs = [b for b in every if b.name in used]
    params = (*inputs, *k.outputs)
    kernel = PrimFunc(
        "kernel", params, tuple(o.name for o in k.outputs), body, tuple(k.dims),
        functions=tuple(k.functions),
    )  # fmt: skip
    return Case(kernel, env, r.randrange(1 << 30))


def _threads(k: Draft, n: Dim) -> Stmt:
    """A thread for each element, in blocks that need not fill the size."""
    r = k.r
    threads = r.choice(THREADS)
    block, thread, at = Var("b"), Var("t"), Var("i")
    k.at = at
    k.x.counters += [block, thread, at]
    k.x.places = [at, at, thread]
    inner = Block((k.statements(STATEMENTS, 3), *k.small()))
    guarded = If(Compare("lt", at, ix.of_dim(n)), inner)
    number = Binary("add", Binary("mul", block, ix.index(threads)), thread)
    in_block = Let(at, number, guarded)
    blocks = ix.of_dim(dims.ceildiv(n, threads))
    return _bound(block, blocks, "blockIdx.x", _bound(thread, threads, "threadIdx.x", in_block))


def _serial(k: Draft, n: Dim) -> Stmt:
    """A loop of one thread."""
    at = Var("i")
    k.at = at
    k.x.counters.append(at)
    k.x.places = [at]
    kind = k.r.choice((LoopKind.SERIAL, LoopKind.PARALLEL))
    return For(at, ix.of_dim(n), k.statements(STATEMENTS, 2), kind)


def _wide(k: Draft, n: Dim) -> Stmt:
    """Some neighbours in each thread, by wide accesses where every lane makes them.

    Some of what lanes read is in groups of another length, whose numbers are those of its own.
    """
    del n
    thread, lane, many = Var("t"), Var("v"), k.r.choice(GROUPS)
    k.at = _of_group(thread, many, lane)
    k.x.counters += [thread, lane]
    k.x.places = [k.at, k.at, k.at, thread]
    other = k.r.choice((many // 2, 2 * many))
    if 0 < other * (SIZE // many - 1) + many <= SIZE:
        k.x.places.append(_of_group(thread, other, lane))
    half = Binary("floordiv", thread, ix.index(2))
    k.x.places.append(_of_group(half, 2 * many, lane))
    if k.r.random() < 0.5:
        k.x.end, k.x.short = SHORT, k.short
    stores: list[Stmt] = [k.store() for _ in range(STATEMENTS)]
    if k.r.random() < 0.3:
        stores.append(k.let(0))
    if k.r.random() < 0.2:
        stores.append(k.branch(0))
    by = Var(k.x.fresh("v"), DType.F32)
    if divides := k.r.random() < 0.4:
        stores.append(k.divided(by))
    loop: Stmt = For(lane, ix.index(many), Block(tuple(stores)), LoopKind.VECTORIZED)
    if divides:
        loop = Let(by, Load(k.inputs[DType.F32][0].name, (thread,), DType.F32), loop)
    return _bound(thread, SIZE // many, "threadIdx.x", loop)


def _of_group(group: Expr, many: int, lane: Expr) -> Expr:
    return Binary("add", Binary("mul", group, ix.index(many)), lane)


def _shared(k: Draft, n: Dim) -> Stmt:
    """Threads that read what their neighbours stored, behind a barrier."""
    del n
    thread, dtype = Var("t"), k.r.choice(DTYPES)
    k.at = thread
    k.x.counters.append(thread)
    k.x.places = [thread]
    tile = Buffer("tile", dtype, (SIZE,), Scope.SHARED)
    fill = Store(tile.name, (thread,), k.x.value(dtype, 3))
    k.x.buffers = {**k.inputs, dtype: [*k.inputs[dtype], tile]}
    rest = k.statements(3, 2)
    body = _bound(thread, SIZE, "threadIdx.x", Block((fill, Barrier(), rest)))
    return Allocate(tile, body)


def _ahead(k: Draft, n: Dim) -> Stmt:
    """Threads that go on while copies to shared memory run, and read them once they have ended."""
    del n
    thread, lane, many = Var("t"), Var("v"), k.r.choice((1, *GROUPS))
    own = _of_group(thread, many, ix.ZERO if many == 1 else lane)
    copies, tiles = list[Stmt](), list[Buffer]()
    for dtype in (k.r.choice(DTYPES) for _ in range(k.r.randint(1, 2))):
        tile = Buffer(k.x.fresh("tile"), dtype, (SIZE,), Scope.SHARED)
        copies.append(Store(tile.name, (own,), Load(k.inputs[dtype][0].name, (own,), dtype)))
        tiles.append(tile)
    begin: Stmt = Block(tuple(copies))
    if many > 1:
        begin = For(lane, ix.index(many), begin, LoopKind.VECTORIZED)
    k.at = thread
    k.x.counters.append(thread)
    k.x.places = [thread]
    meanwhile = k.statements(1, 2)
    for tile in tiles:
        k.x.buffers = {**k.x.buffers, tile.dtype: [*k.x.buffers[tile.dtype], tile]}
    rest = Block((Barrier(), k.statements(2, 2)))
    guarded = If(Compare("lt", thread, ix.index(SIZE // many)), AttrStmt("copies", "begin", begin))
    body: Stmt = Block((guarded, meanwhile, AttrStmt("copies", "end", rest)))
    body = _bound(thread, SIZE, "threadIdx.x", body)
    for tile in tiles:
        body = Allocate(tile, body)
    return body


_FORMS = (_threads, _threads, _threads, _wide, _wide, _serial, _shared, _ahead)


def _bound(var: Var, extent: Expr | int, axis: str, body: Stmt) -> For:
    e = ix.index(extent) if isinstance(extent, int) else extent
    return For(var, e, body, LoopKind.BOUND, axis)
