"""Arrays of other libraries by DLPack: borrow one without a copy, and lend one's own.

DLPack (https://dmlc.github.io/dlpack) is the protocol by which PyTorch, JAX, CuPy and NumPy hand
each other arrays.  An array's method ``__dlpack__`` returns a capsule with its address, dtype,
shape and strides, and a function by which the borrower says that it is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType

CPU, CUDA = 1, 2  # DLPack's numbers of kinds of devices
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


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """A tensor with the function that the borrower calls at the end."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

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
        return 0 in self.shape or all(
            n == 1 or s == t
            for n, s, t in zip(self.shape, self.strides, row_major(self.shape), strict=True)
        )


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


def borrow(array: Any, stream: int | None = None) -> Borrowed:
    """Borrow an array that has ``__dlpack__``, once its contents are there for work on a stream.

    ``stream`` is CUDA's handle, and 1 the default stream; None is right on a CPU.  DidymaError
    ``input-dtype`` for elements that no dtype of Didyma's describes.
    """
    capsule = array.__dlpack__() if stream is None else array.__dlpack__(stream=stream)
    t = _Managed.from_address(_pointer(capsule, _NAME)).tensor
    dtype = _DTYPES.get((t.code, t.bits)) if t.lanes == 1 else None
    if dtype is None:
        raise DidymaError(
            "input-dtype", type(array).__name__,
            got=f"DLPack's type {t.code} of {t.bits} bits in {t.lanes} lanes",
            want=f"one of {', '.join(_CODES)}",
        )  # fmt: skip
    shape = tuple(t.shape[: t.rank])
    strides = tuple(t.strides[: t.rank]) if t.strides else row_major(shape)
    address = (t.data or 0) + t.offset
    return Borrowed(address, dtype, shape, strides, (t.device_type, t.device), capsule)


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
    rank = len(shape)
    sizes = (ctypes.c_int64 * (2 * rank))(*shape, *row_major(shape))
    managed = _Managed()
    t = managed.tensor
    t.data, t.device_type, t.device = address, *device
    t.rank, (t.code, t.bits), t.lanes = rank, _TYPES[dtype], 1
    first = ctypes.addressof(sizes)
    t.shape = ctypes.cast(first, ctypes.POINTER(ctypes.c_int64))
    t.strides = ctypes.cast(first + 8 * rank, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _DELETER
    where = ctypes.addressof(managed)
    _lent[where] = (managed, sizes), done
    return _capsule(where, _NAME, _DESTRUCTOR)


def _end(where: int) -> None:
    _, done = _lent.pop(where)
    done()


def _give_back(managed: Any) -> None:
    _end(ctypes.addressof(managed.contents))


def _drop(capsule: int) -> None:
    """Give back what a capsule that nobody took over has lent."""
    if _is_valid(capsule, _NAME):
        _end(_pointer_of_dying(capsule, _NAME))


_DELETER, _DESTRUCTOR = _Deleter(_give_back), _Destructor(_drop)


def lent() -> int:
    """Return how many arrays are lent at present."""
    return len(_lent)
