"""The arrays that a library routine makes for an external call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import ExternalAllocate
from didyma.refimpl.ir.text import show_line
from didyma.refimpl.ir.types import Array


def allocated(s: ExternalAllocate, made: Any, sizes: Mapping[str, int]) -> list[Array]:
    """Return an array for each buffer; DidymaError ``extern-result`` where one is not of its type.

    ``made`` is what the routine returned: a tuple or list, or one array for one buffer.
    """
    several: list[Any] = [*made] if isinstance(made, tuple | list) else [made]
    results: list[Array] = [np.asarray(a) for a in several]
    got = [(a.dtype, a.shape) for a in results]
    want = [(b.dtype.numpy, dims.values(b.shape, sizes)) for b in s.buffers]
    if got != want:
        raise DidymaError(
            "extern-result", show_line(s), got=_listed(got), want=_listed(want),
            help="a routine that allocates returns one array for each buffer",
        )  # fmt: skip
    return results


def _listed(arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in arrays) or "nothing"
