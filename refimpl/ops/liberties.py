"""What a contract allows an op of f32 beside the errors of its own rule.

Functions here are to be called under ``np.errstate(all="ignore")``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Bar, Contract, as_error

LEAST_NORMAL = 2.0**-126  # of f32
NEAR_OVERFLOW = 2.0**104  # of f32: a factor of 2**24 below the largest number
OF_ELEMENTS = ("add", "subtract", "multiply", "square")  # ops whose results may overflow
OF_MANY = (
    "sum", "mean", "prod", "matmul", "conv", "cumulative_sum", "cumulative_prod", "avg_pool",
)  # fmt: skip


def loosened(contract: Contract, name: str, operands: Sequence[Bar], b: Bar, dtype: DType) -> Bar:
    """Return the bar of an op's result, with ``looser``, ``flush`` and ``reordered`` of a contract.

    NaN and infinities stay what they are, unless they become undecided.
    """
    if dtype.compute is not DType.F32:
        return b
    more = contract.looser.get(name)
    e = b.e
    if more is not None:
        extra = more(operands, b)
        e = np.where(np.isfinite(b.c) | np.isinf(extra), as_error(e + extra), e)
    if contract.flush:
        near = (np.abs(b.c) - e < LEAST_NORMAL) & ((b.c != 0) | (e > 0))
        e = np.where(near, as_error(e + LEAST_NORMAL), e)
    if contract.reordered and name in (*OF_ELEMENTS, *OF_MANY):
        e = np.where(_near_overflow(name, operands, b), np.inf, e)
    return b if e is b.e else Bar(b.c, e)


def _near_overflow(name: str, operands: Sequence[Bar], b: Bar) -> Array:
    """Return where finite operands have a result that overflows, or nearly does."""
    near = np.abs(b.c) >= NEAR_OVERFLOW
    if not near.any() or all(np.isfinite(x.c).all() for x in operands):
        return near
    if name in OF_ELEMENTS:
        for x in operands:
            near = near & np.isfinite(x.c)
        return near
    return near & np.isfinite(b.c)  # infinities may be those of an operand
