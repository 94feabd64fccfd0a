"""Elements of less than a byte: buffers of u8, each byte read and written as a whole.

Element ``i`` of a row of ``count`` to a byte stands in byte ``i // count``, the first in the lowest
bits.  A result is computed byte by byte, so that no two threads write one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import mul
from didyma.refimpl.ir.loop import Binary, Cast, Const, Expr, Load
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops.bitcast import bits_of, f4_value


def count(dtype: DType) -> int:
    """Return the number of elements in a byte."""
    return 8 // dtype.bits


def read(buffer: str, t: TensorType, index: Sequence[Expr], bind: Callable[[Expr], Expr]) -> Expr:
    """Return an element of a packed tensor, in its compute dtype; ``bind`` names an index."""
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
    return low if dtype.is_int else f4_value(low)


def byte_of(
    element: Callable[[Sequence[Expr]], Expr],
    t: TensorType,
    at: Expr,
    define: Callable[[Expr], Expr],
) -> Expr:
    """Return byte ``at`` of a packed tensor of elements ``element``; unused bits are 0."""
    many, shape = count(t.dtype), [ix.of_dim(d) for d in t.shape]
    numel = ix.of_dim(mul(*t.shape))
    ragged = not (isinstance(t.numel, int) and t.numel % many == 0)
    total: Expr | None = None
    for k in range(many):
        flat = define(ix.add(ix.mul(at, ix.index(many)), ix.index(k)))
        bits = bits_of(element(ix.unflatten(flat, shape)), t.dtype)
        if k:
            bits = Binary("shl", bits, _u8(k * t.dtype.bits))
        if k and ragged:
            bits = ix.select(ix.compare("lt", flat, numel), bits, _u8(0))
        total = bits if total is None else Binary("or", total, bits)
    assert total is not None
    return total
