"""Cast, CastLike and BitCast."""

from __future__ import annotations

import math
from collections.abc import Sequence

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs
from didyma.onnx.tensors import SATURATED, dtype_of
from didyma.onnx.values import Operand
from didyma.refimpl.ir.types import DType


def cast(c: Context, v: Value, to: DType) -> Value:
    """Cast as the node's attributes ``saturate`` and ``round_mode`` say.

    ONNX does not define casts of floats to integers that cannot hold them; integers of less than a
    byte get the low bits of the i32.
    """
    source = v.type.dtype
    if to is DType.F8E8M0 and source is not to:
        return _scale(c, v, c.flag("saturate", True))
    if to in SATURATED and c.flag("saturate", True):
        return c.emit("saturating_cast", v, dtype=to)
    if to.is_packed and to.is_int and source.is_float:
        v = c.cast(v, DType.I32)
    return c.emit("cast", v, dtype=to)


def _scale(c: Context, v: Value, saturate: bool) -> Value:
    """Cast to f8e8m0, whose numbers are powers of two: rounded up, down or to nearest."""
    least, most = 2.0**-127, 2.0**127
    mode = c.choice("round_mode", "up", "down", "nearest")
    x = c.cast(v, DType.F32)
    if saturate:
        x = c.emit("minimum", c.emit("maximum", x, least), most)
    if mode == "nearest":
        code = c.emit("bitcast", c.emit("cast", x, dtype=DType.F8E8M0), dtype=DType.U8)
    else:
        code = _exponent(c, x, mode == "up")
    nan = c.emit("isnan", x)
    if not saturate:
        floor = 0.0 if mode == "up" else math.nextafter(least, 0)
        nan = c.emit("logical_or", nan, c.emit("less_equal", x, floor))
    code = c.emit("where", nan, c.scalar(255, code), code)
    return c.emit("bitcast", code, dtype=DType.F8E8M0)


def _exponent(c: Context, x: Value, up: bool) -> Value:
    """Return the biased exponent of a positive f32, rounded up to the next power of two or down."""
    bits = c.emit("bitcast", x, dtype=DType.U32)
    exponent = c.emit("bitwise_right_shift", bits, 23)
    if up:
        rest = c.emit("not_equal", c.emit("bitwise_and", bits, 0x7FFFFF), 0)
        above = c.emit("logical_and", rest, c.emit("greater", x, 2.0**-127))
        exponent = c.emit("add", exponent, c.cast(above, DType.U32))
    return c.cast(exponent, DType.U8)


def _cast(c: Context, x: Inputs) -> Sequence[Operand]:
    return [cast(c, c.operand(x, 0), dtype_of(c.integer("to"), c.where))]


def _cast_like(c: Context, x: Inputs) -> Sequence[Operand]:
    return [cast(c, c.operand(x, 0), c.operand(x, 1).type.dtype)]


def _bit_cast(c: Context, x: Inputs) -> Sequence[Operand]:
    v, to = c.operand(x, 0), dtype_of(c.integer("to"), c.where)
    if to is v.type.dtype:
        return [v]
    if to is DType.BOOL:
        raise c.error(f"bits of {v.type.dtype} as bool", "numbers")
    return [c.emit("bitcast", v, dtype=to)]


HANDLERS: dict[str, Handler] = {"Cast": _cast, "CastLike": _cast_like, "BitCast": _bit_cast}
