"""What the names of a model stand for during import: values of the graph, constants, sequences.

ONNX computes shapes with tensors.  A constant may hold symbolic sizes, in an array of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from didyma.composites.builder import Builder, Value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.slicing import joined


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor whose elements are known at import: numbers, or sizes in an array of objects.

    ``name`` is the name that it gets when it becomes a node of the graph.
    """

    array: Array
    dtype: DType
    name: str = ""

    @property
    def type(self) -> TensorType:
        """Dtype and shape."""
        return TensorType(self.dtype, self.array.shape)

    @property
    def symbolic(self) -> bool:
        """Whether an element is a size that is not a number."""
        return self.array.dtype == object

    def dims(self) -> tuple[Dim, ...]:
        """Return the elements as sizes, in row-major order."""
        return tuple(dims.canonical(_plain(x)) for x in self.array.reshape(-1))


Operand: TypeAlias = Constant | Value


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """A sequence of tensors of one dtype, whose length is known at import."""

    dtype: DType
    items: tuple[Operand, ...]


Entry: TypeAlias = Operand | TensorList


def _plain(x: Any) -> Any:
    number: Any = x
    return number.item() if isinstance(x, np.generic) else number


def sizes(items: Iterable[Dim], dtype: DType = DType.I64) -> Constant:
    """Return a constant vector of sizes."""
    elements = tuple(items)
    array = np.empty(len(elements), object)
    array[:] = elements
    return settle(array, dtype)


def size(d: Dim, dtype: DType = DType.I64) -> Constant:
    """Return a constant scalar that is a size."""
    k = sizes((d,), dtype)
    return Constant(k.array.reshape(()), dtype)


def settle(array: Array, dtype: DType) -> Constant:
    """Return a constant: of numbers unless an element is a symbolic size."""
    if dtype is DType.BOOL:
        return Constant(array.astype(np.bool_), dtype)
    if array.dtype == object:
        flat = [dims.canonical(_plain(x)) for x in array.reshape(-1)]
        if all(isinstance(d, int) for d in flat):
            numbers = np.array([wrapped(int(d), dtype) for d in flat], dtype.numpy)
            return Constant(numbers.reshape(array.shape), dtype)
        objects = np.empty(len(flat), object)
        objects[:] = flat
        return Constant(objects.reshape(array.shape), dtype)
    return Constant(array.astype(dtype.numpy), dtype)


def wrapped(n: int, dtype: DType) -> int:
    """Return the integer that a dtype holds for ``n``, which wraps around its range.

    >>> wrapped(200, DType.I8), wrapped(-1, DType.U8)
    (-56, 255)
    """
    bits = dtype.bits
    low = n & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed and low >> (bits - 1) else low


def as_value(b: Builder, operand: Operand) -> Value:
    """Return a tensor as a value of the graph; a constant is added to it."""
    if isinstance(operand, Value):
        return operand
    if not operand.symbolic:
        return b.constant(operand.array, operand.name)
    parts = [_size(b, d, operand.dtype) for d in operand.dims()]
    vector = joined(parts, lambda group: b("concat", group, axis=0))
    return b("reshape", [vector], shape=operand.array.shape)


def _size(b: Builder, d: Dim, dtype: DType) -> Value:
    """Return a size as a tensor of one element."""
    v = _computed(b, d)
    return v if dtype is DType.I64 else b("cast", [v], dtype=dtype)


_OPERATIONS = {
    "Add": "add", "Mul": "multiply", "Max": "maximum", "Min": "minimum", "Mod": "remainder",
}  # fmt: skip


def operation(d: Any) -> tuple[str, tuple[Dim, ...]]:
    """Return the op that computes a symbolic size, and its operands.

    The name is that of a Didyma op, or "symbol".  ``bad-dim`` for an expression that is no size.

    >>> operation(dims.add(dims.symbol("n"), 1)), operation(dims.symbol("n"))
    (('add', (1, n)), ('symbol', ()))
    """
    name = d.func.__name__
    if name == "Symbol":
        return "symbol", ()
    op, args = _OPERATIONS.get(name, ""), d.args
    if name == "Pow" and d.args[1].is_Integer and d.args[1] > 0:
        op = "pow"
    elif name == "floor":
        op, args = "floor_divide", d.args[0].as_numer_denom()
    elif not op or any(a.is_Rational and not a.is_Integer for a in d.args):
        op, args = "floor_divide", d.as_numer_denom()  # such a size is an integer all the same
        if args[1] == 1:
            raise DidymaError("bad-dim", str(d), got=name, want="+ * // % min max over symbols")
    return op, tuple(map(dims.canonical, args))


def _computed(b: Builder, d: Dim) -> Value:
    """Return a size as i64[1]; a symbol ``s`` is the last element of an iota of ``s + 1``."""
    if isinstance(d, int):
        return b.constant(np.full(1, d, np.int64))
    op, operands = operation(d)
    if op == "symbol":
        count = b("iota", [], dtype=DType.I64, shape=(dims.add(d, 1),), axis=0)
        return b("slice", [count], starts=(d,), stops=(dims.add(d, 1),), steps=(1,))
    parts = [_computed(b, a) for a in operands]
    return reduce(lambda x, y: b(op, [x, y]), parts)
