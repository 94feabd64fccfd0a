"""Elements of less than a byte: buffers of u8, each byte read and written as a whole.

Element ``i`` of a row of ``count`` to a byte stands in byte ``i // count``, the first in the lowest
bits.  A result is computed byte by byte, so that no two threads write one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refimpl.ir import expr as ix
from refimpl.ir.dims import mul
from refimpl.ir.loop import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Select,
    Unary,
    Var,
)
from refimpl.ir.types import DType, TensorType


def count(dtype: DType) -> int:
    """Elements of a byte."""
    return 8 // dtype.bits


def read(buffer: str, t: TensorType, index: Sequence[Expr], bind: Callable[[Expr], Expr]) -> Expr:
    """Element of a packed tensor, in its compute dtype; ``bind`` gives an index a name."""
    flat = bind(ix.flatten(index, map(ix.of_dim, t.shape)))
    many = ix.index(count(t.dtype))
    byte = Load(buffer, (ix.floordiv(flat, many),), DType.U8)
    place = ix.mul(ix.mod(flat, many), ix.index(t.dtype.bits))
    return _decoded(byte, Cast(place, DType.U8), t.dtype)


def _u8(v: int) -> Const:
    return Const(v, DType.U8)


def _decoded(byte: Expr, place: Expr, dtype: DType) -> Expr:
    if dtype.is_int and dtype.is_signed:  # up to the sign, and down again
        spare = _u8(8 - dtype.bits)
        high = Binary("shl", byte, Binary("sub", spare, place))
        return Binary("shr", Cast(high, DType.I8), Cast(spare, DType.I8))
    low = Binary("and", Binary("shr", byte, place), _u8((1 << dtype.bits) - 1))
    return low if dtype.is_int else _f4(low)


def _f4(bits: Expr) -> Expr:
    """f4e2m1 from its bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign."""
    code = Var("code", DType.U8)
    size = Cast(Binary("and", code, _u8(7)), DType.F32)
    half = Binary("mul", size, _f32(0.5))
    large = Select(Compare("eq", size, _f32(7.0)), _f32(6.0), Binary("sub", size, _f32(2.0)))
    value = Select(Compare("lt", size, _f32(5.0)), half, large)
    negative = Compare("ge", code, _u8(8))
    return LetExpr(code, bits, Select(negative, Unary("neg", value), value))


def _f32(v: float) -> Const:
    return Const(v, DType.F32)


def _encoded(value: Expr, dtype: DType) -> Expr:
    """Bits of a value that is one of the dtype, the others 0."""
    if dtype.is_int:
        return Binary("and", Cast(value, DType.U8), _u8((1 << dtype.bits) - 1))
    x = Var("value", DType.F32)
    size = Unary("abs", x)
    small = Select(Compare("le", size, _f32(2.0)), Binary("mul", size, _f32(2.0)),
                   Binary("add", size, _f32(2.0)))  # fmt: skip
    code = Select(Compare("eq", size, _f32(6.0)), _f32(7.0), small)
    sign = Select(Intrinsic("signbit", (x,)), _u8(8), _u8(0))
    return LetExpr(x, value, Binary("or", Cast(code, DType.U8), sign))


def byte_of(
    element: Callable[[Sequence[Expr]], Expr],
    t: TensorType,
    at: Expr,
    define: Callable[[Expr], Expr],
) -> Expr:
    """Byte ``at`` of a packed tensor whose elements ``element`` yields; bits left over are 0."""
    many, shape = count(t.dtype), [ix.of_dim(d) for d in t.shape]
    numel = ix.of_dim(mul(*t.shape))
    ragged = not (isinstance(t.numel, int) and t.numel % many == 0)
    total: Expr | None = None
    for k in range(many):
        flat = define(ix.add(ix.mul(at, ix.index(many)), ix.index(k)))
        bits = _encoded(element(ix.unflatten(flat, shape)), t.dtype)
        if k:
            bits = Binary("shl", bits, _u8(k * t.dtype.bits))
        if k and ragged:
            bits = ix.select(ix.compare("lt", flat, numel), bits, _u8(0))
        total = bits if total is None else Binary("or", total, bits)
    assert total is not None
    return total
