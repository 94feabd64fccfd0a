"""Sorting of tensors under tracing."""

from __future__ import annotations

from didyma.functions import axis_of
from didyma.refimpl.ops import ordering
from didyma.tensor import Tensor, common, within
from didyma.types import AnySize, size


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Places (i64) of the elements along an axis in order; equals keep theirs, NaNs are greatest.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[4])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.argsort(x, descending=True)
    >>> dd.compile(f)(np.float32([1, 3, np.nan, 3]))
    array([2, 1, 3, 0])
    """
    b = common(x)
    return Tensor(b, ordering.argsort(b, within(b, x), axis_of(x, axis), descending))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Return the elements along an axis in order, NaNs as greatest."""
    b = common(x)
    return Tensor(b, ordering.sort(b, within(b, x), axis_of(x, axis), descending))


def top_k(
    x: Tensor, k: AnySize, /, *, axis: int = -1, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` greatest or least elements along an axis, best first, and their places.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[2, 3])
    ... def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    ...     return dd.top_k(x, 2)
    >>> best, places = dd.compile(f)(np.float32([[1, 5, 3], [4, 0, 2]]))
    >>> best.tolist(), places.tolist()
    ([[5.0, 3.0], [4.0, 2.0]], [[1, 2], [0, 2]])
    """
    b = common(x)
    best, places = ordering.top_k(b, within(b, x), size(k).value, axis_of(x, axis), largest)
    return Tensor(b, best), Tensor(b, places)
