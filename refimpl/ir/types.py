"""Element types, tensor types and constant tensors, shared by every level."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from refimpl.ir import dims
from refimpl.ir.dims import Dim

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[Dim, ...]


class DType(StrEnum):
    """Element types; the value is the text form.

    >>> DType.BF16.nbytes, DType.U8.is_signed, DType("f32").numpy
    (2, False, dtype('float32'))
    """

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    @property
    def nbytes(self) -> int:
        """Bytes an element takes in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """True of f64, f32, f16 and bf16."""
        return self in FLOATS

    @property
    def is_int(self) -> bool:
        """True of the signed and unsigned integers; not of bool."""
        return self in INTS

    @property
    def is_signed(self) -> bool:
        """True of floats and signed integers."""
        return self.is_float or self in SIGNED

    @property
    def compute(self) -> DType:
        """The dtype arithmetic is done in: f32 for f16 and bf16, else the dtype itself."""
        return DType.F32 if self in (DType.F16, DType.BF16) else self

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of an array of this type."""
        return _NUMPY[self]

    @staticmethod
    def of(array: Array) -> DType:
        """Return the dtype of a NumPy array; KeyError if there is none.

        >>> DType.of(np.zeros(2, np.int16))
        <DType.I16: 'i16'>
        """
        return _FROM_NUMPY[array.dtype]


FLOATS = (DType.F64, DType.F32, DType.F16, DType.BF16)
SIGNED = (DType.I8, DType.I16, DType.I32, DType.I64)
UNSIGNED = (DType.U8, DType.U16, DType.U32, DType.U64)
INTS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, DType.BOOL)

_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_FROM_NUMPY = {v: k for k, v in _NUMPY.items()}


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it has a value.

    ``device`` is empty for the program's own device, else a name such as ``cuda:1``.
    """

    dtype: DType
    shape: Shape = ()
    device: str = ""

    @property
    def numel(self) -> Dim:
        """Number of elements."""
        return dims.mul(*self.shape)

    @property
    def nbytes(self) -> Dim:
        """Number of bytes, unpadded."""
        return dims.mul(self.numel, self.dtype.nbytes)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def with_shape(self, *shape: Dim) -> TensorType:
        """Return the same element type and device with another shape."""
        return TensorType(self.dtype, shape, self.device)

    def with_dtype(self, dtype: DType) -> TensorType:
        """Return the same shape and device with another element type."""
        return TensorType(dtype, self.shape, self.device)

    def __str__(self) -> str:
        where = f"@{self.device}" if self.device else ""
        return f"{self.dtype}[{', '.join(dims.text(d) for d in self.shape)}]{where}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant: little-endian bytes in row-major order, compared by content."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    @staticmethod
    def of(array: Array) -> Tensor:
        """Freeze an array.

        >>> Tensor.of(np.float32([1, 2])).array()
        array([1., 2.], dtype=float32)
        """
        return Tensor(DType.of(array), array.shape, np.ascontiguousarray(array).tobytes())

    def array(self) -> Array:
        """Return the value as a read-only array."""
        return np.frombuffer(self.data, self.dtype.numpy).reshape(self.shape)

    @property
    def type(self) -> TensorType:
        """The tensor type."""
        return TensorType(self.dtype, self.shape)
