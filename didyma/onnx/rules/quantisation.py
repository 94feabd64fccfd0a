"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.rules.casts import cast
from didyma.onnx.rules.products import saturated
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import DType


def _broadcast(c: Context, p: Value, v: Value) -> Value:
    """Return a scale or zero point, given per tensor, axis or block, broadcast to the operand."""
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
    blocks = c.reshape(wide, *shape[:axis], dims.mul(shape[axis], block), *shape[axis + 1 :])
    if blocks.type.shape == v.type.shape:
        return blocks
    zeros = (0,) * v.type.rank  # the last block may be shorter
    return c.emit("slice", blocks, starts=zeros, stops=v.type.shape, steps=(1,) * v.type.rank)


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
    steps = c.emit("divide", c.cast(v, wide), _broadcast(c, c.cast(scale, wide), v))
    if dtype.is_int:
        steps = c.emit("round", steps)
    if zero is not None:
        steps = c.emit("add", steps, _broadcast(c, c.cast(zero, wide), v))
    return [saturated(c, steps, dtype) if dtype.is_int else cast(c, steps, dtype)]


def _dequantize(c: Context, x: Inputs) -> Sequence[Operand]:
    v, scale, zero = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    code = c.integer("output_dtype")
    dtype = dtype_of(code, c.where) if code else scale.type.dtype
    exact = DType.I32 if v.type.dtype.is_int else scale.type.dtype
    steps = c.cast(v, exact)
    if zero is not None:
        steps = c.emit("subtract", steps, _broadcast(c, c.cast(zero, exact), v))
    wide = scale.type.dtype
    return [c.cast(c.emit("multiply", c.cast(steps, wide), _broadcast(c, scale, v)), dtype)]


HANDLERS: dict[str, Handler] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
}
