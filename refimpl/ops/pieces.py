"""Elementwise work on large arrays, in pieces that stay in a cache, several of them side by side.

A step of an expression on 16 million floats would otherwise make another 128 MB each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

import numpy as np

from didyma.refimpl.cores import cores
from didyma.refimpl.ir.types import Array

PIECE = 1 << 17  # elements of a piece, at most
LARGE = 1 << 20  # elements from which on an array is cut

Place: TypeAlias = tuple[slice, ...]  # where a piece lies
T = TypeVar("T")


def places(shape: Sequence[int]) -> Iterator[Place]:
    """Yield where the pieces of an array lie, in row-major order.

    >>> [at[0] for at in places((6, PIECE // 2))]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    size = math.prod(shape)
    if size <= PIECE:
        yield ()
        return
    first, *rest = shape
    if step := PIECE * first // size:
        yield from ((slice(k, k + step),) for k in range(0, first, step))
    else:
        yield from ((slice(k, k + 1), *at) for k in range(first) for at in places(rest))


def of_each(f: Callable[[Place], T], shape: Sequence[int]) -> list[T]:
    """Return what a function returns for each piece of a large array, or for a small one whole.

    Pieces are taken side by side, and without NumPy's floating-point warnings.
    """

    def quietly(at: Place) -> T:
        with np.errstate(all="ignore"):
            return f(at)

    if math.prod(shape) < LARGE:
        return [quietly(())]
    with ThreadPoolExecutor(cores()) as pool:
        return [*pool.map(quietly, places(shape))]


def elementwise(f: Callable[..., tuple[Array, ...]], *arrays: Array) -> tuple[Array, ...]:
    """Return ``f(*arrays)``, each element of which hangs on those at its own place alone.

    The results have the shape to which the arrays broadcast.
    """
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if math.prod(shape) < LARGE:
        return f(*arrays)
    whole = [np.broadcast_to(a, shape) for a in arrays]
    few = f(*(a[tuple(slice(0, 1) for _ in shape)] for a in whole))
    made = tuple(np.empty(shape, a.dtype) for a in few)

    def fill(at: Place) -> None:
        for target, part in zip(made, f(*(a[at] for a in whole)), strict=True):
            target[at] = part

    of_each(fill, shape)
    return made
