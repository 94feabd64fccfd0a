"""Arrays in files, as ``numpy.save`` writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir.types import Array


def array_of(path: Path, where: str) -> Array:
    """Return the array of a file; DidymaError ``unreadable-file`` at ``where``."""
    try:
        with path.open("rb") as f:
            found: Array = np.lib.format.read_array(f, allow_pickle=False)
    except (OSError, ValueError) as e:
        want = "an array as numpy.save writes it"
        raise DidymaError("unreadable-file", where, got=reason(e), want=want) from None
    return found
