"""Values during import: in the graph, or known already.

ONNX computes shapes with tensors.  Such a tensor is kept as an array of dims, and NumPy's own
functions on object arrays do the arithmetic, so that symbolic sizes survive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.builder import Builder, Value
from didyma.refimpl.ops.slicing import joined


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
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


Operand: TypeAlias = Constant | Value


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """A sequence of tensors of one dtype, which has a known length."""

    dtype: DType
    items: tuple[Operand, ...]


Entry: TypeAlias = Operand | TensorList


def _plain(x: Any) -> Any:
    number: Any = x
    return number.item() if isinstance(x, np.generic) else number


def sizes(items: Iterable[Dim], dtype: DType = DType.I64) -> Constant:
    """Return a vector of dims."""
    held = tuple(items)
    array = np.empty(len(held), object)
    array[:] = held
    return settle(array, dtype)


def size(d: Dim, dtype: DType = DType.I64) -> Constant:
    """Return a scalar that is a dim."""
    k = sizes((d,), dtype)
    return Constant(k.array.reshape(()), dtype)


def settle(array: Array, dtype: DType) -> Constant:
    """Return a tensor of numbers if none of the dims is symbolic, else of dims."""
    if dtype is DType.BOOL:
        return Constant(array.astype(np.bool_), dtype)
    if array.dtype == object:
        flat = [dims.canonical(_plain(x)) for x in array.reshape(-1)]
        if all(isinstance(d, int) for d in flat):
            numbers = np.array([wrapped(int(d), dtype) for d in flat], dtype.numpy)
            return Constant(numbers.reshape(array.shape), dtype)
        held = np.empty(len(flat), object)
        held[:] = flat
        return Constant(held.reshape(array.shape), dtype)
    return Constant(array.astype(dtype.numpy), dtype)


def wrapped(n: int, dtype: DType) -> int:
    """Return an integer as it is found in a dtype: modulo its range."""
    bits = dtype.bits
    low = n & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed and low >> (bits - 1) else low


def as_value(b: Builder, item: Operand) -> Value:
    """Put a known tensor into the graph."""
    if isinstance(item, Value):
        return item
    if not item.symbolic:
        return b.constant(item.array, item.name)
    parts = [_size(b, d, item.dtype) for d in item.dims()]
    whole = joined(parts, lambda group: b("concat", group, axis=0))
    return b("reshape", [whole], shape=item.array.shape)


def _size(b: Builder, d: Dim, dtype: DType) -> Value:
    """Return a size as a tensor of one element."""
    v = _computed(b, d)
    return v if dtype is DType.I64 else b("cast", [v], dtype=dtype)


_FOLDS = {"Add": "add", "Mul": "multiply", "Max": "maximum", "Min": "minimum", "Mod": "remainder"}


def _computed(b: Builder, e: Any) -> Value:
    """Return a size as i64[1]: a symbol is the last of so many numbers, counted from 0."""
    if isinstance(e, int):
        return b.constant(np.full(1, e, np.int64))
    name = e.func.__name__
    if not e.args:
        count = b("iota", [], dtype=DType.I64, shape=(dims.add(e, 1),), axis=0)
        return b("slice", [count], starts=(e,), stops=(dims.add(e, 1),), steps=(1,))
    if name == "floor":
        above, below = (dims.canonical(x) for x in e.args[0].as_numer_denom())
        return b("floor_divide", [_computed(b, above), _computed(b, below)])
    if name == "Pow" and e.args[1].is_Integer and e.args[1] > 0:
        return b("pow", [_computed(b, dims.canonical(x)) for x in e.args])
    if name in _FOLDS and all(a.is_Integer or not a.is_Rational for a in e.args):
        parts = [_computed(b, dims.canonical(a)) for a in e.args]
        return reduce(lambda x, y: b(_FOLDS[name], [x, y]), parts)
    above, below = (dims.canonical(x) for x in e.as_numer_denom())
    if below == 1:
        raise DidymaError("bad-dim", str(e), got=name, want="+ * // % min max over symbols")
    return b("floor_divide", [_computed(b, above), _computed(b, below)])
