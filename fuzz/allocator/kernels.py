"""Tiny kernels whose integer results tell which bytes they read.

Output element ``i`` of the ``k``-th output is ``7 i + salt + k`` plus every input's element, each
times an odd number of its own.  Sums wrap in i64 and are cast to the output's dtype; floats get
them modulo 4096, so that every element is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from didyma.codegen.memory.fewer import wide
from didyma.codegen.memory.views import Mover
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar, add, ceildiv, mul
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.loop import (
    INDEX,
    Block,
    Buffer,
    Cast,
    Compare,
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
from didyma.refimpl.ir.program import Launch, Program
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array, DType, TensorType

DTYPES = (DType.I32, DType.U8, DType.F32, DType.I16, DType.I64)
FLOAT_RANGE = 4096  # floats hold integers below it


class At(StrEnum):
    """Which element of an input the output's element ``i`` takes, modulo the input's length."""

    SAME = "same"  # i: the input may die into the output's bytes
    SHIFTED = "shifted"  # i + 1: it may not
    REVERSED = "reversed"  # length - 1 - i


@dataclass(frozen=True, slots=True)
class Read:
    """An input of a kernel."""

    type: TensorType
    at: At = At.SAME


def kernel(
    name: str,
    reads: Sequence[Read],
    writes: Sequence[TensorType],
    salt: int,
    *,
    updates: bool = False,
    together: bool = False,
    dims: tuple[DimVar, ...] = (),
) -> PrimFunc:
    """Write a kernel: inputs ``x0``… , then outputs ``y0``…

    With ``updates`` each output's own old element is added, and only the first half of them is
    written: the rest must survive.  Outputs ``together``, of one length, are written in one loop,
    whose rounds read all that they need before they write.
    """
    xs = tuple(Buffer(f"x{k}", r.type.dtype, (r.type.numel,)) for k, r in enumerate(reads))
    ys = tuple(Buffer(f"y{k}", t.dtype, (t.numel,)) for k, t in enumerate(writes))
    if together:
        body: Stmt = _together(ys, xs, reads, salt)
    else:
        body = Block(tuple(_nest(k, y, xs, reads, salt, updates) for k, y in enumerate(ys)))
    return PrimFunc(name, (*xs, *ys), tuple(y.name for y in ys), body, dims)


def _together(ys: Sequence[Buffer], xs: Sequence[Buffer], reads: Sequence[Read], salt: int) -> Stmt:
    i, size = Var("i"), ys[0].shape[0]
    held = [Var(f"read{j}") for j in range(len(xs))]
    stores: list[Stmt] = []
    for k, y in enumerate(ys):
        total = ix.add(ix.mul(i, ix.index(7)), ix.index(salt + k))
        for j, value in enumerate(held):
            total = ix.add(total, ix.mul(value, ix.index(2 * j + 3)))
        stores.append(Store(y.name, (i,), _fitting(total, y.dtype)))
    body: Stmt = Block(tuple(stores))
    for value, x, r in zip(held, xs, reads, strict=True):
        body = Let(value, _element(x, r, i, size), body)
    return For(i, ix.of_dim(size), body, LoopKind.PARALLEL)


def _fitting(total: Expr, dtype: DType) -> Expr:
    """Return a sum as an element of a dtype."""
    if dtype.is_float:
        total = ix.mod(total, ix.index(FLOAT_RANGE))
    return total if dtype is INDEX else Cast(total, dtype)


def _nest(
    k: int, y: Buffer, xs: Sequence[Buffer], reads: Sequence[Read], salt: int, updates: bool
) -> Stmt:
    i = Var(f"i{k}")
    total = ix.add(ix.mul(i, ix.index(7)), ix.index(salt + k))
    for j, (x, r) in enumerate(zip(xs, reads, strict=True)):
        total = ix.add(total, ix.mul(_element(x, r, i, y.shape[0]), ix.index(2 * j + 3)))
    if updates:
        old: Expr = Load(y.name, (i,), y.dtype)
        total = ix.add(total, ix.mul(Cast(old, INDEX), ix.index(5)))
    value = _fitting(total, y.dtype)
    size = ceildiv(y.shape[0], 2) if updates else y.shape[0]
    return For(i, ix.of_dim(size), Store(y.name, (i,), value), LoopKind.PARALLEL)


def _element(x: Buffer, r: Read, i: Expr, wanted: Dim) -> Expr:
    """An input's element as an i64; 0 of an input that has none."""
    size = x.shape[0]
    if size == 0:
        return ix.ZERO
    n = ix.of_dim(size)
    at = i if r.at is At.SAME and size == wanted else ix.mod(_moved(r.at, i, n), n)
    loaded: Expr = Load(x.name, (at,), x.dtype)
    value: Expr = loaded if x.dtype is INDEX else Cast(loaded, INDEX)
    if isinstance(size, int):
        return value
    return Select(Compare("gt", n, ix.ZERO), value, ix.ZERO)


def _moved(at: At, i: Expr, n: Expr) -> Expr:
    match at:
        case At.SAME:
            return i
        case At.SHIFTED:
            return ix.add(i, ix.ONE)
        case At.REVERSED:
            return ix.sub(ix.sub(n, ix.ONE), i)


def joined(
    name: str, parts: Sequence[TensorType], dims: tuple[DimVar, ...] = ()
) -> tuple[PrimFunc, tuple[Dim, ...]]:
    """Write a kernel that puts arrays of one dtype after one another; return also their offsets.

    The offsets count elements.
    """
    dtype = parts[0].dtype
    xs = tuple(Buffer(f"x{k}", dtype, (t.numel,)) for k, t in enumerate(parts))
    starts = tuple(add(*(t.numel for t in parts[:k])) for k in range(len(parts)))
    y = Buffer("y0", dtype, (add(*(t.numel for t in parts)),))
    nests = tuple(_moved_run(k, x, ix.ZERO, y, ix.of_dim(start), x.shape[0])
                  for k, (x, start) in enumerate(zip(xs, starts, strict=True)))  # fmt: skip
    attrs = _moving("y0", [x.name for x in xs], [mul(at, dtype.nbytes) for at in starts])
    return PrimFunc(name, (*xs, y), ("y0",), Block(nests), dims, attrs), starts


def cut(
    name: str, whole: TensorType, start: Dim, size: Dim, dims: tuple[DimVar, ...] = ()
) -> PrimFunc:
    """Write a kernel that copies a run of the elements of an array."""
    x, y = Buffer("x0", whole.dtype, (whole.numel,)), Buffer("y0", whole.dtype, (size,))
    body = _moved_run(0, x, ix.of_dim(start), y, ix.ZERO, size)
    attrs = _moving("x0", ["y0"], [mul(start, whole.dtype.nbytes)])
    return PrimFunc(name, (x, y), ("y0",), body, dims, attrs)


def _moving(whole: str, parts: Sequence[str], offsets: Sequence[Dim]) -> Attrs:
    """Note what a kernel moves, if views could stand for it."""
    if not all(wide(at, PORTABLE.access) for at in offsets):
        return ()
    return (("moves", whole), ("offsets", tuple(offsets)), ("parts", tuple(parts)))


def movers(p: Program) -> dict[str, Mover]:
    """Return the kernels that only move bytes, and that each launch gives buffers of their own."""
    twice = {s.kernel for s in walk(p.lines)
             if isinstance(s, Launch) and len({*s.args}) < len(s.args)}  # fmt: skip
    found: dict[str, Mover] = {}
    for k in p.kernels:
        noted: dict[str, Any] = dict(k.attrs)
        if "moves" in noted and k.name not in twice:
            pairs = tuple(zip(noted["parts"], noted["offsets"], strict=True))
            found[k.name] = Mover(noted["moves"] == "y0", noted["moves"], pairs)
    return found


def _moved_run(k: int, x: Buffer, start: Expr, y: Buffer, to: Expr, size: Dim) -> Stmt:
    i = Var(f"i{k}")
    store = Store(y.name, (ix.add(to, i),), Load(x.name, (ix.add(start, i),), x.dtype))
    return For(i, ix.of_dim(size), store, LoopKind.PARALLEL)


def decision(
    name: str, of: TensorType, salt: int, one_in: int, dims: tuple[DimVar, ...] = ()
) -> PrimFunc:
    """Write a kernel of one bool: whether a sum of some elements and salt divides by ``one_in``."""
    x, y = Buffer("x0", of.dtype, (of.numel,)), Buffer("y0", DType.BOOL, ())
    total: Expr = ix.index(salt)
    for k in range(4):
        total = ix.add(total, _element(x, Read(of, At.SHIFTED), ix.index(11 * k), 0))
    even: Expr = Compare("eq", ix.mod(total, ix.index(one_in)), ix.ZERO)
    return PrimFunc(name, (x, y), ("y0",), Store("y0", (), even), dims)


def number(
    name: str, of: TensorType, salt: int, low: int, high: int, dims: tuple[DimVar, ...] = ()
) -> PrimFunc:
    """Write a kernel of one i64 from ``low`` to ``high`` that hangs on some elements."""
    x, y = Buffer("x0", of.dtype, (of.numel,)), Buffer("y0", INDEX, ())
    total = ix.add(ix.index(salt), _element(x, Read(of, At.SHIFTED), ix.ZERO, 0))
    value = ix.add(ix.index(low), ix.mod(total, ix.index(high - low + 1)))
    return PrimFunc(name, (x, y), ("y0",), Store("y0", (), value), dims)


def zero(name: str) -> PrimFunc:
    """Write a kernel that starts a counter."""
    return PrimFunc(name, (Buffer("y0", INDEX, ()),), ("y0",), Store("y0", (), ix.ZERO))


def increment(name: str) -> PrimFunc:
    """Write a kernel that adds one to a counter in its place."""
    one_more = ix.add(Load("y0", (), INDEX), ix.ONE)
    return PrimFunc(name, (Buffer("y0", INDEX, ()),), ("y0",), Store("y0", (), one_more))


def below(name: str, limit: int) -> PrimFunc:
    """Write a kernel that compares a counter."""
    x, y = Buffer("x0", INDEX, ()), Buffer("y0", DType.BOOL, ())
    less: Expr = Compare("lt", Load("x0", (), INDEX), ix.index(limit))
    return PrimFunc(name, (x, y), ("y0",), Store("y0", (), less))


def mix(outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]) -> None:
    """Library routine ``mix``: the same sums; the last ``workspace`` outputs are scrap.

    Scrap is written before an input is read, and again when all results are: whoever shares its
    bytes loses them.
    """
    workspace, salt = attrs["workspace"], attrs["salt"]
    assert isinstance(workspace, int)
    assert isinstance(salt, int)
    results = list(outputs[: len(outputs) - workspace])
    scrap = list(outputs[len(outputs) - workspace :])
    for s in scrap:
        s.reshape(-1).view(np.uint8)[...] = 0x5A
    for k, out in enumerate(results):
        i = np.arange(out.size, dtype=np.int64)
        total = i * 7 + (salt + k)
        for j, x in enumerate(inputs):
            if x.size:
                total = total + x.reshape(-1)[i % x.size].astype(np.int64) * (2 * j + 3)
        if out.dtype.kind == "f":
            total %= FLOAT_RANGE
        out[...] = total.astype(out.dtype).reshape(out.shape)
    for s in scrap:
        s.reshape(-1).view(np.uint8)[...] = 0xA7


ROUTINES: Mapping[str, Routine] = {"mix": mix}
