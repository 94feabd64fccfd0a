"""The limits of floating-point dtypes."""

from __future__ import annotations

from typing import NamedTuple

from didyma.refimpl.ir.types import DType


class FloatLimits(NamedTuple):
    """Smallest subnormal and normal number, largest number, and distance from 1 to the next."""

    tiny: float
    normal: float
    largest: float
    eps: float


_BITS = {DType.F64: (11, 52), DType.F32: (8, 23), DType.F16: (5, 10), DType.BF16: (8, 7)}
_SMALL = {
    DType.F8E4M3: FloatLimits(2.0**-9, 2.0**-6, 448.0, 2.0**-3),
    DType.F8E4M3FNUZ: FloatLimits(2.0**-10, 2.0**-7, 240.0, 2.0**-3),
    DType.F8E5M2: FloatLimits(2.0**-16, 2.0**-14, 57344.0, 2.0**-2),
    DType.F8E5M2FNUZ: FloatLimits(2.0**-17, 2.0**-15, 57344.0, 2.0**-2),
    DType.F8E8M0: FloatLimits(2.0**-127, 2.0**-127, 2.0**127, 1.0),
    DType.F4E2M1: FloatLimits(0.5, 1.0, 6.0, 0.5),
}


def limits_of(dtype: DType) -> FloatLimits:
    """Return the limits of a dtype of floats.

    >>> limits_of(DType.F16).largest
    65504.0
    """
    if dtype in _SMALL:
        return _SMALL[dtype]
    exponent, mantissa = _BITS[dtype]
    bias = 2 ** (exponent - 1) - 1
    eps = 2.0**-mantissa
    return FloatLimits(2.0 ** (1 - bias - mantissa), 2.0 ** (1 - bias), (2 - eps) * 2.0**bias, eps)
