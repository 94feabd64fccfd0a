"""Numbers as small integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.casts import cast
from didyma.onnx.rules.products import saturated
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value


def _spread(c: Context, p: Value, v: Value) -> Value:
    """A scale or zero point as it meets the operand: one in all, one an axis, one a block."""
    if p.type.rank == 0 or p.type.shape == (1,):
        return c.reshape(p)
    axis = c.axis(c.integer("axis", 1), v.type.rank)
    if p.type.rank == 1:
        return c.reshape(p, *(p.type.shape[0] if i == axis else 1 for i in range(v.type.rank)))
    block = c.integer("block_size")
    if not block:
        return p
    shape = p.type.shape
    apart = c.reshape(p, *shape[: axis + 1], 1, *shape[axis + 1 :])
    wide = c.emit("broadcast_to", apart, shape=(*shape[: axis + 1], block, *shape[axis + 1 :]))
    whole = c.reshape(wide, *shape[:axis], dims.mul(shape[axis], block), *shape[axis + 1 :])
    if whole.type.shape == v.type.shape:
        return whole
    zeros = (0,) * v.type.rank  # the last block may be shorter
    return c.emit("slice", whole, starts=zeros, stops=v.type.shape, steps=(1,) * v.type.rank)


def _quantize(c: Context, x: Inputs) -> Sequence[Operand]:
    v, scale, zero = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    if zero is not None:
        dtype = zero.type.dtype
    else:
        code = c.integer("output_dtype")
        dtype = dtype_of(code, c.where) if code else DType.U8
    if "precision" in c.attrs and (code := c.integer("precision")):
        wide = dtype_of(code, c.where)
    else:
        wide = scale.type.dtype
    steps = c.emit("divide", c.cast(v, wide), _spread(c, c.cast(scale, wide), v))
    if dtype.is_int:
        steps = c.emit("round", steps)
    if zero is not None:
        steps = c.emit("add", steps, _spread(c, c.cast(zero, wide), v))
    return [saturated(c, steps, dtype) if dtype.is_int else cast(c, steps, dtype)]


def _dequantize(c: Context, x: Inputs) -> Sequence[Operand]:
    v, scale, zero = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    code = c.integer("output_dtype")
    dtype = dtype_of(code, c.where) if code else scale.type.dtype
    whole = DType.I32 if v.type.dtype.is_int else scale.type.dtype
    steps = c.cast(v, whole)
    if zero is not None:
        steps = c.emit("subtract", steps, _spread(c, c.cast(zero, whole), v))
    wide = scale.type.dtype
    return [c.cast(c.emit("multiply", c.cast(steps, wide), _spread(c, scale, v)), dtype)]


HANDLERS: dict[str, Handler] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
}
