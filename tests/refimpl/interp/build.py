"""Short names for loop programs written by hand."""

from __future__ import annotations

from didyma.refimpl.ir import expr
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.loop import (
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    LoopKind,
    Scope,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import DType

F32, I64, BOOL = DType.F32, DType.I64, DType.BOOL
i, j, k, t, b = (Var(n) for n in "ijktb")


def ix(n: int | Expr) -> Expr:
    return expr.index(n) if isinstance(n, int) else n


def f32(x: float) -> Const:
    return Const(x, F32)


def op(name: BinaryOp, x: Expr, y: Expr) -> Expr:
    return Binary(name, x, y)


def plus(x: Expr, y: Expr) -> Expr:
    return Binary("add", x, y)


def times(x: Expr, y: Expr) -> Expr:
    return Binary("mul", x, y)


def load(name: str, *at: Expr | int, dtype: DType = F32) -> Load:
    return Load(name, tuple(ix(a) for a in at), dtype)


def store(name: str, *at: Expr | int, value: Expr) -> Store:
    return Store(name, tuple(ix(a) for a in at), value)


def block(*body: Stmt) -> Block:
    return Block(body)


def serial(v: Var, n: int | Expr, *body: Stmt) -> For:
    return For(v, ix(n), Block(body))


def parallel(v: Var, n: int | Expr, *body: Stmt) -> For:
    return For(v, ix(n), Block(body), LoopKind.PARALLEL)


def vector(v: Var, n: int, *body: Stmt) -> For:
    return For(v, ix(n), Block(body), LoopKind.VECTORIZED)


def grid(n: int | Expr, *body: Stmt, var: Var = b, axis: str = "blockIdx.x") -> For:
    return For(var, ix(n), Block(body), LoopKind.BOUND, axis)


def threads(n: int, *body: Stmt, var: Var = t, axis: str = "threadIdx.x") -> For:
    return For(var, ix(n), Block(body), LoopKind.BOUND, axis)


def buffer(name: str, *shape: Dim, dtype: DType = F32, scope: Scope = Scope.GLOBAL) -> Buffer:
    return Buffer(name, dtype, shape, scope)


def local(name: str, *shape: int, dtype: DType = F32) -> Buffer:
    return Buffer(name, dtype, shape, Scope.LOCAL)


def shared(name: str, *shape: int, dtype: DType = F32) -> Buffer:
    return Buffer(name, dtype, shape, Scope.SHARED)
