"""C's ``pow`` of arrays."""

from __future__ import annotations

import numpy as np

from didyma.refimpl.ir.types import Array


def power(x: Array, y: Array) -> Array:
    """Return powers of real numbers with the special values of C99, F.9.4.4.

    NumPy differs in two cases.  It takes a square root where the exponent is a single 0.5, which
    gives -0 and -infinity other signs; and 1**NaN and NaN**0 of a signalling NaN are NaN.
    """
    found = np.power(x, y)
    root = (y == 0.5) & ((x == 0) | (x == -np.inf))
    if np.any(root):
        found = np.asarray(np.where(root, np.abs(x), found))
    lost = np.isnan(found) & ((x == 1) | (y == 0))
    if np.any(lost):
        found = np.asarray(np.where(lost, found.dtype.type(1), found))
    return found
