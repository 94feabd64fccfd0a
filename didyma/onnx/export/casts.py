"""Casts in ONNX; those of floats to integers saturate, which ONNX leaves undefined."""

from __future__ import annotations

from didyma.onnx.export.dialect import How
from didyma.onnx.export.pointwise import compare, scalar_like, where
from didyma.onnx.export.writer import Rule, Use, Val, Writer
from didyma.onnx.tensors import SATURATED, code_of
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.conversion import largest


def _cast(u: Use) -> Val:
    w, (x,), to = u.w, u.args, u.out.dtype
    if to is DType.F8E8M0 and x.dtype is not to:
        return _scale(w, w.cast(x, to.compute))
    if to.is_float and to.compute is not to and x.dtype is not to:
        return w.cast(w.cast(x, to.compute), to)
    if not (x.dtype.is_float and to.is_int):
        return w.op("Identity", x, how=How.MOVES) if x.dtype is to else w.cast(x, to)
    x = w.cast(x, x.dtype.compute)
    least = -(1 << (to.bits - 1)) if to.is_signed else 0
    over = least + (1 << to.bits)
    inside = w.op("And", compare(w, "GreaterOrEqual", x, least), compare(w, "Less", x, over))
    safe = where(w, inside, x, scalar_like(w, 0, x))
    if to.is_packed:  # ONNX does not define casts of floats to integers of less than a byte
        safe = w.cast(safe, DType.I32)
    safe = w.cast(safe, to)
    above, below = compare(w, "GreaterOrEqual", x, over), compare(w, "Less", x, least)
    return where(w, above, w.scalar(over - 1, to), where(w, below, w.scalar(least, to), safe))


def _scale(w: Writer, x: Val) -> Val:
    """Return the nearest power of two as f8e8m0; NaN if too large, or not positive."""
    inside = w.op("And", compare(w, "Greater", x, 0), compare(w, "Less", x, 1.5 * 2.0**127))
    near = w.node("Cast", [x.name], 1, to=code_of(DType.F8E8M0), round_mode="nearest")
    return where(w, inside, Val(near[0], DType.F8E8M0), w.scalar(float("nan"), DType.F8E8M0))


def _bitcast(u: Use) -> Val:
    w, (x,), to = u.w, u.args, u.out.dtype
    x = w.cast(x, DType.U8) if x.dtype is DType.BOOL else x
    if x.dtype is to:
        return w.op("Identity", x, how=How.MOVES)
    return Val(w.node("BitCast", [x.name], 1, wish=u.wish, to=code_of(to))[0], to)


def _saturating_cast(u: Use) -> Val:
    w, (x,), to = u.w, u.args, u.out.dtype
    if to.is_float:
        x = w.cast(x, to.compute)
        if to in SATURATED:
            return w.saturated(x, to)
        top = largest(to)
        if to is DType.F8E8M0:
            return _scale(w, _between(w, x, 1 / top, top))
        return w.cast(_between(w, x, -top, top), to)
    if x.dtype.is_int and to.is_int:
        (a, b), (c, d) = x.dtype.limits, to.limits
        x = w.cast(x, x.dtype.compute)
        return w.cast(_between(w, x, max(a, c), min(b, d)), to)
    return _cast(u)


def _between(w: Writer, x: Val, low: float, high: float) -> Val:
    return w.op("Min", w.op("Max", x, scalar_like(w, low, x)), scalar_like(w, high, x))


RULES: dict[str, Rule] = {
    "bitcast": _bitcast,
    "cast": _cast,
    "saturating_cast": _saturating_cast,
}
