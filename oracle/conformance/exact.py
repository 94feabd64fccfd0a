"""Values worth trying, and what operations on them yield, by exact arithmetic.

Integers are Python's.  Finite floats are fractions, or mpmath's numbers where the result is
irrational, rounded once; what IEEE 754 and C99 say of NaN, infinities and zeros comes from
Python's own float where it follows them and is spelled out where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np

from didyma.refimpl.ir.types import Array, DType

_MANY = 10_000  # binary digits: far beyond any dtype's exponents
_MANTISSA = {DType.F32: (24, -149), DType.F64: (53, -1074)}  # bits, least exponent


def ints(dtype: DType) -> list[int]:
    """Corner values of an integer type."""
    lo, hi = limits(dtype)
    bits = 8 * dtype.nbytes
    near = [0, 1, 2, 3, 7, 10, bits - 1, bits, bits + 1, hi, hi - 1, hi // 2, hi // 2 + 1, hi // 3]
    return sorted({v for n in near for v in (n, -n, -n - 1) if lo <= v <= hi} | {lo, lo + 1})


def limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest integer."""
    bits = 8 * dtype.nbytes
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed else (0, 2**bits - 1)


def wrap(value: int, dtype: DType) -> int:
    """The integer modulo the type's range."""
    lo, hi = limits(dtype)
    return (value - lo) % (hi - lo + 1) + lo


def floats(dtype: DType) -> list[float]:
    """Corner values of f32 or f64, each exact in it."""
    kind = dtype.numpy.type
    info = np.finfo(dtype.numpy)
    eps, tiny, least, huge = (
        float(v) for v in (info.eps, info.tiny, info.smallest_subnormal, info.max)
    )
    positive = [
        0.0, least, 3 * least, tiny - least, tiny, huge, huge / 2, 1.0, 1 + eps, 1 - eps / 2,
        0.5, 1.5, 2.0, 2.5, 3.0, 3.5, 7.0, 10.0, 0.1, 0.3, math.pi, math.pi / 2, math.e, 1e-5,
        1e-3, 0.9, 1e5, 12345.678, 1 / eps, 1 / eps - 0.5, 2 / eps + 2, 1e10, 20.0, 88.5, 103.5,
        math.inf,
    ]  # fmt: skip
    if dtype is DType.F64:
        positive += [709.5, 745.0, 1e-300, 1e300, 1e16, 2.0**63, 2.0**64]
    exact = {float(kind(v)) for v in positive} - {0.0}
    return [0.0, -0.0, math.nan, *(s * v for v in sorted(exact) for s in (1.0, -1.0))]


def nearest(x: Fraction, dtype: DType) -> float:
    """Round to f32 or f64, ties to even, as one IEEE operation does.

    >>> nearest(Fraction(1) + Fraction(1, 2**24), DType.F32), nearest(Fraction(1, 10), DType.F64)
    (1.0, 0.1)
    """
    bits, least = _MANTISSA[dtype]
    if x == 0:
        return 0.0
    n, d = abs(x.numerator), x.denominator
    exponent = n.bit_length() - d.bit_length()
    if n << max(-exponent, 0) < d << max(exponent, 0):
        exponent -= 1
    unit = max(exponent - bits + 1, least)
    n, d = n << max(-unit, 0), d << max(unit, 0)
    units, rest = divmod(n, d)
    units += 2 * rest > d or (2 * rest == d and units % 2)  # half to even
    top = 128 if dtype is DType.F32 else 1024
    value = math.inf if units.bit_length() + unit > top else math.ldexp(units, unit)
    return value if x > 0 else -value


def int_binary(op: str, a: int, b: int, dtype: DType) -> int:
    """Result of an integer operation of kernel text."""
    bits = 8 * dtype.nbytes
    match op:
        case "add":
            return wrap(a + b, dtype)
        case "sub":
            return wrap(a - b, dtype)
        case "mul":
            return wrap(a * b, dtype)
        case "floordiv":
            return wrap(a // b, dtype) if b else 0
        case "floormod":
            return a % b if b else 0
        case "truncdiv":
            return wrap(_toward_zero(a, b), dtype) if b else 0
        case "truncmod":
            return a - b * _toward_zero(a, b) if b else 0
        case "shl":
            return wrap(a << b, dtype) if 0 <= b < bits else 0
        case "shr":
            return a >> b if 0 <= b < bits else -1 if a < 0 else 0
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "pow":
            if b < 0:
                return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)
            power = 1
            for bit in f"{b:b}":
                power = power * power * (a if bit == "1" else 1) % 2**bits
            return wrap(power, dtype)
        case _:
            raise ValueError(op)


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def float_binary(op: str, a: float, b: float, dtype: DType) -> float:
    """Result of a float operation of kernel text other than ``+ - *`` and ``/``."""
    match op:
        case "min" | "max":
            if a != a or b != b:
                return math.nan
            low, high = sorted((a, b), key=lambda v: (v, math.copysign(1, v)))
            return low if op == "min" else high
        case "copysign":
            return math.copysign(a, b)
        case "truncmod":
            return _fmod(a, b)
        case "floormod":
            r = _fmod(a, b)
            if r != r or (r != 0 and (r < 0) == (b < 0)):
                return r
            if r == 0:
                return math.copysign(0.0, b)
            return b if math.isinf(b) else nearest(Fraction(r) + Fraction(b), dtype)
        case "floordiv":
            return _floordiv(a, b, dtype)
        case "pow":
            return _pow(a, b, dtype)
        case "atan2":
            if a != a or b != b or math.isinf(a) or math.isinf(b) or a == 0 or b == 0:
                return math.atan2(a, b)
            with mpmath.workprec(200):
                return _round(mpmath.atan2(a, b), dtype)
        case _:
            raise ValueError(op)


def _fmod(a: float, b: float) -> float:
    return math.nan if a != a or b != b or math.isinf(a) or b == 0 else math.fmod(a, b)


def _floordiv(a: float, b: float, dtype: DType) -> float:
    if a != a or b != b or (math.isinf(a) and b != 0):
        return math.nan
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if math.isinf(b):
        return -1.0 if a != 0 and sign < 0 else math.copysign(0.0, sign)
    q = math.floor(Fraction(a) / Fraction(b))
    return nearest(Fraction(q), dtype) if q else math.copysign(0.0, sign)


def _pow(a: float, b: float, dtype: DType) -> float:
    if a == 1 or b == 0:
        return 1.0
    if a != a or b != b or a == 0 or math.isinf(a) or math.isinf(b):
        try:
            return math.pow(a, b)
        except ValueError:  # zero to a negative power, which Python refuses
            odd = b == math.floor(b) and b % 2 == 1
            return math.copysign(math.inf, a) if odd else math.inf
    if a < 0 and b != math.floor(b):
        return math.nan
    sign = -1.0 if a < 0 and b % 2 == 1 else 1.0
    with mpmath.workprec(200):
        power = mpmath.mpf(b) * mpmath.log(mpmath.mpf(abs(a)))
        if abs(power) > _MANY:  # mpmath would compute every digit
            return sign * math.inf if power > 0 else sign * 0.0
        return sign * _round(mpmath.exp(power), dtype)


def intrinsic(name: str, x: float, dtype: DType) -> float:
    """Result of an intrinsic of one argument, correctly rounded."""
    if name in _ROUNDED:
        return _ROUNDED[name](x) if math.isfinite(x) else x
    if not math.isfinite(x) or x == 0 or name == "sqrt":
        kind = np.dtype(dtype.numpy).type
        with np.errstate(all="ignore"):
            return float(_SPECIAL[name](kind(x)))
    with mpmath.workprec(200):
        if name in ("rsqrt", "log", "log2", "log10") and x < 0:
            return math.nan
        if (name in ("asin", "acos") and abs(x) > 1) or (name == "acosh" and x < 1):
            return math.nan
        if name == "log1p" and x <= -1:
            return -math.inf if x == -1 else math.nan
        if name == "atanh" and abs(x) >= 1:
            return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
        if name in _GROWING and abs(x) > 1e4:
            x = math.copysign(1e4, x)  # as good as infinite, and mpmath can hold it
        return _round(_MP[name](mpmath.mpf(x)), dtype)


def _round(value: mpmath.mpf, dtype: DType) -> float:
    if not mpmath.isfinite(value):
        return float(value)
    sign, mantissa, exponent, _ = value._mpf_
    if int(exponent) + int(mantissa).bit_length() > _MANY:
        return -math.inf if sign else math.inf
    if int(exponent) + int(mantissa).bit_length() < -_MANY:
        return -0.0 if sign else 0.0
    size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return math.copysign(nearest(size, dtype), -1.0 if sign else 1.0)


def _round_even(x: float) -> float:
    return math.copysign(float(round(Fraction(x))), x)


def _floor(x: float) -> float:
    return math.copysign(float(math.floor(x)), x)


def _ceil(x: float) -> float:
    return math.copysign(float(math.ceil(x)), x)


def _trunc(x: float) -> float:
    return math.copysign(float(math.trunc(x)), x)


_ROUNDED: dict[str, Callable[[float], float]] = {
    "floor": _floor,
    "ceil": _ceil,
    "trunc": _trunc,
    "round": _round_even,
}
_GROWING = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf")


def _np_rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _np_erf(x: Array) -> Array:
    return np.asarray(math.erf(float(x)), x.dtype)


def _exp2(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.power(2, x)


def _log2(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(x, 2)


def _rsqrt(x: mpmath.mpf) -> mpmath.mpf:
    return 1 / mpmath.sqrt(x)


_MP: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exp": mpmath.exp, "exp2": _exp2, "expm1": mpmath.expm1, "log": mpmath.log, "log2": _log2,
    "log10": mpmath.log10, "log1p": mpmath.log1p, "rsqrt": _rsqrt, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos,
    "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh, "erf": mpmath.erf,
}  # fmt: skip
_SPECIAL: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": _np_rsqrt, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _np_erf,
}  # fmt: skip
UNARY = (*_SPECIAL, *_ROUNDED)
EXACT = ("sqrt", *_ROUNDED)
