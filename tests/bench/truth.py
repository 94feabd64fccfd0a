"""What functions of one number are, independently of the op table.

Transcendental functions are enclosed by Arb (python-flint): midpoint-radius balls with proven
bounds, here of at least 70 correct bits.  (F. Johansson, *Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic*, IEEE Transactions on Computers 66, 2017.)  mpmath is asked for
a sample of the same values.  Whatever is exact is done in Python's integers and floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from didyma.refimpl.ir.types import Array, DType

Of = Callable[[arb], arb]
INF, NAN = math.inf, math.nan
GOOD = 70  # bits an enclosure must have


def exp2(x: arb) -> arb:
    return (x * arb.const_log2()).exp()


def log2(x: arb) -> arb:
    return x.log() / arb.const_log2()


def log10(x: arb) -> arb:
    return x.log() / arb.const_log10()


def reciprocal(x: arb) -> arb:
    return 1 / x


def square(x: arb) -> arb:
    return x * x


@dataclass(frozen=True, slots=True)
class Function:
    """A function on the interior of [lo, hi]: NaN outside; ``ends`` has its value at the ends.

    ``least`` and ``most`` are where it under- or overflows every dtype, with the values there.
    """

    of: Of
    ulp: bool = True  # an intrinsic: its ulp is the contract's; else it is correctly rounded
    lo: float = -INF
    hi: float = INF
    ends: tuple[float, float] = (NAN, NAN)
    zero: float | None = None  # value at +0, and with the other sign at -0; None: no special case
    far: tuple[float, float, float] | None = None  # beyond ±far[0]: what it is below, and above


TINY = 1 - 2.0**-60
FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(arb.sqrt, False, 0.0, INF, (0.0, INF), 0.0),
    "rsqrt": Function(arb.rsqrt, True, 0.0, INF, (INF, 0.0), INF),
    "reciprocal": Function(reciprocal, False, -INF, INF, (-0.0, 0.0), INF),
    "square": Function(square, False, -INF, INF, (INF, INF)),
    "exp": Function(arb.exp, True, -INF, INF, (0.0, INF), far=(2000, 0.0, INF)),
    "exp2": Function(exp2, True, -INF, INF, (0.0, INF), far=(3000, 0.0, INF)),
    "expm1": Function(arb.expm1, True, -INF, INF, (-1.0, INF), 0.0, (2000, -1.0, INF)),
    "log": Function(arb.log, True, 0.0, INF, (-INF, INF)),
    "log2": Function(log2, True, 0.0, INF, (-INF, INF)),
    "log10": Function(log10, True, 0.0, INF, (-INF, INF)),
    "log1p": Function(arb.log1p, True, -1.0, INF, (-INF, INF), 0.0),
    "sin": Function(arb.sin, zero=0.0),
    "cos": Function(arb.cos),
    "tan": Function(arb.tan, zero=0.0),
    "asin": Function(arb.asin, True, -1.0, 1.0, (-1.0, 1.0), 0.0),
    "acos": Function(arb.acos, True, -1.0, 1.0, (-1.0, 0.0)),
    "atan": Function(arb.atan, True, -INF, INF, (-1.0, 1.0), 0.0),
    "sinh": Function(arb.sinh, True, -INF, INF, (-INF, INF), 0.0, (2000, -INF, INF)),
    "cosh": Function(arb.cosh, True, -INF, INF, (INF, INF), far=(2000, INF, INF)),
    "tanh": Function(arb.tanh, True, -INF, INF, (-1.0, 1.0), 0.0, (40, -TINY, TINY)),
    "asinh": Function(arb.asinh, True, -INF, INF, (-INF, INF), 0.0),
    "acosh": Function(arb.acosh, True, 1.0, INF, (0.0, INF)),
    "atanh": Function(arb.atanh, True, -1.0, 1.0, (-INF, INF), 0.0),
    "erf": Function(arb.erf, True, -INF, INF, (-1.0, 1.0), 0.0, (7, -TINY, TINY)),
}
IRRATIONAL_ENDS = ("asin", "acos", "atan")  # whose ends are no floats: they are enclosed, too


def _half_pi(name: str) -> tuple[np.longdouble, np.longdouble]:
    """Values of the inverse circular functions at the ends of their domains."""
    ctx.prec = 200
    half = arb.pi() / 2
    pairs = {"asin": (-half, half), "acos": (2 * half, arb(0)), "atan": (-half, half)}
    low, high = pairs[name]
    return _wide([low])[0], _wide([high])[0]


def rounded(name: str, x: Array) -> Array:
    """Values at f64, rounded once to f64: longdouble and then f64 would be twice."""
    exact = function(name, x, DType.F64).astype(np.float64)
    ctx.prec = 240
    plain = np.isfinite(exact) & (exact != 0) & np.isfinite(x)
    ys = [FUNCTIONS[name].of(arb(float(v))) for v in x[plain]]
    exact[plain] = [float(y) for y in ys]
    return exact


def function(name: str, x: Array, dtype: DType) -> Array:
    """Exact values at floats, rounded to longdouble (64 bits)."""
    f = FUNCTIONS[name]
    x64 = x.astype(np.float64)
    out = np.full(x.shape, NAN, np.longdouble)
    lo, hi = _half_pi(name) if name in IRRATIONAL_ENDS else f.ends
    inside = (x64 > f.lo) & (x64 < f.hi)
    if f.far is not None:
        most, below, above = f.far
        out[inside & (x64 < -most)] = below
        out[inside & (x64 > most)] = above
        inside &= np.abs(x64) <= most
    if f.zero is not None:
        zero = x64 == 0
        out[zero] = np.where(np.signbit(x64[zero]), -f.zero, f.zero)
        inside &= ~zero
    for end, value in ((f.lo, lo), (f.hi, hi)):
        if not math.isnan(value):
            at = (x64 == end) & ((x64 != 0) | (f.zero is None))
            out[at] = value
            inside &= ~at
    out[inside] = enclosed(f.of, x64[inside], 128 if dtype is DType.F64 else 96)
    return out


def enclosed(f: Of, x: Array, bits: int) -> Array:
    """Values of a function, from enclosures with at least ``GOOD`` correct bits."""
    ctx.prec = bits
    points = [float(v) for v in x]
    ys = [f(arb(v)) for v in points]
    for i, y in enumerate(ys):
        for more in (1400, 6000):
            if y.rel_accuracy_bits() >= GOOD or y.is_exact():
                break
            ctx.prec = more
            y = ys[i] = f(arb(points[i]))
        assert y.rel_accuracy_bits() >= GOOD or y.is_exact(), (f, points[i], y)
    return _wide(ys)


def _wide(ys: Sequence[arb]) -> Array:
    """Midpoints as longdouble: the nearest float, and the rest."""
    ctx.prec = 128
    high = [float(y) for y in ys]
    low = [float(y - h) if math.isfinite(h) else 0.0 for y, h in zip(ys, high, strict=True)]
    out = np.asarray(high, np.longdouble) + np.asarray(low, np.longdouble)
    for i in np.flatnonzero((np.abs(out) < 1e-270) | (np.abs(out) > 1e300)):
        man, exp = (int(v) for v in ys[int(i)].mid().man_exp())
        cut = max(0, man.bit_length() - 64)
        out[i] = np.ldexp(np.longdouble(man >> cut), exp + cut)
    return out


# Exact functions -----------------------------------------------------------------------------


def sign(x: float) -> float:
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def whole(f: Callable[[float], int]) -> Callable[[float], float]:
    """Rounding to a whole number, which keeps signs of zero."""

    def run(x: float) -> float:
        return math.copysign(float(f(x)), x) if math.isfinite(x) else x

    return run


def isinf(x: float) -> bool:
    return x in (INF, -INF)


def isfinite(x: float) -> bool:
    return -INF < x < INF


def isnan(x: float) -> bool:
    return not -INF <= x <= INF


def signbit(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def negative(x: float) -> float:
    return math.copysign(x, -math.copysign(1.0, x))


OF_FLOATS: dict[str, Callable[[float], float | bool]] = {
    "abs": math.fabs,
    "negative": negative,
    "sign": sign,
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "trunc": whole(math.trunc),
    "round": whole(round),
    "isnan": isnan,
    "isinf": isinf,
    "isfinite": isfinite,
    "signbit": signbit,
}


def sign_of_int(x: int) -> int:
    return (x > 0) - (x < 0)


def negative_int(x: int) -> int:
    return -x


def square_int(x: int) -> int:
    return x * x


def inverted(x: int) -> int:
    return -1 - x


def not_(x: int) -> bool:
    return x == 0


OF_INTS: dict[str, Callable[[int], int | bool]] = {
    "abs": abs,
    "negative": negative_int,
    "sign": sign_of_int,
    "square": square_int,
    "bitwise_invert": inverted,
    "logical_not": not_,
}


def wrapped(values: Sequence[int], dtype: DType) -> Array:
    """Integers as a dtype holds them."""
    bits = 8 * dtype.nbytes
    mask = (1 << bits) - 1
    unsigned = np.array([v & mask for v in values], np.uint64).astype(f"u{dtype.nbytes}")
    return unsigned.view(dtype.numpy)


def cast_to_int(x: Array, dtype: DType) -> Array:
    """Floats truncated and saturated, NaN as 0; integers wrapped."""
    if x.dtype.kind in "iub":
        return wrapped([int(v) for v in x.tolist()], dtype)
    info = np.iinfo(dtype.numpy)
    least, most = int(info.min), int(info.max)

    def one(v: float) -> int:
        if v != v:
            return 0
        if v in (INF, -INF):
            return most if v > 0 else least
        return min(max(int(v), least), most)

    return np.array([one(v) for v in x.astype(np.float64).tolist()], dtype.numpy)


# Bits of the significand, exponent of the least subnormal, exponent above the largest number.
FORMATS = {
    DType.F64: (53, -1074, 1024), DType.F32: (24, -149, 128), DType.F16: (11, -24, 16),
    DType.BF16: (8, -133, 128),
}  # fmt: skip


def cast(x: Array, source: DType, to: DType, saturating: bool) -> Array:
    """What a conversion gives; a saturating one nothing beyond the ends of the range."""
    if to is DType.BOOL:
        return np.array([v != 0 for v in x.tolist()])
    if to.is_int:
        if saturating and not source.is_float:
            least, most = to.limits
            return np.array([min(max(int(v), least), most) for v in x.tolist()], to.numpy)
        return cast_to_int(x, to)
    out = x if to is source else nearest(x.astype(np.longdouble), to)
    if not saturating:
        return out
    digits, _, top = FORMATS[to]
    largest = to.numpy.type(math.ldexp(2 - 2.0 ** (1 - digits), top - 1))
    return np.where(np.isinf(out), np.copysign(largest, out).astype(to.numpy), out)


def nearest(exact: Array, dtype: DType) -> Array:
    """Numbers of a float dtype nearest to longdoubles, halves to even, from the definition.

    To f16 and bf16 by way of f32, as casts are defined.
    """
    if dtype in (DType.F16, DType.BF16):
        exact = nearest(exact, DType.F32).astype(np.longdouble)
    digits, least, top = FORMATS[dtype]
    size = np.abs(exact)
    _, power = np.frexp(size)
    place = np.maximum(power - digits, least)
    scaled = np.ldexp(size, -place)
    down = np.floor(scaled)
    rest = scaled - down
    up = (rest > 0.5) | ((rest == 0.5) & (np.fmod(down, 2) == 1))
    out = np.ldexp(down + up, place)
    out = np.where(out >= np.ldexp(np.longdouble(1), top), np.longdouble(INF), out)
    out = np.where(np.isfinite(exact), out, size)
    return np.copysign(out, exact).astype(np.float64).astype(dtype.numpy)
