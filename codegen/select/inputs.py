"""Example inputs of a function: made from dtypes, sizes, strides and offsets, and from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from didyma.codegen.select.keys import Argument
from didyma.refimpl.ir.types import Array, DType

PERIOD = 1_048_573  # a prime, so that elements a stride or a tile apart do not come out equal


def example(arguments: Sequence[Argument], seed: int) -> list[Array]:
    """Return an array for each argument, of its dtype, sizes, strides and offset.

    Floats are normally distributed.  Integers, which may be positions, are below the largest size
    of any argument.  After ``PERIOD`` numbers they come again.  The generator is made here, from
    the seed: no global state is read or changed.
    """
    rng = np.random.default_rng(seed)
    most = max((n for a in arguments for n in a.sizes), default=1)
    return [_laid_out(_values(rng, a, most), a) for a in arguments]


def _values(rng: np.random.Generator, a: Argument, most: int) -> Array:
    return np.resize(_drawn(rng, a.dtype, min(math.prod(a.sizes), PERIOD), most), a.sizes)


def _drawn(rng: np.random.Generator, dtype: DType, count: int, most: int) -> Array:
    if dtype is DType.BOOL:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_float:
        wide = np.float64 if dtype is DType.F64 else np.float32
        return rng.standard_normal(count, wide).astype(dtype.numpy)
    limit = min(int(dtype.limits[1]), max(1, most - 1))
    return rng.integers(0, limit, count, endpoint=True).astype(dtype.numpy)


def _laid_out(values: Array, a: Argument) -> Array:
    """Return the values with the strides and offset of an argument, in memory of their own."""
    if a == Argument.contiguous(a.name, a.dtype, a.sizes):
        return np.ascontiguousarray(values)
    reach = sum((n - 1) * s for n, s in zip(a.sizes, a.strides, strict=True)) if values.size else 0
    memory = np.zeros(a.offset + reach + 1, values.dtype)
    strides = [s * values.itemsize for s in a.strides]
    view = as_strided(memory[a.offset :], a.sizes, strides)
    view[...] = values
    return view
