"""Values during import: in the graph, or known already.

ONNX computes shapes with tensors.  Such a tensor is kept as an array of dims, and NumPy's own
functions on object arrays do the arithmetic, so that symbolic sizes survive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from refimpl.errors import DidymaError
from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops.builder import Builder, Value


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor known at import: numbers, or dims in an object array."""

    array: Array
    dtype: DType

    @property
    def type(self) -> TensorType:
        """The tensor type."""
        return TensorType(self.dtype, self.array.shape)

    def dims(self) -> tuple[Dim, ...]:
        """Elements of an integer vector or scalar as dims."""
        return tuple(dims.canonical(_plain(x)) for x in self.array.reshape(-1))


Item: TypeAlias = Known | Value


def _plain(x: object) -> object:
    return x.item() if isinstance(x, np.generic) else x


def sizes(items: tuple[Dim, ...], dtype: DType = DType.I64) -> Known:
    """Return a vector of dims."""
    array = np.empty(len(items), object)
    array[:] = items
    return settle(array, dtype)


def settle(array: Array, dtype: DType) -> Known:
    """Return a tensor of numbers if none of the dims is symbolic, else of dims."""
    if array.dtype == object:
        flat = [dims.canonical(_plain(x)) for x in array.reshape(-1)]
        if all(isinstance(d, int) for d in flat):
            return Known(np.array(flat, dtype.numpy).reshape(array.shape), dtype)
        held = np.empty(len(flat), object)
        held[:] = flat
        return Known(held.reshape(array.shape), dtype)
    return Known(array.astype(dtype.numpy), dtype)


def as_value(b: Builder, item: Item, name: str = "") -> Value:
    """Put a known tensor into the graph."""
    if isinstance(item, Value):
        return item
    if item.array.dtype != object:
        return b.constant(item.array, name)
    parts = [_size(b, d, item.dtype) for d in item.dims()]
    whole = b("concat", parts, axis=0) if len(parts) > 1 else parts[0]
    return b("reshape", [whole], shape=item.array.shape)


def _size(b: Builder, d: Dim, dtype: DType) -> Value:
    """Return a size as a tensor of one element: so many ones, counted."""
    one = b.constant(np.ones(1, dtype.numpy))
    if isinstance(d, int):
        return b.constant(np.full(1, d, dtype.numpy))
    ones = b("broadcast_to", [one], shape=(d,))
    return b("sum", [ones], axes=(0,), keepdims=True)


def ints(item: Item, what: str) -> tuple[int, ...]:
    """Return a known vector of plain integers; DidymaError ``onnx-not-constant`` otherwise."""
    found = known_dims(item, what)
    plain = tuple(d for d in found if isinstance(d, int))
    if len(plain) != len(found):
        raise _unknown(what, f"the sizes {', '.join(map(dims.text, found))}")
    return plain


def known_dims(item: Item, what: str) -> tuple[Dim, ...]:
    """Return a known vector of sizes; DidymaError ``onnx-not-constant`` otherwise."""
    if isinstance(item, Known):
        return item.dims()
    raise _unknown(what, f"%{item.name}, which is computed at run time")


def _unknown(what: str, got: str) -> DidymaError:
    return DidymaError(
        "onnx-not-constant",
        what,
        got=got,
        want="a value known when the model is imported",
        help="fix the input as an initializer, for example with onnxsim",
    )
