"""Conversion between dtypes: values, bars and loop rules of ``cast`` and ``saturating_cast``."""

from __future__ import annotations

import numpy as np

from didyma.refimpl.ir.loop import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    Select,
    Unary,
)
from didyma.refimpl.ir.narrow import narrow
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import (
    LEAST,
    Bar,
    as_error,
    centre_dtype,
    close,
    finish,
    rounded,
)


def stored(to: DType) -> bool:
    """Return whether a dtype is a storage float, to which casts go by way of f32."""
    return to.is_float and to.compute is not to


def convert(x: Array, to: DType) -> Array:
    """Convert by the rules of ``cast``; ``x`` may be an array of centres."""
    if x.dtype != np.longdouble:  # of f64's centres
        x = x.astype(DType.of(x).compute.numpy, copy=False)
    if to is DType.BOOL:
        return np.asarray(x != 0)
    if x.dtype.kind == "f" and to.is_int:
        return _saturate(x, to)
    if stored(to):
        return np.asarray(narrow(x.astype(np.float32), to))
    if to.is_packed:
        spare = 8 - to.bits
        return (x.astype(to.compute.numpy) << spare >> spare).astype(to.numpy)
    return x.astype(to.numpy)


def _saturate(x: Array, to: DType) -> Array:
    whole = to.compute.numpy
    (least, most), kind = to.limits, x.dtype.type
    low, high = x < kind(least), x >= kind(2.0 ** (to.bits - to.is_signed))
    safe = np.where(np.isnan(x) | low | high, kind(0), x).astype(whole)
    out = np.where(high, whole.type(most), safe)
    return np.where(low, whole.type(least), out).astype(to.numpy, copy=False)


def cast_bar(b: Bar, source: DType, to: DType) -> Bar:
    """Return the bar of a ``cast``."""
    if source is to:
        return b
    centre = centre_dtype(to)
    if to is DType.BOOL:
        either = (b.e == np.inf) | ((np.abs(b.c) <= b.e) & (b.e > 0)) if b.e.any() else b.e > 0
        return Bar(np.asarray(b.c != 0), np.where(either, np.inf, 0.0))
    if source.is_float and to.is_float:
        widened = Bar(b.c.astype(np.longdouble), b.e) if to is DType.F64 else b
        widening = to is DType.F64 or (to is DType.F32 and source is not DType.F64)
        out = widened if widening else rounded(b, to)
        return Bar(out.c.astype(centre), out.e)
    if not b.e.any():
        return Bar(convert(b.c, to).astype(centre), np.zeros(b.c.shape))
    if source.is_float:
        c, lo, hi = (convert(x, to).astype(centre) for x in (b.c, b.c - b.e, b.c + b.e))
        wide = [x.astype(np.longdouble) for x in (c, lo, hi)]
        spread = close(wide[0], wide[1], wide[2], b.e == 0).e
        e = np.where(spread == LEAST, 0.0, spread)
        return Bar(c, np.where(b.e == np.inf, np.inf, e))
    return _of_inexact_ints(b, source, to)


def _of_inexact_ints(b: Bar, source: DType, to: DType) -> Bar:
    """Return the bar of a cast of inexact integers or bools."""
    if source is DType.BOOL:  # undecided: 0 or 1
        e = np.where(b.e > 0, 1.0, 0.0)
        return Bar(b.c.astype(centre_dtype(to)), e)
    known = b.e == 0
    if to.is_float:
        wide = b.c.astype(np.longdouble)
        out = finish(wide.astype(centre_dtype(to)), b.e, to, known)
        near = Bar(out.c, np.where(known, 0.0, out.e + as_error(np.abs(wide - out.c))))
        return Bar(
            np.where(known, convert(b.c, to).astype(centre_dtype(to)), near.c),
            rounded(near, to).e if stored(to) else near.e,
        )
    least, most = to.limits
    wide = b.c.astype(np.longdouble)
    fits = (wide - b.e >= least) & (wide + b.e <= most)
    return Bar(convert(b.c, to).astype(centre_dtype(to)), np.where(known | fits, b.e, np.inf))


def convert_expr(x: Expr, to: DType) -> Expr:
    """Return the loop expression of a ``cast``: a number of ``to`` in its compute dtype."""
    if to is DType.F4E2M1:
        return f4_expr(_cast(x, DType.F32))
    if stored(to):
        return Cast(Cast(_cast(x, DType.F32), to), DType.F32)
    return _packed_expr(x, to) if to.is_packed else _cast(x, to)


def _cast(x: Expr, to: DType) -> Expr:
    return x if x.dtype is to else Cast(x, to)


def _packed_expr(x: Expr, to: DType) -> Expr:
    byte = to.compute
    if x.dtype.is_float:  # clamped first: the cast truncates, and takes NaN to 0
        least, most = (Const(float(v), x.dtype) for v in to.limits)
        return Cast(Binary("max", Binary("min", x, most), least), byte)
    spare = Const(8 - to.bits, byte)
    return Binary("shr", Binary("shl", _cast(x, byte), spare), spare)


_LARGEST = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: 65504.0,
    DType.BF16: (2 - 2.0**-7) * 2.0**127,
    DType.F8E4M3: 448.0,
    DType.F8E4M3FNUZ: 240.0,
    DType.F8E5M2: 57344.0,
    DType.F8E5M2FNUZ: 57344.0,
    DType.F8E8M0: 2.0**127,
    DType.F4E2M1: 6.0,
}


def largest(to: DType) -> float:
    """Return the largest finite number of a float dtype.

    >>> largest(DType.F8E4M3), largest(DType.F8E5M2), largest(DType.F16)
    (448.0, 57344.0, 65504.0)
    """
    return _LARGEST[to]


def ends(to: DType) -> tuple[float, float]:
    """Return the least and greatest finite number of a float dtype; every f8e8m0 is positive."""
    top = largest(to)
    return (1 / top if to is DType.F8E8M0 else -top), top


def saturate(x: Array, to: DType) -> Array:
    """Convert by the rules of ``saturating_cast``; ``x`` may be an array of centres."""
    if to is DType.BOOL:
        return convert(x, to)
    if to.is_float:
        return convert(_clamp_float(convert(x, to.compute), to), to)
    x = x if x.dtype == np.longdouble else x.astype(DType.of(x).compute.numpy, copy=False)
    return convert(x if x.dtype.kind in "fb" else _clamp_int(x, to), to)


def _clamp_float(x: Array, to: DType) -> Array:
    low, high = (x.dtype.type(v) for v in ends(to))
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _clamp_int(x: Array, to: DType) -> Array:
    low, high = _overlap(DType.of(x), to)
    return np.asarray(np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high)))


def _overlap(source: DType, to: DType) -> tuple[int, int]:
    (a, b), (c, d) = source.limits, to.limits
    return max(a, c), min(b, d)


def saturate_bar(b: Bar, source: DType, to: DType) -> Bar:
    """Return the bar of a ``saturating_cast``."""
    if source is to and not to.is_float:
        return b
    if to.is_float:
        wide = cast_bar(b, source, to.compute)
        c, lo, hi = (_clamp_float(x, to) for x in (wide.c, wide.c - wide.e, wide.c + wide.e))
        out = close(c, lo, hi, wide.e == 0)
        out = Bar(out.c, np.where(wide.e == np.inf, np.inf, out.e))
        return rounded(out, to) if stored(to) else out
    if source.is_int and to.is_int:
        return cast_bar(Bar(_clamp_int(b.c, to), b.e), source, to)
    return cast_bar(b, source, to)


def saturate_expr(x: Expr, source: DType, to: DType) -> Expr:
    """Return the loop expression of a ``saturating_cast`` of ``x``, a number of ``source``."""
    if to.is_float:
        low, high = (Const(v, to.compute) for v in ends(to))
        wide = _cast(x, to.compute)
        return convert_expr(Binary("min", Binary("max", wide, low), high), to)
    if source.is_int and to.is_int:
        least, most = _overlap(source, to)
        if least != source.limits[0]:
            x = Binary("max", x, Const(least, x.dtype))
        if most != source.limits[1]:
            x = Binary("min", x, Const(most, x.dtype))
    return convert_expr(x, to)


def f4_expr(x: Expr) -> Expr:
    """Round an f32 to f4e2m1: half steps below 2, whole ones below 4, then 4 and 6; NaN is 0."""

    def f32(v: float) -> Const:
        return Const(v, DType.F32)

    def to_step(step: float) -> Expr:
        return Binary("mul", Intrinsic("round", (Binary("mul", size, f32(1 / step)),)), f32(step))

    size = Binary("min", Unary("abs", x), f32(6.0))
    coarse = Select(Compare("lt", size, f32(4.0)), to_step(1.0), to_step(2.0))
    near = Select(Compare("lt", size, f32(2.0)), to_step(0.5), coarse)
    signed = Intrinsic("copysign", (near, x))
    return Select(Intrinsic("isnan", (x,)), f32(0.0), signed)
