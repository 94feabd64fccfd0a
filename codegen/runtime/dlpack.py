"""Arrays of other libraries by DLPack: borrow one without a copy, and lend one's own.

DLPack (https://dmlc.github.io/dlpack) is the protocol by which PyTorch, JAX, CuPy and NumPy hand
each other arrays.  An array's method ``__dlpack__`` returns a capsule with its address, dtype,
shape and strides, and a function by which the borrower says that it is done.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType

CPU, CUDA = 1, 2  # DLPack's numbers of kinds of devices
ALIGNED = 16  # bytes: kernels have accesses as wide, at multiples of it from where an array begins
_NAME = b"dltensor"
_CODES: dict[DType, int] = {
    **dict.fromkeys((DType.I8, DType.I16, DType.I32, DType.I64), 0),
    **dict.fromkeys((DType.U8, DType.U16, DType.U32, DType.U64), 1),
    **dict.fromkeys((DType.F16, DType.F32, DType.F64), 2),
    DType.BF16: 4,
    DType.BOOL: 6,
    DType.F8E4M3: 10,
    DType.F8E4M3FNUZ: 11,
    DType.F8E5M2: 12,
    DType.F8E5M2FNUZ: 13,
    DType.F8E8M0: 14,
}
_TYPES = {d: (code, d.bits) for d, code in _CODES.items()}
_DTYPES = {v: d for d, v in _TYPES.items()}


# DLManagedTensor up to its strides: the address of the elements; the kind and number of the device;
# the rank; the code, bits and lanes of the dtype; the addresses of the shape and the strides, and
# the offset of the first element in bytes.  What manages it and its deleter follow.
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_WORDS = 8  # of 64 bits in a DLManagedTensor
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", _api)
)


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What another library's array says of itself; ``owner`` keeps its memory alive.

    ``strides`` count elements.  ``device`` is DLPack's kind of device and its number.
    """

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: tuple[int, int]
    owner: object

    @property
    def is_packed(self) -> bool:
        """Return whether the elements are in row-major order, side by side."""
        usual = row_major(self.shape)
        if self.strides == usual or 0 in self.shape:
            return True
        rows = zip(self.shape, self.strides, usual, strict=True)
        return all(n == 1 or s == t for n, s, t in rows)


@lru_cache(maxsize=1024)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array in row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = list[int](), 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def borrow(given: Any, stream: int | None = None) -> Borrowed:
    """Borrow an array that has ``__dlpack__``, once its contents are there for work on a stream.

    ``stream`` is CUDA's handle, and 1 the default stream; None is right on a CPU.  DidymaError
    ``input-dtype`` for elements that no dtype of Didyma's describes.
    """
    capsule = given.__dlpack__() if stream is None else given.__dlpack__(stream=stream)
    found = _TENSOR.unpack(ctypes.string_at(_pointer(capsule, _NAME), _TENSOR.size))
    data, device, number, rank, code, bits, lanes, sizes, steps, offset = found
    dtype = _DTYPES.get((code, bits)) if lanes == 1 else None
    if dtype is None:
        raise DidymaError(
            "input-dtype", type(given).__name__,
            got=f"DLPack's type {code} of {bits} bits in {lanes} lanes",
            want=f"one of {', '.join(_CODES)}",
        )  # fmt: skip
    axes = ctypes.c_int64 * rank
    shape = tuple(axes.from_address(sizes)) if rank else ()
    strides = tuple(axes.from_address(steps)) if steps and rank else row_major(shape)
    return Borrowed(data + offset, dtype, shape, strides, (device, number), capsule)


# What borrowers rely on, and what is to be done at the end, by the address of the tensor.
_lent: dict[int, tuple[object, Callable[[], None]]] = {}


def lend(
    address: int,
    dtype: DType,
    shape: tuple[int, ...],
    device: tuple[int, int],
    done: Callable[[], None],
) -> object:
    """Return the capsule of an array in row-major order; ``done`` is called when it comes back.

    The memory must live until then: ``done`` may hold what owns it.

    DidymaError ``device-unsupported`` for a dtype that DLPack does not know.
    """
    if dtype not in _TYPES:
        raise DidymaError(
            "device-unsupported", "a result on the device", got=str(dtype),
            want=f"one of {', '.join(_CODES)}", help="cast it in the program",
        )  # fmt: skip
    rank, (code, bits) = len(shape), _TYPES[dtype]
    made = array("Q", (*bytes(_WORDS), *shape, *row_major(shape)))
    where = made.buffer_info()[0]
    sizes, steps = where + 8 * _WORDS, where + 8 * (_WORDS + rank)
    _TENSOR.pack_into(made, 0, address, *device, rank, code, bits, 1, sizes, steps, 0)
    made[_WORDS - 1] = _DELETE
    _lent[where] = made, done
    return _capsule(where, _NAME, _DESTRUCTOR)


def _end(where: int) -> None:
    _, done = _lent.pop(where)
    done()


def _drop(capsule: int) -> None:
    """Give back what a capsule that nobody took over has lent."""
    if _is_valid(capsule, _NAME):
        _end(_pointer_of_dying(capsule, _NAME))


_DELETER, _DESTRUCTOR = _Deleter(_end), _Destructor(_drop)
_DELETE = ctypes.cast(_DELETER, ctypes.c_void_p).value or 0


def lent() -> int:
    """Return how many arrays are lent at present."""
    return len(_lent)
