"""Element types, tensor types and constant tensors, shared by every level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from didyma.refimpl.ir import dims, packing
from didyma.refimpl.ir.dims import Dim

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[Dim, ...]


class DType(StrEnum):
    """Element types; the value is the text form.

    f16, bf16, the f8 and f4 types and the integers of less than a byte are storage: arithmetic is
    done in ``compute``.  There is no complex dtype: a complex number is an axis of two reals at
    the end, as ONNX has it.

    >>> DType.BF16.nbytes, DType.U8.is_signed, DType("f32").numpy
    (2, False, dtype('float32'))
    >>> DType.I4.bits, DType.I4.limits, DType.F8E5M2.compute
    (4, (-8, 7), <DType.F32: 'f32'>)
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
    F8E4M3 = "f8e4m3"  # ONNX's FLOAT8E4M3FN: no infinity
    F8E4M3FNUZ = "f8e4m3fnuz"  # no infinity, one zero, one NaN
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"  # no infinity, one zero, one NaN
    F8E8M0 = "f8e8m0"  # powers of two and NaN: scales
    F4E2M1 = "f4e2m1"  # neither infinity nor NaN; two to a byte, as i4 and u4
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"  # four to a byte, as u2
    U2 = "u2"

    @property
    def nbytes(self) -> int:
        """The bytes that an element takes in a NumPy array, and in memory unless it is packed."""
        return self.numpy.itemsize

    @property
    def bits(self) -> int:
        """The bits that an element takes in memory."""
        return _BITS.get(self) or 8 * self.nbytes

    @property
    def is_packed(self) -> bool:
        """Return whether several elements share a byte of memory."""
        return self in _BITS

    @property
    def is_float(self) -> bool:
        """Return whether the dtype is a floating-point one."""
        return self in _REALS

    @property
    def is_int(self) -> bool:
        """Return whether the dtype is a signed or unsigned integer; bool is none."""
        return self in _WHOLES

    @property
    def is_signed(self) -> bool:
        """Return whether the dtype has negative values; the one float that has none is f8e8m0."""
        return self in _SIGNED

    @property
    def compute(self) -> DType:
        """The dtype that arithmetic is done in: f32 or a whole byte for storage, else the dtype."""
        return _COMPUTE.get(self, self)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer dtype."""
        top = self.bits - self.is_signed
        return -(1 << top) if self.is_signed else 0, (1 << top) - 1

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
PLAIN = (*NUMBERS, DType.BOOL)  # what more than casts and moves is defined on
F8 = (DType.F8E4M3, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ, DType.F8E8M0)
BYTES = (*PLAIN, *F8)  # dtypes of whole bytes: those of loop programs and kernels
PACKED = (DType.F4E2M1, DType.I4, DType.U4, DType.I2, DType.U2)
ALL = (*BYTES, *PACKED)

_REALS = frozenset((*FLOATS, *F8, DType.F4E2M1))
_WHOLES = frozenset((*INTS, DType.I4, DType.U4, DType.I2, DType.U2))
_SIGNED = (_REALS - {DType.F8E8M0}) | {*SIGNED, DType.I4, DType.I2}
_BITS = {DType.F4E2M1: 4, DType.I4: 4, DType.U4: 4, DType.I2: 2, DType.U2: 2}
_COMPUTE = {
    **dict.fromkeys((DType.F16, DType.BF16, *F8, DType.F4E2M1), DType.F32),
    **dict.fromkeys((DType.I4, DType.I2), DType.I8),
    **dict.fromkeys((DType.U4, DType.U2), DType.U8),
}
_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.F8E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.F4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.U2: np.dtype(ml_dtypes.uint2),
}
_FROM_NUMPY = {v: k for k, v in _NUMPY.items()}


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor: its element type, shape, device, and where its elements lie.

    ``device`` is empty for the program's own device, else a name such as ``cuda:1``.  Elements are
    in row-major order where ``strides`` is None.  Else the element at an index lies ``offset`` and
    the sum of index times stride, for each axis, elements behind the beginning of its memory.
    """

    dtype: DType
    shape: Shape = ()
    device: str = ""
    strides: tuple[Dim, ...] | None = None
    offset: Dim = 0

    @property
    def numel(self) -> Dim:
        """The number of elements."""
        return dims.mul(*self.shape)

    @property
    def nbytes(self) -> Dim:
        """The number of bytes in memory, unpadded; packed elements fill whole bytes."""
        if self.dtype.is_packed:
            return dims.ceildiv(self.numel, 8 // self.dtype.bits)
        if self.strides is not None:
            return dims.mul(self.span, self.dtype.nbytes)
        return dims.mul(*self.shape, self.dtype.nbytes)

    @property
    def span(self) -> Dim:
        """The number of elements from the beginning of the memory to the last one, gaps included.

        >>> TensorType(DType.F32, (3, 4), strides=(8, 1), offset=2).span
        22
        """
        if self.strides is None:
            return self.numel
        if 0 in self.shape:
            return 0
        return dims.add(self.reach[1], 1)

    @property
    def reach(self) -> tuple[Dim, Dim]:
        """Where the first and the last element in memory lie, of a type with strides.

        An axis without positions counts as one with a single position.
        """
        assert self.strides is not None
        low = high = self.offset
        for n, stride in zip(self.shape, self.strides, strict=True):
            far = dims.mul(dims.sub(dims.maximum(n, 1), 1), stride)
            if dims.never_negative(stride):
                high = dims.add(high, far)
            elif dims.never_negative(dims.sub(0, stride)):
                low = dims.add(low, far)
            else:
                low = dims.add(low, dims.minimum(far, 0))
                high = dims.add(high, dims.maximum(far, 0))
        return low, high

    @property
    def memory(self) -> TensorType:
        """The type as kernels see it: packed elements, and those with strides, are one row."""
        if self.dtype.is_packed:
            return TensorType(DType.U8, (self.nbytes,), self.device)
        if self.strides is not None:
            return TensorType(self.dtype, (self.span,), self.device)
        return self

    @property
    def dense(self) -> TensorType:
        """The type in row-major order."""
        if self.strides is None:
            return self
        return TensorType(self.dtype, self.shape, self.device)

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """The sizes that the type names: those of the shape, strides and offset."""
        return self.shape if self.strides is None else (*self.shape, *self.strides, self.offset)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def with_shape(self, *shape: Dim) -> TensorType:
        """Return the same element type and device with another shape."""
        return TensorType(self.dtype, shape, self.device)

    def with_dtype(self, dtype: DType) -> TensorType:
        """Return the same shape and device with another element type."""
        return TensorType(dtype, self.shape, self.device)

    def __str__(self) -> str:
        where = f"@{self.device}" if self.device else ""
        lies = ""
        if self.strides is not None:
            lies = f" strides ({', '.join(map(dims.text, self.strides))})"
            lies += f" offset {dims.text(self.offset)}" if self.offset != 0 else ""
        return f"{self.dtype}[{', '.join(dims.text(d) for d in self.shape)}]{where}{lies}"


def nbytes_of(dtype: str, shape: Sequence[int]) -> int:
    """Return the number of bytes that a tensor of a dtype, or its name, takes in memory."""
    return -(-math.prod(shape) * DType(dtype).bits // 8)


def to_memory(array: Array) -> Array:
    """Return an array as kernels see it: packed elements as a row of bytes."""
    dtype = _FROM_NUMPY.get(array.dtype)
    return packing.pack(array, dtype.bits) if dtype is not None and dtype.is_packed else array


def from_memory(raw: Array, dtype: str, shape: Sequence[int]) -> Array:
    """Return the array that bytes in memory, or elements as kernels see them, stand for.

    The dtype may be given by its name.
    """
    dtype = DType(dtype)
    if dtype.is_packed:
        return packing.unpack(raw.view(np.uint8), dtype.numpy, dtype.bits, shape)
    return raw.view(dtype.numpy).reshape(tuple(shape))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant: its bytes in memory, little-endian in row-major order, compared by content.

    Packed elements share bytes, the first in the lowest bits; bits left over are 0.
    """

    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    @staticmethod
    def of(array: Array) -> Tensor:
        """Freeze an array.

        >>> Tensor.of(np.float32([1, 2])).array()
        array([1., 2.], dtype=float32)
        """
        dtype = DType.of(array)
        return Tensor(dtype, array.shape, packing.memory(array, dtype.bits).tobytes())

    def array(self) -> Array:
        """Return the value as a read-only array."""
        dtype = self.dtype
        if dtype.is_packed:
            return packing.unpack(self.data, dtype.numpy, dtype.bits, self.shape)
        return np.frombuffer(self.data, dtype.numpy).reshape(self.shape)

    @property
    def type(self) -> TensorType:
        """The type of the tensor, on the program's own device."""
        return TensorType(self.dtype, self.shape)
