"""Elementwise ops in ONNX, with nodes for what ONNX leaves undefined, such as division by 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from didyma.onnx.elementwise import OPS
from didyma.onnx.export.dialect import How
from didyma.onnx.export.writer import Rule, Use, Val, Writer
from didyma.refimpl.ir.types import DType


def plain(onnx_op: str, how: How = How.VALUE) -> Rule:
    """Return the rule of an op for which ONNX has an operator."""

    def run(u: Use) -> Val:
        return u.op(onnx_op, *u.args, to=u.out.dtype, how=how)

    return run


def scalar_like(w: Writer, x: float, like: Val) -> Val:
    """Return a scalar constant of a value's type."""
    return w.scalar(x, like.dtype)


def where(w: Writer, c: Val, a: Val, b: Val) -> Val:
    """Return elements of ``a`` where a condition is true, and of ``b`` elsewhere."""
    return w.op("Where", c, a, b, to=a.dtype, how=How.MOVES)


def compare(w: Writer, op: str, a: Val, b: Val | float) -> Val:
    """Return the comparison of a value with another or with a number."""
    other = b if isinstance(b, Val) else w.scalar(b, a.dtype)
    return w.op(op, a, other, to=DType.BOOL)


def signbit(w: Writer, x: Val) -> Val:
    """Return whether numbers are negative, -0 included; false for NaN."""
    zero = compare(w, "Equal", x, 0)
    below = compare(w, "Less", w.op("Reciprocal", x), 0)
    return w.op("Or", compare(w, "Less", x, 0), w.op("And", zero, below))


def _wide(f: Callable[[Writer, list[Val]], Val]) -> Rule:
    """Return a rule of several nodes, which compute f16 and bf16 in f32."""

    def run(u: Use) -> Val:
        done = f(u.w, [u.w.cast(a, a.dtype.compute) for a in u.args])
        return u.w.cast(done, u.out.dtype)

    return run


def _precise(f: Callable[[Writer, Val], Val]) -> Rule:
    """Return a rule of several nodes that lose a few digits, so that they compute in f64."""

    def run(u: Use) -> Val:
        done = f(u.w, u.w.cast(u.args[0], DType.F64))
        if u.out.dtype.compute is DType.F32:
            done = u.w.cast(done, DType.F32)
        return u.w.cast(done, u.out.dtype)

    return run


def _square(w: Writer, x: list[Val]) -> Val:
    return w.op("Mul", x[0], x[0], how=How.WRAPS)


def _negative(u: Use) -> Val:
    (x,) = u.args
    if x.dtype.is_signed:
        return u.op("Neg", x, how=How.WRAPS)
    return u.op("Sub", u.w.scalar(0, x.dtype), x, how=How.WRAPS)


def _rsqrt(w: Writer, x: list[Val]) -> Val:
    return w.op("Reciprocal", w.op("Sqrt", x[0]))


def _trunc(w: Writer, x: list[Val]) -> Val:
    up, down = w.op("Ceil", x[0]), w.op("Floor", x[0])
    return where(w, compare(w, "Less", x[0], 0), up, down)


def _exp2(w: Writer, x: Val) -> Val:
    return w.op("Pow", w.scalar(2, DType.F64), x)


def _logarithm(base: float) -> Callable[[Writer, Val], Val]:
    def run(w: Writer, x: Val) -> Val:
        return w.op("Div", w.op("Log", x), w.scalar(np.log(base), DType.F64))

    return run


def _expm1(w: Writer, x: Val) -> Val:
    """Return (u - 1) * x / log(u) with u = exp(x), where nothing cancels (W. Kahan)."""
    u = w.op("Exp", x)
    less = w.op("Sub", u, w.scalar(1, DType.F64))
    good = w.op("Div", w.op("Mul", less, x), w.op("Log", u))
    one = compare(w, "Equal", u, 1)
    far = compare(w, "Greater", w.op("Abs", x), 30)  # nothing cancels, and u may be 0 or infinite
    return where(w, one, x, where(w, far, less, good))


def _log1p(w: Writer, x: Val) -> Val:
    """Return log(u) * x / (u - 1) with u = 1 + x, where nothing cancels (W. Kahan)."""
    u = w.op("Add", x, w.scalar(1, DType.F64))
    less = w.op("Sub", u, w.scalar(1, DType.F64))
    log = w.op("Log", u)
    good = w.op("Div", w.op("Mul", log, x), less)
    one = compare(w, "Equal", u, 1)
    far = compare(w, "Greater", x, 1e18)
    return where(w, one, x, where(w, far, log, good))


def _isfinite(w: Writer, x: list[Val]) -> Val:
    nan, inf = w.op("IsNaN", x[0], to=DType.BOOL), w.op("IsInf", x[0], to=DType.BOOL)
    return w.op("Not", w.op("Or", nan, inf))


def _signbit(w: Writer, x: list[Val]) -> Val:
    return signbit(w, x[0])


def _copysign(w: Writer, x: list[Val]) -> Val:
    size = w.op("Abs", x[0])
    return where(w, signbit(w, x[1]), w.op("Neg", size), size)


def _atan2(u: Use) -> Val:
    """Express atan2 by the angle in the first quadrant, in f64 if Atan takes it."""
    w = u.w
    kind = DType.F64 if w.has("Atan", DType.F64) else u.out.dtype.compute
    y, x = (w.cast(a, kind) for a in u.args)
    ay, ax = w.op("Abs", y), w.op("Abs", x)
    q = w.op("Atan", w.op("Div", ay, ax))
    same = compare(w, "Equal", ay, ax)
    zero = compare(w, "Equal", ay, 0)
    q = where(w, same, w.scalar(np.pi / 4, kind), q)
    q = where(w, w.op("And", same, zero), w.scalar(0, kind), q)
    q = where(w, signbit(w, x), w.op("Sub", w.scalar(np.pi, kind), q), q)
    q = where(w, signbit(w, y), w.op("Neg", q), q)
    return w.cast(w.cast(q, u.out.dtype.compute), u.out.dtype)


# Division ---------------------------------------------------------------------------------------


def _divisor(w: Writer, b: Val) -> tuple[Val, Val | None, Val | None]:
    """Return an integer divisor that is safe, where it was 0, and where it was -1."""
    given = w.constant_value(b)
    if given is not None and not np.isin(given, (0, -1) if b.dtype.is_signed else (0,)).any():
        return b, None, None
    zero = compare(w, "Equal", b, 0)
    bad, minus = zero, None
    if b.dtype.is_signed:  # the least number divided by -1 traps on some machines
        minus = compare(w, "Equal", b, -1)
        bad = w.op("Or", zero, minus)
    return where(w, bad, scalar_like(w, 1, b), b), zero, minus


def _truncated(w: Writer, a: Val, b: Val) -> Val:
    safe, zero, minus = _divisor(w, b)
    q = w.op("Div", a, safe)
    if minus is not None:
        q = where(w, minus, w.op("Sub", scalar_like(w, 0, a), a, how=How.WRAPS), q)
    return q if zero is None else where(w, zero, scalar_like(w, 0, a), q)


def _trunc_divide(u: Use) -> Val:
    return _truncated(u.w, *u.args)


def _signs_differ(w: Writer, a: Val, b: Val) -> Val:
    return w.op("Xor", compare(w, "Less", a, 0), compare(w, "Less", b, 0))


def _floor_divide(u: Use) -> Val:
    if u.out.dtype.is_float:
        return _wide(_floor_quotient)(u)
    w, (a, b) = u.w, u.args
    q = _truncated(w, a, b)
    if not a.dtype.is_signed:
        return q
    exact = compare(w, "Equal", w.op("Mul", q, b, how=How.WRAPS), a)
    by_zero = compare(w, "Equal", b, 0)
    down = w.op("And", _signs_differ(w, a, b), w.op("Not", w.op("Or", exact, by_zero)))
    return where(w, down, w.op("Sub", q, scalar_like(w, 1, q), how=How.WRAPS), q)


def _floor_quotient(w: Writer, x: list[Val]) -> Val:
    a, b = x
    rest = w.op("Mod", a, b, fmod=1)
    q = w.op("Div", w.op("Sub", a, rest), b)
    down = w.op("And", w.op("Not", compare(w, "Equal", rest, 0)), _signs_differ(w, rest, b))
    q = where(w, down, w.op("Sub", q, scalar_like(w, 1, q)), q)
    floor = w.op("Floor", q)
    up = compare(w, "Greater", w.op("Sub", q, floor), 0.5)
    floor = where(w, up, w.op("Add", floor, scalar_like(w, 1, q)), floor)
    plain_quotient = w.op("Div", a, b)
    signed_zero = w.op("Mul", plain_quotient, scalar_like(w, 0, q))
    floor = where(w, compare(w, "Equal", q, 0), signed_zero, floor)
    return where(w, compare(w, "Equal", b, 0), plain_quotient, floor)


def _remainder(u: Use) -> Val:
    if u.out.dtype.is_float:
        return _wide(_float_remainder)(u)
    safe = _divisor(u.w, u.args[1])[0]  # the remainder by 0, -1 and 1 is 0
    return u.op("Mod", u.args[0], safe)


def _float_remainder(w: Writer, x: list[Val]) -> Val:
    a, b = x
    rest = w.op("Mod", a, b, fmod=1)
    turned = where(w, _signs_differ(w, rest, b), w.op("Add", rest, b), rest)
    zero, minus = scalar_like(w, 0.0, rest), scalar_like(w, -0.0, rest)
    signed_zero = where(w, compare(w, "Less", b, 0), minus, zero)
    return where(w, compare(w, "Equal", rest, 0), signed_zero, turned)


def _fmod(u: Use) -> Val:
    a, b = u.args
    if not b.dtype.is_float:
        b = _divisor(u.w, b)[0]
    return u.op("Mod", a, b, fmod=1)


def _pow(u: Use) -> Val:
    if u.out.dtype.is_float:
        return u.op("Pow", *u.args)
    w, (a, e) = u.w, u.args
    given = w.constant_value(e)
    top = e.dtype.bits - (1 if e.dtype.is_signed else 0)
    if given is not None:
        top = max((int(n).bit_length() for n in given.reshape(-1) if n > 0), default=0)
    one = scalar_like(w, 1, a)
    total = w.op("Add", w.op("Mul", a, scalar_like(w, 0, a), how=How.WRAPS), one, how=How.WRAPS)
    square = a
    for k in range(top):
        if k:
            square = w.op("Mul", square, square, how=How.WRAPS)
        half = w.op("Div", e, scalar_like(w, 1 << k, e))
        odd = compare(w, "Equal", w.op("Mod", half, scalar_like(w, 2, e)), 1)
        total = where(w, odd, w.op("Mul", total, square, how=How.WRAPS), total)
    if not e.dtype.is_signed or (given is not None and (given >= 0).all()):
        return _broadcast(u, total)
    odd = compare(w, "Equal", w.op("Mod", e, scalar_like(w, 2, e)), 1)
    minus, zero = scalar_like(w, -1, a), scalar_like(w, 0, a)
    inverse = where(w, compare(w, "Equal", a, -1), where(w, odd, minus, one), zero)
    inverse = where(w, compare(w, "Equal", a, 1), one, inverse)
    return where(w, compare(w, "Less", e, 0), inverse, total)


def _broadcast(u: Use, v: Val) -> Val:
    """Return a value broadcast to the result's shape, which an unused operand may decide."""
    return u.w.op("Expand", v, u.w.vector(u.out.shape), how=How.MOVES)


# Bits -------------------------------------------------------------------------------------------


def _bitwise(name: str, of_bool: str) -> Rule:
    def run(u: Use) -> Val:
        if u.out.dtype is DType.BOOL:
            return u.op(of_bool, *u.args)
        return u.op(name, *u.args, how=How.WRAPS)

    return run


_UNSIGNED: Mapping[DType, DType] = {
    DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64,
}  # fmt: skip


def _count(w: Writer, s: Val) -> tuple[Val, Val | None]:
    """Return a shift that is safe, and where it was negative or too large."""
    bits = s.dtype.bits
    given = w.constant_value(s)
    if given is not None and ((given >= 0) & (given < bits)).all():
        return s, None
    bad = compare(w, "GreaterOrEqual", s, bits)
    if s.dtype.is_signed:
        bad = w.op("Or", bad, compare(w, "Less", s, 0))
    return where(w, bad, scalar_like(w, 0, s), s), bad


def _shift(w: Writer, x: Val, count: Val, way: str) -> Val:
    plain = _UNSIGNED.get(x.dtype, x.dtype)
    if plain is DType.U16:  # implementations may lack kernels for 16 bits
        plain = DType.U32
    moved = w.op("BitShift", w.cast(x, plain), w.cast(count, plain), direction=way)
    return w.cast(moved, x.dtype)


def _left(u: Use) -> Val:
    count, bad = _count(u.w, u.args[1])
    moved = _shift(u.w, u.args[0], count, "LEFT")
    return moved if bad is None else where(u.w, bad, scalar_like(u.w, 0, moved), moved)


def _right(u: Use) -> Val:
    w, x = u.w, u.args[0]
    count, bad = _count(w, u.args[1])
    if not x.dtype.is_signed:
        moved = _shift(w, x, count, "RIGHT")
        return moved if bad is None else where(w, bad, scalar_like(w, 0, moved), moved)
    below = compare(w, "Less", x, 0)
    signs = where(w, below, scalar_like(w, -1, x), scalar_like(w, 0, x))
    plain = w.op("BitwiseXor", x, signs, how=How.WRAPS)  # not negative
    moved = w.op("BitwiseXor", _shift(w, plain, count, "RIGHT"), signs, how=How.WRAPS)
    return moved if bad is None else where(w, bad, signs, moved)


# Choice -------------------------------------------------------------------------------


def _clip(u: Use) -> Val:
    if u.types[1].rank == 0 and u.types[2].rank == 0:
        return u.op("Clip", *u.args)
    return u.op("Min", u.w.op("Max", u.args[0], u.args[1]), u.args[2])


def _where(u: Use) -> Val:
    return u.op("Where", *u.args, to=u.out.dtype, how=How.MOVES)


def _not_equal(u: Use) -> Val:
    return u.w.op("Not", u.w.op("Equal", *u.args, to=DType.BOOL))


RULES: dict[str, Rule] = {
    **{op: plain(onnx_op) for onnx_op, op in OPS.items()},
    "divide": plain("Div"),
    "isinf": plain("IsInf"),
    "maximum": plain("Max"),
    "minimum": plain("Min"),
    "add": plain("Add", How.WRAPS),
    "subtract": plain("Sub", How.WRAPS),
    "multiply": plain("Mul", How.WRAPS),
    "negative": _negative,
    "square": _wide(_square),
    "rsqrt": _wide(_rsqrt),
    "trunc": _wide(_trunc),
    "exp2": _precise(_exp2),
    "expm1": _precise(_expm1),
    "log1p": _precise(_log1p),
    "log2": _precise(_logarithm(2.0)),
    "log10": _precise(_logarithm(10.0)),
    "isfinite": _wide(_isfinite),
    "signbit": _wide(_signbit),
    "copysign": _wide(_copysign),
    "atan2": _atan2,
    "trunc_divide": _trunc_divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "pow": _pow,
    "bitwise_and": _bitwise("BitwiseAnd", "And"),
    "bitwise_or": _bitwise("BitwiseOr", "Or"),
    "bitwise_xor": _bitwise("BitwiseXor", "Xor"),
    "bitwise_invert": _bitwise("BitwiseNot", "Not"),
    "bitwise_left_shift": _left,
    "bitwise_right_shift": _right,
    "not_equal": _not_equal,
    "where": _where,
    "clip": _clip,
}
