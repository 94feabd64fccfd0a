"""Random kernels whose values are exact: any two ways to run them agree bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.loop import (
    ATOMIC_OPS,
    Allocate,
    Atomic,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import BYTES, INTS, SIGNED, Array, DType

WIDTH = 6
THREADS = 8
COMPUTED = tuple(d for d in BYTES if d.compute is d)
_INT_OPS: tuple[BinaryOp, ...] = (
    "add", "sub", "mul", "floordiv", "truncdiv", "floormod", "truncmod", "min", "max", "pow",
    "and", "or", "xor", "shl", "shr",
)  # fmt: skip
_FLOAT_OPS: tuple[BinaryOp, ...] = ("add", "sub", "mul", "div", "min", "max")
_BOOL_OPS: tuple[BinaryOp, ...] = ("and", "or", "xor", "min", "max")
_EXACT = ("sqrt", "floor", "ceil", "trunc", "round")
_COMPARE: tuple[CompareOp, ...] = ("eq", "ne", "lt", "le", "gt", "ge")


def corners(dtype: DType) -> Sequence[int | float | bool]:
    """Values that tell implementations apart."""
    if dtype is DType.BOOL:
        return [False, True]
    if dtype.is_float:
        tiny = float(np.finfo(np.float32).smallest_subnormal)
        return [0.0, -0.0, 1.0, -1.5, 2.5, 1e30, tiny, float("inf"), float("-inf"), float("nan")]
    info = np.iinfo(dtype.numpy)
    return [0, 1, 2, 7, int(info.min), int(info.max)] + [-1, -7] * (dtype in SIGNED)


def data(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    """An input: corners and small numbers."""
    rng = np.random.default_rng(seed)
    small = rng.integers(-9 if dtype.is_signed else 0, 10, shape).astype(np.float64)
    if dtype.is_float:
        small /= 4
    with np.errstate(all="ignore"):
        values = small.astype(dtype.numpy)
        extremes = np.array(corners(dtype.compute), dtype.compute.numpy).astype(dtype.numpy)
    return np.where(rng.random(shape) < 0.4, rng.choice(extremes, shape), values).astype(
        dtype.numpy
    )


@dataclass
class Draw:
    """Draws one kernel from a seed."""

    r: Random
    rows: Dim
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    scope: list[Var] = field(default_factory=list[Var])  # values in reach
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def leaf(self, dtype: DType) -> Expr:
        choices: list[Expr] = [Const(self.r.choice(corners(dtype)), dtype)]
        choices += [v for v in self.scope if v.dtype is dtype] * 2
        choices += [self.load(b) for b in self.buffers if b.dtype.compute is dtype for _ in "123"]
        if len(choices) < 4:
            choices += [Cast(self.load(b), dtype) for b in self.buffers]
            choices += [Cast(v, dtype) for v in self.scope]
        return self.r.choice(choices)

    def load(self, b: Buffer, row: Expr | None = None) -> Expr:
        i = row if row is not None else Var("i")
        at = (i, self.column()) if len(b.shape) == 2 else (i,)
        e = Load(b.name, at, b.dtype)
        return e if b.dtype.compute is b.dtype else Cast(e, b.dtype.compute)

    def column(self) -> Expr:
        data_ = [v for v in self.scope if v.dtype is DType.I64]
        if data_ and self.r.random() < 0.4:
            v = self.r.choice(data_)
            if self.r.random() < 0.5:
                return Binary("floormod", v, ix.index(WIDTH))
            top = ix.index(WIDTH - 1)
            return Binary("min", Binary("max", Binary("add", v, ix.ONE), ix.ZERO), top)
        return ix.index(self.r.randrange(WIDTH))

    def expr(self, dtype: DType, depth: int) -> Expr:
        if depth == 0 or self.r.random() < 0.1:
            return self.leaf(dtype)
        pick = self.r.random()
        if pick < 0.12:
            return self.let(dtype, depth - 1)
        if pick < 0.26:
            return self.select(dtype, depth - 1)
        if pick < 0.40:
            return Cast(self.expr(self.r.choice(COMPUTED), depth - 1), dtype)
        if dtype is DType.BOOL:
            return self.truth(depth - 1)
        if pick < 0.52:
            return self.one(dtype, depth - 1)
        op = self.r.choice(_FLOAT_OPS if dtype.is_float else _INT_OPS)
        return Binary(op, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))

    def let(self, dtype: DType, depth: int) -> Expr:
        kind = self.r.choice(COMPUTED)
        value = self.expr(kind, depth)
        var = Var(self.name("t"), kind)
        self.scope.append(var)
        body = self.expr(dtype, depth)
        self.scope.remove(var)
        return LetExpr(var, value, body)

    def select(self, dtype: DType, depth: int) -> Expr:
        tables = [b for b in self.buffers if len(b.shape) == 2]
        if tables and self.r.random() < 0.5:
            after = Binary("add", Var("i"), ix.ONE)  # out of bounds unless guarded
            guarded = Cast(self.load(tables[0], after), dtype)
            there = Compare("lt", after, ix.of_dim(self.rows))
            return Select(there, guarded, self.expr(dtype, depth))
        return Select(
            self.expr(DType.BOOL, depth), self.expr(dtype, depth), self.expr(dtype, depth)
        )

    def truth(self, depth: int) -> Expr:
        if self.r.random() < 0.6:
            kind = self.r.choice(COMPUTED)
            return Compare(self.r.choice(_COMPARE), self.expr(kind, depth), self.expr(kind, depth))
        if self.r.random() < 0.3:
            return Unary("not", self.expr(DType.BOOL, depth))
        if self.r.random() < 0.3:
            kind = self.r.choice((DType.F32, DType.F64))
            name = self.r.choice(("isnan", "isinf"))  # the sign of a NaN is nobody's promise
            return Intrinsic(name, (self.expr(kind, depth),))
        op = self.r.choice(_BOOL_OPS)
        return Binary(op, self.expr(DType.BOOL, depth), self.expr(DType.BOOL, depth))

    def one(self, dtype: DType, depth: int) -> Expr:
        if dtype.is_float and self.r.random() < 0.5:
            return Intrinsic(self.r.choice(_EXACT), (self.expr(dtype, depth),))
        if dtype.is_int and self.r.random() < 0.4:
            return Unary("not", self.expr(dtype, depth))
        return Unary(self.r.choice(("neg", "abs")), self.expr(dtype, depth))


def _stored(d: Draw, b: Buffer, at: tuple[Expr, ...], depth: int) -> Stmt:
    value = d.expr(b.dtype.compute, depth)
    return Store(b.name, at, value if b.dtype.compute is b.dtype else Cast(value, b.dtype))


def _grid(rows: Dim, body: Stmt) -> Stmt:
    i = ix.add(ix.mul(Var("bx"), ix.index(THREADS)), Var("tx"))
    threads = For(
        Var("tx"), ix.index(THREADS), Let(Var("i"), i, body), LoopKind.BOUND, "threadIdx.x"
    )
    blocks = ix.ceildiv(ix.of_dim(rows), ix.index(THREADS))
    return For(Var("bx"), blocks, threads, LoopKind.BOUND, "blockIdx.x")


def pointwise(seed: int) -> PrimFunc:
    """One value a thread, behind the guard of the tail, with values bound on the way."""
    r = Random(seed)
    n: Dim = symbol("n") if seed % 2 else 13
    d = Draw(r, n)
    d.buffers = [Buffer(f"a{k}", r.choice(BYTES), (n, WIDTH)) for k in range(3)]
    out = Buffer("out", r.choice(BYTES), (n,))
    d.scope += [Var("i"), Var("n")] if seed % 2 else [Var("i")]
    lets: list[tuple[Var, Expr]] = []
    for _ in range(r.randrange(3)):
        kind = r.choice(COMPUTED)
        lets.append((Var(d.name("v"), kind), d.expr(kind, 3)))
        d.scope.append(lets[-1][0])
    body = _stored(d, out, (Var("i"),), 5)
    for var, value in reversed(lets):
        body = Let(var, value, body)
    guarded = If(Compare("lt", Var("i"), ix.of_dim(n)), body)
    declared = (DimVar("n", 0, 40),) if seed % 2 else ()
    return PrimFunc("pointwise", (*d.buffers, out), ("out",), _grid(n, guarded), declared)


def reduction(seed: int) -> PrimFunc:
    """A serial fold into a local scalar, of integers."""
    r = Random(seed)
    n = 11
    d = Draw(r, n)
    d.buffers = [Buffer("a", r.choice(BYTES), (n, WIDTH)), Buffer("b", r.choice(BYTES), (n, WIDTH))]
    kind = r.choice(INTS)
    acc, out = Buffer("acc", kind, (), Scope.LOCAL), Buffer("out", kind, (n,))
    d.scope.append(Var("k"))
    folds: tuple[BinaryOp, ...] = ("add", "mul", "min", "max", "xor")
    op = r.choice(folds)
    step = Store("acc", (), Binary(op, Load("acc", (), kind), d.expr(kind, 3)))
    unrolled = LoopKind.UNROLLED if r.random() < 0.5 else LoopKind.SERIAL
    fold = Block((
        Store("acc", (), Const(r.choice(corners(kind)), kind)),
        For(Var("k"), ix.index(r.randrange(5)), step, unrolled),
        Store("out", (Var("i"),), Load("acc", (), kind)),
    ))  # fmt: skip
    guarded = If(Compare("lt", Var("i"), ix.index(n)), Allocate(acc, fold))
    return PrimFunc("reduction", (*d.buffers, out), ("out",), _grid(n, guarded))


def vectorised(seed: int) -> PrimFunc:
    """Four values a thread over one-dimensional buffers, some of them in reverse."""
    r = Random(seed)
    n = 4 * THREADS
    d = Draw(r, n)
    at = ix.add(ix.mul(Var("tx"), ix.index(4)), Var("lane"))
    inputs = [Buffer(f"a{k}", r.choice(BYTES), (n,)) for k in range(3)]
    lets: list[tuple[Var, Expr]] = []
    for b in inputs:
        place = at if r.random() < 0.7 else ix.sub(ix.index(n - 1), at)
        lets.append((Var(d.name("v"), b.dtype.compute), d.load(b, place)))
    d.scope += [var for var, _ in lets]
    outs = [Buffer(f"out{k}", r.choice(BYTES), (n,)) for k in range(2)]
    body: Stmt = Block(tuple(_stored(d, b, (at,), 3) for b in outs))
    for var, value in reversed(lets):
        body = Let(var, value, body)
    lanes = For(Var("lane"), ix.index(4), body, LoopKind.VECTORIZED)
    threads = For(Var("tx"), ix.index(THREADS), lanes, LoopKind.BOUND, "threadIdx.x")
    return PrimFunc("vectorised", (*inputs, *outs), ("out0", "out1"), threads)


def shared(seed: int) -> PrimFunc:
    """A block turns its elements round in shared memory, then counts them atomically."""
    r = Random(seed)
    n = 3 * THREADS
    kind = r.choice(BYTES)
    count = r.choice((DType.I32, DType.I64, DType.U32, DType.U64))
    a, out = Buffer("a", kind, (n,)), Buffer("out", kind, (n,))
    total = Buffer("total", count, (THREADS,))
    tile = Buffer("tile", kind, (2, THREADS // 2), Scope.SHARED)
    half = ix.index(THREADS // 2)
    i, t = Var("i"), Var("tx")
    turned = ix.sub(ix.index(THREADS - 1), t)

    def cell(at: Expr) -> tuple[Expr, Expr]:
        return ix.floordiv(at, half), ix.mod(at, half)

    body = Block((
        Store("tile", cell(t), Load("a", (i,), kind)),
        Barrier(),
        Store("out", (i,), Load("tile", cell(turned), kind)),
        Atomic(r.choice(ATOMIC_OPS), "total", (ix.mod(i, ix.index(3)),),
               Cast(i, count)),
    ))  # fmt: skip
    return PrimFunc("shared", (a, total, out), ("total", "out"), _grid(n, Allocate(tile, body)))
