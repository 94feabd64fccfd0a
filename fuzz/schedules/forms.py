"""Functions of forms that passes write out: blocks, vectors, producers, external calls, returns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from didyma.fuzz.schedules.maker import Maker
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.loop import (
    Binary,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferRealize,
    Compute,
    Expr,
    ExternalAllocate,
    ExternalCall,
    For,
    Free,
    IterKind,
    IterVar,
    Load,
    PrimFunc,
    ProducerRealize,
    Ramp,
    Region,
    Return,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import exprs, stmts
from didyma.refimpl.verify import loop as laws

LEAST = 3  # columns that there are whatever the sizes are
MOST_SIZE = 6  # of a symbolic side: the definition runs these functions, one thread at a time


def _make(
    outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]
) -> Sequence[Array]:
    assert not outputs
    return (np.flip(inputs[0], int(str(attrs["axis"]))).copy(),)


def _mix(outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]) -> None:
    del attrs
    with np.errstate(all="ignore"):
        outputs[0][...] = inputs[0][::-1] + inputs[1]


ROUTINES: Mapping[str, Routine] = {"make": _make, "mix": _mix}


def formed(chance: random.Random) -> PrimFunc:
    """Return a function of one to three such forms that is legal."""
    while True:
        m = Maker(chance)
        m.exact = False
        f = _function(m)
        try:
            laws.verify(f)
        except DidymaError:  # a region that is not proved, or a lane that reads another's place
            continue
        return f


def _function(m: Maker) -> PrimFunc:
    sizes = tuple(DimVar(n, 1, MOST_SIZE) for n in dims.free(m.shape))
    parts = [_part(m) for _ in range(m.chance.choice((1, 2, 2, 3)))]
    if m.chance.random() < 0.4:
        parts = [*parts[:1], *_divided(m, parts[1:])]
    returns = None
    if m.chance.random() < 0.2:
        returns = m.dtype
        parts.append(Return(Load(m.target(), (ix.ONE, ix.ZERO), m.dtype)))
    body = parts[0] if len(parts) == 1 else Block(tuple(parts))
    return PrimFunc("forms", tuple(m.buffers), ("b", "c"), body, sizes, returns=returns)


def _part(m: Maker) -> Stmt:
    kinds: list[Callable[[Maker, Var, Var], Stmt]] = [
        *[blocked] * 3, *[vector] * 2, *[produced] * 2, *[realized] * 2, plain, strided,
    ]  # fmt: skip
    return m.chance.choice(kinds)(m, m.loop(), m.loop())


def plain(m: Maker, i: Var, j: Var) -> Stmt:
    """Return two loops around stores."""
    return m.over(i, j, m.some(i, j))


def strided(m: Maker, i: Var, j: Var) -> Stmt:
    """Return a loop of constant extent over a store of every other element, or backwards."""
    back = ix.sub(ix.index(LEAST - 1), j)
    count, own = m.chance.choice(((2, ix.mul(j, ix.index(2))), (LEAST, back)))
    read = m.chance.choice((own, j, back))
    value = Binary(m.op(), Load("a", (i, read), m.dtype), Load("a", (i, ix.ZERO), m.dtype))
    return For(i, m.rows, For(j, ix.index(count), Store(m.target(), (i, own), value)))


# ---- blocks


def blocked(m: Maker, i: Var, j: Var) -> Stmt:
    """Return loops around a block, whose variables may run the other way, or be split."""
    p, q = m.loop(), m.loop()
    where: Expr = ix.TRUE
    rows, row = m.rows, ix.add(i)
    if m.chance.random() < 0.4:
        u = m.loop()
        row = ix.add(ix.mul(i, ix.index(2)), u)
        where = ix.compare("lt", row, rows)
    elif m.chance.random() < 0.5:
        row = ix.sub(ix.sub(rows, ix.ONE), i)
        u = None
    else:
        u = None
    column = j if m.chance.random() < 0.5 else ix.sub(ix.sub(m.columns, ix.ONE), j)
    if where == ix.TRUE and m.chance.random() < 0.3:
        where = ix.compare("lt", ix.add(i, j), ix.index(m.chance.choice((2, 4))))
    kinds = [m.chance.choice((IterKind.SPATIAL, IterKind.SPATIAL, IterKind.REDUCE)) for _ in "pq"]
    body, init = m.some(p, q), None
    if IterKind.REDUCE in kinds and m.chance.random() < 0.7:
        own = zip((p, q), kinds, strict=True)
        first = tuple(v if k is IterKind.SPATIAL else ix.ZERO for v, k in own)
        init = Store(m.target(), first, m.number(m.chance.choice((0, 1, 3))))
    reduced = {v.name for v, k in zip((p, q), kinds, strict=True) if k is IterKind.REDUCE}
    inside = body if init is None else Block((init, body))
    tight = m.chance.random() < 0.5
    loads = [(e.buffer, e.index) for e in exprs(inside) if isinstance(e, Load)]
    stores = [(s.buffer, s.index) for s in stmts(inside) if isinstance(s, Store)]
    regions = [
        tuple(dict.fromkeys(_region(m, b, at, tight, fixed) for b, at in found))
        for found, fixed in ((loads, set[str]()), (stores, reduced))
    ]
    vars = tuple(
        IterVar(v, end, kind, value)
        for v, end, kind, value in zip((p, q), (rows, m.columns), kinds, (row, column), strict=True)
    )
    block: Stmt = BlockRealize(vars, where, regions[0], regions[1], init, body)
    block = For(j, m.columns, block)
    if u is None:
        return For(i, rows, block)
    return For(i, ix.ceildiv(rows, ix.index(2)), For(u, ix.index(2), block))


def _region(m: Maker, buffer: str, at: tuple[Expr, ...], tight: bool, fixed: set[str]) -> Region:
    """Return one element of a buffer, or all of it."""
    used = {e.name for i in at for e in (i, *_below(i)) if isinstance(e, Var)}
    if tight and not used & fixed:
        return Region(buffer, at, (ix.ONE,) * len(at))
    return Region(buffer, (ix.ZERO,) * len(at), tuple(map(ix.of_dim, m.shape)))


def _below(e: Expr) -> tuple[Expr, ...]:
    return (e.lhs, e.rhs) if isinstance(e, Binary) else ()


# ---- vectors


def vector(m: Maker, i: Var, j: Var) -> Stmt:
    """Return stores of vectors: forwards, backwards, or of every other element."""
    total = LEAST if not isinstance(m.sides[1], int) else m.sides[1] + LEAST - 1
    lanes = m.chance.choice((2, 4)) if total >= 4 else 2
    count = total // lanes
    own = Ramp(ix.mul(j, ix.index(lanes)), 1, lanes)
    if m.chance.random() < 0.4:
        last = ix.index(total - 1)
        own = Ramp(ix.sub(last, ix.mul(j, ix.index(lanes))), -1, lanes)
    read = m.chance.choice((own, Ramp(ix.ZERO, 1, lanes), Ramp(ix.index(lanes - 1), -1, lanes)))
    if 2 * lanes - 1 <= total and m.chance.random() < 0.3:
        read = Ramp(ix.ZERO, 2, lanes)
    target = m.target()
    near = Load("a", (ix.add(i, ix.index(m.chance.choice((0, 1, 2)))), read), m.dtype)
    same: Expr = Broadcast(Load("a", (i, ix.ZERO), m.dtype), lanes)
    if m.chance.random() < 0.5:
        same = Load(target, (i, own), m.dtype)
    store = Store(target, (i, own), Binary(m.op(), near, same))
    return For(i, m.rows, For(j, ix.index(count), store))


# ---- parts of buffers


def _box(m: Maker) -> tuple[Expr, int]:
    """Return where some columns begin that there always are, and how many they are."""
    total = LEAST if not isinstance(m.sides[1], int) else m.sides[1] + LEAST - 1
    count = m.chance.choice((1, 2, LEAST))
    return ix.index(m.chance.randrange(total - count + 1)), count


def produced(m: Maker, i: Var, j: Var) -> Stmt:
    """Return what is defined apart, then computed where it is used; at times by another."""
    first, count = _box(m)
    e = Buffer(m.name("e"), m.dtype, m.shape, Scope.LOCAL)
    p, q = m.loop(), m.loop()
    value = Binary(m.op(), Load("a", (p, q), m.dtype), Load("a", (p, ix.ZERO), m.dtype))
    last, starts, extents = e, (ix.add(i), first), (m.chance.choice((2, 3)), count)
    inner: Compute | None = None
    if m.chance.random() < 0.4:
        last = replace(e, name=m.name("d"))
        x, y = m.loop(), m.loop()
        more = Binary(m.op(), Load(e.name, (x, y), m.dtype), m.number(3))
        inner = Compute(last, (x, y), Store(last.name, (x, y), more), Block(()))
    column = ix.add(first, j)
    rows = [ix.add(i, ix.index(m.chance.choice((0, 1)))) for _ in range(2)]
    used = Binary(m.op(), *(Load(last.name, (r, column), m.dtype) for r in rows))
    body: Stmt = For(j, ix.index(count), Store(m.target(), (i, column), used))
    if inner is not None:
        body = ProducerRealize(last.name, starts, extents, body)
    body = For(i, m.rows, ProducerRealize(e.name, starts, extents, body))
    if inner is not None:
        body = replace(inner, body=body)
    return Compute(e, (p, q), Store(e.name, (p, q), value), body)


def realized(m: Maker, i: Var, j: Var) -> Stmt:
    """Return a part of a buffer that is filled, then read."""
    first, count = _box(m)
    t = Buffer(m.name("t"), m.dtype, m.shape, Scope.LOCAL)
    u, v = m.loop(), m.loop()
    at = ix.add(i, u), ix.add(first, v)
    fill = For(u, ix.index(2), For(v, ix.index(count), Store(t.name, at, Load("a", at, m.dtype))))
    column = ix.add(first, j)
    rows = [ix.add(i, ix.index(m.chance.choice((0, 1)))) for _ in range(2)]
    used = Binary(m.op(), *(Load(t.name, (r, column), m.dtype) for r in rows))
    use = For(j, ix.index(count), Store(m.target(), (i, column), used))
    part = BufferRealize(t, (i, first), (2, count), Block((fill, use)))
    return For(i, m.rows, part)


# ---- external calls


def _divided(m: Maker, parts: Sequence[Stmt]) -> list[Stmt]:
    """Return parts with external calls around them."""
    i, j = m.loop(), m.loop()
    t = Buffer(m.name("made"), m.dtype, m.shape)
    kept = Store(t.name, (i, j), Binary(m.op(), Load(t.name, (i, j), m.dtype), m.number(3)))
    uses: list[Stmt] = [m.over(i, j, kept)] if m.chance.random() < 0.5 else []
    x, y = m.loop(), m.loop()
    read = Binary(m.op(), Load(t.name, (x, y), m.dtype), m.load(x, y, "a"))
    uses.append(m.over(x, y, Store(m.target(), (x, y), read)))
    z, w = m.chance.sample("bc", 2)
    mixed = ExternalCall("mix", (z,), m.chance.choice(((t.name, w), (w, t.name), ("a", w))))
    inside = [*uses, mixed, *parts] if m.chance.random() < 0.5 else [*parts, mixed, *uses]
    last = max(n for n, s in enumerate(inside) if _uses(s, t.name))
    inside.insert(m.chance.randrange(last + 1, len(inside) + 1), Free(t.name))
    attrs: tuple[tuple[str, Attr], ...] = (("axis", m.chance.choice((0, 1))),)
    return [ExternalAllocate("make", (t,), (m.any(),), attrs, Block(tuple(inside)))]


def _uses(s: Stmt, buffer: str) -> bool:
    if isinstance(s, ExternalCall):
        return buffer in s.inputs
    return any(isinstance(e, Load) and e.buffer == buffer for e in exprs(s))
