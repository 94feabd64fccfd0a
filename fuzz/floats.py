"""The limits of floating-point dtypes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes

from didyma.refimpl.ir.types import DType


class FloatLimits(NamedTuple):
    """Smallest subnormal and normal number, largest number, and distance from 1 to the next."""

    tiny: float
    normal: float
    largest: float
    eps: float


@lru_cache(maxsize=32)
def limits_of(dtype: DType) -> FloatLimits:
    """Return the limits of a dtype of floats, as ``ml_dtypes`` states them.

    >>> limits_of(DType.F16).largest
    65504.0
    """
    finfo: Any = ml_dtypes.finfo  # which has no types
    f: Any = finfo(dtype.numpy)
    return FloatLimits(
        float(f.smallest_subnormal), float(f.smallest_normal), float(f.max), float(f.eps)
    )
