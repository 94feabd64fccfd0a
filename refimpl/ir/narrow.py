"""Rounding of f32 to the floats that are storage: to nearest, halves to even, as NumPy does it.

Two dtypes have rules of their own.  f4e2m1 has no NaN, which becomes 0.  f8e8m0 has powers of two
alone: halves go to the larger, 0, negative numbers and what is beyond the largest become NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didyma.refimpl.ir.types import DType


def narrow(x: Any, to: DType) -> Any:
    """Round an f32 array or scalar to a storage dtype.

    >>> float(narrow(np.float32(3.0), DType.F8E8M0)), float(narrow(np.float32(9.0), DType.F4E2M1))
    (4.0, 6.0)
    """
    if to is DType.F4E2M1:
        x = np.where(x != x, np.float32(0), x)[()]
    return _power(x, to) if to is DType.F8E8M0 else x.astype(to.numpy)


def _power(x: Any, to: DType) -> Any:
    bits = x.view(np.uint32)
    exponent, rest = bits >> np.uint32(23), bits & np.uint32(0x7FFFFF)
    half = np.where(exponent == 0, np.uint32(0x600000), np.uint32(0x400000))  # 2**-127 is subnormal
    code = exponent + (rest >= half)
    code = np.where((bits == 0) | (bits >= 0x7F800000), np.uint32(255), code)
    return code.astype(np.uint8).view(to.numpy)[()]
