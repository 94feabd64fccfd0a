"""Values during import: in the graph, or known already.

ONNX computes shapes with tensors.  Such a tensor is kept as an array of dims, and NumPy's own
functions on object arrays do the arithmetic, so that symbolic sizes survive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops.builder import Builder, Value


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A tensor known at import: numbers, or dims in an object array.

    ``name`` is what it should be called when it enters the graph.
    """

    array: Array
    dtype: DType
    name: str = ""

    @property
    def type(self) -> TensorType:
        """The tensor type."""
        return TensorType(self.dtype, self.array.shape)

    @property
    def symbolic(self) -> bool:
        """True when some element is a size that is not a number."""
        return self.array.dtype == object

    def dims(self) -> tuple[Dim, ...]:
        """Elements of an integer vector or scalar as dims."""
        return tuple(dims.canonical(_plain(x)) for x in self.array.reshape(-1))


Item: TypeAlias = Known | Value


def _plain(x: Any) -> Any:
    number: Any = x
    return number.item() if isinstance(x, np.generic) else number


def sizes(items: Iterable[Dim], dtype: DType = DType.I64) -> Known:
    """Return a vector of dims."""
    held = tuple(items)
    array = np.empty(len(held), object)
    array[:] = held
    return settle(array, dtype)


def size(d: Dim, dtype: DType = DType.I64) -> Known:
    """Return a scalar that is a dim."""
    k = sizes((d,), dtype)
    return Known(k.array.reshape(()), dtype)


def settle(array: Array, dtype: DType) -> Known:
    """Return a tensor of numbers if none of the dims is symbolic, else of dims."""
    if array.dtype == object:
        flat = [dims.canonical(_plain(x)) for x in array.reshape(-1)]
        if all(isinstance(d, int) for d in flat):
            numbers = np.array([wrapped(int(d), dtype) for d in flat], dtype.numpy)
            return Known(numbers.reshape(array.shape), dtype)
        held = np.empty(len(flat), object)
        held[:] = flat
        return Known(held.reshape(array.shape), dtype)
    return Known(array.astype(dtype.numpy), dtype)


def wrapped(n: int, dtype: DType) -> int:
    """Return an integer as it is found in a dtype: modulo its range."""
    bits = 8 * dtype.nbytes
    low = n & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed and low >> (bits - 1) else low


def as_value(b: Builder, item: Item) -> Value:
    """Put a known tensor into the graph."""
    if isinstance(item, Value):
        return item
    if not item.symbolic:
        return b.constant(item.array, item.name)
    parts = [_size(b, d, item.dtype) for d in item.dims()]
    whole = b("concat", parts, axis=0) if len(parts) > 1 else parts[0]
    return b("reshape", [whole], shape=item.array.shape)


def _size(b: Builder, d: Dim, dtype: DType) -> Value:
    """Return a size as a tensor of one element: so many ones, counted."""
    if isinstance(d, int):
        return b.constant(np.full(1, d, dtype.numpy))
    one = b.constant(np.ones(1, dtype.numpy))
    ones = b("broadcast_to", [one], shape=(d,))
    return b("sum", [ones], axes=(0,), keepdims=True)
