"""Matrix products, Einstein sums, and matrix products of quantised numbers."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.composites.einsum import einsum
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.values import Operand
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType


def matmul(c: Context, a: Value, b: Value) -> Value:
    """Return NumPy's matmul: a vector is a row on the left and a column on the right."""
    row, column = a.type.rank == 1, b.type.rank == 1
    if row:
        a = c.reshape(a, 1, *a.type.shape)
    if column:
        b = c.reshape(b, *b.type.shape, 1)
    y = c.emit("matmul", a, b)
    if not (row or column):
        return y
    shape = y.type.shape[:-2]
    shape += () if row else (y.type.shape[-2],)
    shape += () if column else (y.type.shape[-1],)
    return c.reshape(y, *shape)


def _matmul(c: Context, x: Inputs) -> Sequence[Operand]:
    return [matmul(c, c.operand(x, 0), c.operand(x, 1))]


def _gemm(c: Context, x: Inputs) -> Sequence[Operand]:
    a, b, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    if c.flag("transA"):
        a = c.emit("permute_dims", a, axes=(1, 0))
    if c.flag("transB"):
        b = c.emit("permute_dims", b, axes=(1, 0))
    y = _scaled(c, c.emit("matmul", a, b), c.real("alpha", 1.0))
    if bias is None:
        return [y]
    total = c.emit("add", y, _scaled(c, bias, c.real("beta", 1.0)))
    if total.type.rank != 2 or any(
        isinstance(n, int) and n != m for m, n in zip(y.type.shape, total.type.shape, strict=True)
    ):
        raise c.broken(f"a third operand {bias.type}", f"a shape that broadcasts to {y.type}")
    return [total]


def _scaled(c: Context, v: Value, by: float) -> Value:
    return v if by == 1.0 else c.emit("multiply", v, by)


def _einsum(c: Context, x: Inputs) -> Sequence[Operand]:
    values = [c.operand(x, i) for i in range(len(x))]
    try:
        return [einsum(c, c.string("equation"), values, c.expect_size)]
    except DidymaError as e:
        if e.code == "bad-attr":
            raise c.broken(e.got, e.want) from None
        raise


def shifted(c: Context, v: Value, zero: Value | None, along: int) -> Value:
    """Return quantised numbers as i32 minus the zero point, a scalar or a vector along an axis."""
    wide = c.cast(v, DType.I32)
    if zero is None:
        return wide
    z = c.cast(zero, DType.I32)
    if z.type.shape == (1,):
        z = c.reshape(z)
    elif z.type.rank == 1:
        z = c.reshape(z, *(z.type.shape[0] if i == along else 1 for i in range(v.type.rank)))
    return c.emit("subtract", wide, z)


def _matmul_integer(c: Context, x: Inputs) -> Sequence[Operand]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    left = shifted(c, a, c.optional(x, 2), a.type.rank - 2)
    right = shifted(c, b, c.optional(x, 3), b.type.rank - 1)
    return [matmul(c, left, right)]


def rescaled(c: Context, total: Value, scale: Value, zero: Value) -> Value:
    """Return quantised sums of products: scaled, rounded, shifted by the zero point, saturated."""
    y = c.emit("round", c.emit("multiply", c.cast(total, scale.type.dtype), scale))
    return saturated(c, c.emit("add", y, c.cast(zero, scale.type.dtype)), zero.type.dtype)


def saturated(c: Context, v: Value, dtype: DType) -> Value:
    """Return a value clipped to the range of an integer dtype and cast to it."""
    return c.cast(c.emit("clip", v, *dtype.limits), dtype)


def _qlinear_matmul(c: Context, x: Inputs) -> Sequence[Operand]:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (c.operand(x, i) for i in range(8))
    left = shifted(c, a, a_zero, a.type.rank - 2)
    right = shifted(c, b, b_zero, b.type.rank - 1)
    f32 = DType.F32
    slope = c.emit("divide", c.emit("multiply", c.cast(a_scale, f32), c.cast(b_scale, f32)),
                 c.cast(scale, f32))  # fmt: skip
    return [rescaled(c, matmul(c, left, right), slope, zero)]


HANDLERS: dict[str, Handler] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
}
