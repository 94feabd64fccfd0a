"""Values of tensors as people read them: small ones in full, large ones summarised."""

from __future__ import annotations

import numpy as np

from didyma.refimpl.ir.types import Tensor

SMALL = 16  # elements of a value that is shown in full


def value(t: Tensor) -> str:
    """Return all elements of a small value; of a large one its range, and counts of special ones.

    >>> value(Tensor.of(np.float32([[1, np.nan], [0, -2.5]])))
    'f32[2, 2] = [[1.0, nan], [0.0, -2.5]]'
    >>> value(Tensor.of(np.arange(40)))
    'i64[40]: from 0 to 39, 1 zero'
    """
    x = t.array().astype(t.dtype.compute.numpy)
    if x.size <= SMALL:
        return f"{t.type} = {x.tolist()}"
    finite = x[np.isfinite(x)] if x.dtype.kind == "f" else x
    parts = [f"from {finite.min()} to {finite.max()}"] if finite.size else []
    counts = {
        "NaN": np.count_nonzero(np.isnan(x)) if x.dtype.kind == "f" else 0,
        "infinite": np.count_nonzero(np.isinf(x)) if x.dtype.kind == "f" else 0,
        "zero": np.count_nonzero(x == 0),
    }
    parts += [f"{n} {word}" for word, n in counts.items() if n]
    return f"{t.type}: {', '.join(parts)}"
