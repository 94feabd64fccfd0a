"""Floats of a byte and less, written down from their formats: every number, and the nearest one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from didyma.refimpl.ir.types import DType


@dataclass(frozen=True)
class Format:
    """Bits of exponent and mantissa; ``top`` is the code of the largest number."""

    mantissa: int
    bias: int
    top: int
    infinity: bool = False
    nan: bool = True
    negative_zero: bool = True


FORMATS = {
    DType.F8E4M3: Format(3, 7, 0x7E),
    DType.F8E4M3FNUZ: Format(3, 8, 0x7F, negative_zero=False),
    DType.F8E5M2: Format(2, 15, 0x7B, infinity=True),
    DType.F8E5M2FNUZ: Format(2, 16, 0x7F, negative_zero=False),
    DType.F4E2M1: Format(1, 1, 0x7, nan=False),
}


def size(code: int, f: Format) -> Fraction:
    """Number of a code without its sign."""
    e, m = code >> f.mantissa, code & ((1 << f.mantissa) - 1)
    unit = Fraction(2) ** (max(e, 1) - f.bias - f.mantissa)
    return (m + (1 << f.mantissa if e else 0)) * unit


def sizes(dtype: DType) -> list[Fraction]:
    """Every finite size of a dtype, in order."""
    if dtype is DType.F8E8M0:
        return [Fraction(2) ** (code - 127) for code in range(255)]
    f = FORMATS[dtype]
    return [size(code, f) for code in range(f.top + 1)]


def cast(x: float, dtype: DType, saturating: bool = False) -> float:
    """The number that ``x`` becomes: the nearest, ties to the even code, specials as written."""
    if dtype is DType.F8E8M0:
        return _power(x, saturating)
    f = FORMATS[dtype]
    if x != x:
        return math.nan if f.nan else 0.0
    sign = math.copysign(1.0, x)
    every = sizes(dtype)
    beyond = every[-1] + (every[-1] - every[-2]) / 2  # a tie goes to the even code of the two
    odd_top = f.top % 2 == 1
    over = math.isinf(x) or Fraction(abs(x)) > beyond or (odd_top and Fraction(abs(x)) == beyond)
    if over:
        if saturating or not f.nan:
            return sign * float(every[-1])
        return sign * math.inf if f.infinity else math.nan
    exact = Fraction(abs(x))
    code = min(range(len(every)), key=lambda k: (abs(every[k] - exact), k % 2))
    near = float(every[code])
    return near if near == 0 and not f.negative_zero else sign * near


def _power(x: float, saturating: bool) -> float:
    """f8e8m0: powers of two, halves to the larger."""
    least, most = Fraction(2) ** -127, Fraction(2) ** 127
    if x != x:
        return math.nan
    if saturating:
        x = float(most) if math.isinf(x) and x > 0 else float(least) if math.isinf(x) else x
        exact = min(max(Fraction(x), least), most)
    else:
        if math.isinf(x) or x <= 0 or Fraction(x) >= most * 3 / 2:
            return math.nan
        exact = max(Fraction(x), least)
    k = math.floor(math.log2(exact))
    low = next(Fraction(2) ** j for j in (k + 1, k, k - 1) if Fraction(2) ** j <= exact)
    return float(2 * low if exact * 2 >= low * 3 and low < most else low)
