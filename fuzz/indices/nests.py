"""Random nests of loops that read and write at random affine indices, and divided ones.

Every element of a result is stored once.  What is read lies inside its buffer, because buffers are
as large as the largest index, because the index is reduced modulo the size, or behind a guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from didyma.fuzz.emission.kernels import Case
from didyma.fuzz.indices.evaluate import evaluate
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Let,
    Load,
    LoopKind,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import Array, DType

EXTENTS = (4, 3, 8, 5, 2, 12, 1, 7, 16, 6, 20, 33)
MOST = 3000  # iterations of a nest, and elements of a buffer
RANGES = ((1, 8), (2, 13), (1, 40), (4, 4), (3, 24))
DTYPES = (DType.I32, DType.F32, DType.U8, DType.I64, DType.F64)


@dataclass
class Grid:
    """The loops of a nest, and the values of their variables and of the sizes everywhere."""

    r: Random
    sizes: list[DimVar] = field(default_factory=list[DimVar])
    index: list[Var] = field(default_factory=list[Var])
    shape: list[Dim] = field(default_factory=list[Dim])
    values: dict[str, Array] = field(default_factory=dict[str, Array])

    @staticmethod
    def draw(r: Random) -> Grid:
        """Draw up to two sizes and one to four loops."""
        g = Grid(r)
        for name in ("n", "m")[: r.choice((0, 0, 1, 1, 2))]:
            lo, hi = r.choice(RANGES)
            g.sizes.append(DimVar(name, lo, hi))
            g.values[name] = np.asarray(r.randint(lo, hi), np.int64)
        extents: list[int] = []
        for k in range(r.choice((1, 2, 2, 2, 3, 3, 4))):
            d = g.extent()
            count = int(evaluate(ix.of_dim(d), g.values))
            if count * int(np.prod(extents, dtype=np.int64)) > MOST:
                d = count = 2
            g.index.append(Var(f"i{k}"))
            g.shape.append(d)
            extents.append(count)
        for k, v in enumerate(g.index):
            ones = (1,) * (len(extents) - k - 1)
            g.values[v.name] = np.arange(extents[k]).reshape((-1, *ones))
        return g

    def extent(self) -> Dim:
        """Draw the extent of a loop."""
        if not self.sizes or self.r.random() < 0.6:
            return self.r.choice(EXTENTS)
        s = dims.symbol(self.r.choice(self.sizes).name)
        return self.r.choice((s, s, dims.mul(s, 2), dims.mul(s, 4), dims.add(s, 1)))

    @property
    def env(self) -> dict[str, int]:
        """The value of each size."""
        return {v.name: int(self.values[v.name]) for v in self.sizes}

    def extents(self) -> list[Expr]:
        """Return the extents as expressions."""
        return [ix.of_dim(d) for d in self.shape]

    def ends(self, e: Expr) -> tuple[int, int]:
        """Return the smallest and the largest value of an index; (0, 0) if no loop runs."""
        x = np.broadcast_arrays(evaluate(e, self.values), *self.values.values())[0]
        return (int(x.min()), int(x.max())) if x.size else (0, 0)

    # ---- expressions

    def number(self) -> Expr:
        """Draw an index expression."""
        e = self.affine()
        while self.r.random() < 0.5:
            e = self.divided(e)
        return e

    def affine(self) -> Expr:
        """Draw a sum of multiples of variables, sizes and constants, some of them negative."""
        r = self.r
        if r.random() < 0.25:  # the flat index of some of the loops
            some = sorted(r.sample(range(len(self.index)), r.randint(1, len(self.index))))
            sizes = self.extents()
            return ix.flatten([self.index[k] for k in some], [sizes[k] for k in some])
        e: Expr = r.choice(self.index)
        for _ in range(r.choice((0, 1, 1, 2, 3))):
            op: BinaryOp = "sub" if r.random() < 0.3 else "add"
            e = Binary(op, e, self.term())
        return e

    def term(self) -> Expr:
        """Draw a multiple of a variable or a size, or a constant."""
        r = self.r
        atoms: list[Expr] = [*self.index, *self.index, *(Var(s.name) for s in self.sizes)]
        if r.random() < 0.25:
            return ix.index(r.choice((1, 2, 3, 4, 5, 8)))
        factor = r.choice((*(ix.index(k) for k in (1, 1, 2, 3, 4, 8)), *self.extents()))
        return ix.mul(r.choice(atoms), factor)

    def divided(self, e: Expr) -> Expr:
        """Draw a quotient or a remainder, and what may follow it."""
        r = self.r
        by = self.divisor()
        quotient, rest = Binary("floordiv", e, by), Binary("floormod", e, by)
        match r.randrange(6):
            case 0:
                return quotient
            case 1:
                return rest
            case 2:
                return Binary("add", ix.mul(quotient, by), rest)
            case 3:
                return Binary("add", ix.mul(rest, ix.index(r.choice((1, 2, 4)))), self.term())
            case 4:
                return Binary("sub", self.term(), r.choice((rest, quotient)))
            case _:
                return Binary("add", r.choice((rest, quotient)), self.affine())

    def divisor(self) -> Expr:
        """Draw a number, a size, a multiple of one, or a sum of two terms."""
        r = self.r
        sizes: list[Expr] = [Var(s.name) for s in self.sizes]
        if not sizes or r.random() < 0.5:
            return ix.index(r.choice((2, 3, 4, 8, 5, 7, 1, 12, -3)))
        n = r.choice(sizes)
        other = r.choice((*sizes, ix.ONE, ix.index(2)))
        return r.choice((n, n, Binary("mul", n, ix.index(2)), Binary("add", n, other)))

    def place(self) -> tuple[Expr, int]:
        """Draw an index that is never negative, with a size that holds all of its values."""
        r = self.r
        e = self.number() if r.random() < 0.7 else r.choice(self.index)
        low, high = self.ends(e)
        if low < 0:
            e = r.choice((Binary("add", e, ix.index(-low)), Binary("sub", ix.index(high), e)))
            high -= low
        if high >= MOST:
            size = r.choice((4, 7, 12, 32))
            return Binary("floormod", e, ix.index(size)), size
        more = r.choice((1, 1, 1, 2, 4))
        return e, -(-(high + more) // 4) * 4 if r.random() < 0.4 else high + more


@dataclass
class _Nest:
    """A nest in the making."""

    g: Grid
    dtype: DType
    inputs: list[Buffer] = field(default_factory=list[Buffer])

    def buffer(self, dtype: DType, shape: Sequence[Dim]) -> str:
        self.inputs.append(Buffer(f"x{len(self.inputs)}", dtype, tuple(shape)))
        return self.inputs[-1].name

    def read(self) -> Expr:
        """Draw an element of an input."""
        g, r, dtype = self.g, self.g.r, self.dtype
        kind = r.random()
        rank = len(g.index)
        if kind < 0.35:  # at the loops' own indices, in some order, without some of them
            some = r.sample(range(rank), r.randint(1, rank))
            if r.random() < 0.5:
                some.sort()
            name = self.buffer(dtype, [g.shape[k] for k in some])
            return Load(name, tuple(g.index[k] for k in some), dtype)
        if kind < 0.75:
            found = [g.place() for _ in range(r.choice((1, 1, 2, 3)))]
            while np.prod([size for _, size in found]) > MOST:
                found.pop()
            if not found:
                found = [(g.index[-1], g.ends(g.index[-1])[1] + 1)]
            name = self.buffer(dtype, [size for _, size in found])
            return Load(name, tuple(e for e, _ in found), dtype)
        if kind < 0.9:  # behind a guard
            e, size = g.number(), r.choice((1, 4, 5, 8, 16))
            inside = ix.all_of((ix.compare("ge", e, ix.ZERO), ix.compare("lt", e, ix.index(size))))
            element = Load(self.buffer(dtype, [size]), (e,), dtype)
            other: Expr = Const(1 if dtype.is_int else 1.0, dtype)
            if r.random() < 0.5:
                other = Load(self.buffer(dtype, [g.shape[-1]]), (g.index[-1],), dtype)
            return Select(inside, element, other)
        size = r.choice((4, 7, 16))
        last = Load(self.buffer(DType.I32, [g.shape[-1]]), (g.index[-1],), DType.I32)
        at = Binary("floormod", Cast(last, INDEX), ix.index(size))
        return Load(self.buffer(dtype, [size]), (at,), dtype)

    def value(self) -> Expr:
        """Draw a value made of a few elements."""
        r = self.g.r
        e = self.read()
        for _ in range(r.choice((0, 0, 1, 1, 2))):
            ops: tuple[BinaryOp, ...] = ("add", "sub", "max")
            e = Binary(r.choice(ops), e, self.read())
        return e

    def store(self, number: int, order: Sequence[int]) -> tuple[Buffer, Stmt]:
        """Draw a result, each element of which one iteration stores."""
        g = self.g
        index, shape = [g.index[k] for k in order], [g.shape[k] for k in order]
        value = self.value()
        if g.r.random() < 0.2:  # one-dimensional
            flat = ix.flatten(index, [ix.of_dim(d) for d in shape])
            out = Buffer(f"y{number}", value.dtype, (dims.mul(*shape),))
            return out, Store(out.name, (flat,), value)
        out = Buffer(f"y{number}", value.dtype, tuple(shape))
        return out, Store(out.name, tuple(index), value)


def draw(r: Random) -> Case:
    """Draw a nest."""
    g = Grid.draw(r)
    n = _Nest(g, r.choice(DTYPES))
    outputs: list[Buffer] = []
    stores: list[Stmt] = []
    order = list(range(len(g.index)))
    for k in range(r.choice((1, 1, 1, 2))):
        if r.random() < 0.25:
            r.shuffle(order)
        out, store = n.store(k, order)
        outputs.append(out)
        stores.append(store)
    body: Stmt = stores[0] if len(stores) == 1 else Block(tuple(stores))
    if r.random() < 0.2:
        at = Var("at")
        e, size = g.place()
        extra = Load(n.buffer(n.dtype, [size]), (at,), n.dtype)
        shape = tuple(g.shape)
        outputs.append(Buffer(f"y{len(outputs)}", n.dtype, shape))
        last = Store(outputs[-1].name, tuple(g.index), extra)
        body = Let(at, e, Block((body, last)))
    for v, e in reversed(list(zip(g.index, g.extents(), strict=True))):
        body = For(v, e, body, LoopKind.PARALLEL)
    names = tuple(b.name for b in outputs)
    f = PrimFunc("nest", (*n.inputs, *outputs), names, body, tuple(g.sizes))
    return Case(f, tuple(g.env.items()), r.randrange(1 << 30))
