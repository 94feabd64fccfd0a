"""Matrix products by NumPy's BLAS, on one thread where several do not pay."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from threadpoolctl import LibController

# Multiplications: a BLAS gives fewer than this to one thread of its own accord, and more than that
# to all.  In between a second thread saves milliseconds where a processor waits for it, and loses
# many where none does: the first thread spins until the second has been given its turn.
FEW = 1 << 18
MANY = 1 << 30


@cache
def _pools() -> tuple[LibController, ...]:
    """Return the controllers of the thread pools of the BLAS that this process has loaded."""
    try:  # not needed, and slow to import, before a product is worth it
        from threadpoolctl import ThreadpoolController
    except ImportError:  # products are as right on all threads
        return ()
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


def matmul(a: Array, b: Array) -> Array:
    """Return the matrix product of floats in a layout that BLAS takes."""
    work = math.prod(a.shape[-2:]) * b.shape[-1]
    if work < FEW or work >= MANY:
        return np.asarray(np.matmul(a, b))
    # The numbers of threads found are restored, whatever other Python threads do meanwhile.
    before = [(p, p.num_threads) for p in _pools()]
    busy = [(p, n) for p, n in before if n is not None and n > 1]
    for p, _ in busy:
        p.set_num_threads(1)
    try:
        return np.asarray(np.matmul(a, b))
    finally:
        for p, n in busy:
            p.set_num_threads(n)
