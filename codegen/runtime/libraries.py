"""Libraries of arrays whose memory and streams a call uses as they are: PyTorch and CuPy.

An array says where it lies by its own attributes, which takes a tenth of an exchange by DLPack.
Results and scratch memory come from the library's allocator, and work goes on its current stream,
so that it reuses memory in the order of that stream, as after its own kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from didyma.codegen.layouts.layout import Placed, placed
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.dlpack import ALIGNED, row_major
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType

Make = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Lies:
    """Where the elements of an array lie, as ``placed`` asks for it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    room: tuple[int, int]
    misaligned: int
    aligned: int

    @staticmethod
    def at(
        address: int,
        itemsize: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        room: tuple[int, int],
    ) -> Lies:
        """Return where an array lies that begins at an address; strides and room count elements."""
        return Lies(shape, strides, room, address % ALIGNED // itemsize, ALIGNED // itemsize)

    def placed(self) -> Placed | str:
        """Return the layout and base of the array, or why it has none."""
        return placed(self.shape, self.strides, self.room, self.misaligned, self.aligned)


class Library(Protocol):
    """What a call needs of a library, on one GPU."""

    def take(self, x: Any) -> tuple[Any, Hashable] | None:
        """Return an array in row-major order and what says its dtype and shape.

        None for one in another order, for one that begins at an address at which kernels cannot
        load 16 bytes, and for one that ``lies`` nowhere.
        """
        ...

    def lies(self, x: Any) -> Lies | None:
        """Return where an array lies; None if it must be borrowed in another way, or cannot be."""
        ...

    def base(self, x: Any, p: Placed) -> Any:
        """Return the base of an array as an array of the same memory."""
        ...

    def packed(self, x: Any) -> Any:
        """Return a copy in row-major order, made on the GPU."""
        ...

    def address(self, x: Any) -> int:
        """Return where an array begins."""
        ...

    def described(self, x: Any) -> DeviceArray | None:
        """Return the dtype and shape of an array, at no address; None for a dtype of its own."""
        ...

    def stream(self) -> int:
        """Return the handle of the stream that work goes on."""
        ...

    def is_captured(self, stream: int) -> bool:
        """Return whether work on that stream is being recorded for a graph, and not run."""
        ...

    def maker(self, dtype: DType, shape: tuple[int, ...]) -> Make | None:
        """Return what makes an array; None where the library has no such dtype."""
        ...

    def reraised(self, e: Exception, what: str) -> Exception:
        """Return the error for one of the library's in making an array."""
        ...


_TORCH = {
    DType.F16: "float16", DType.F32: "float32", DType.F64: "float64", DType.BF16: "bfloat16",
    DType.I8: "int8", DType.I16: "int16", DType.I32: "int32", DType.I64: "int64",
    DType.U8: "uint8", DType.U16: "uint16", DType.U32: "uint32", DType.U64: "uint64",
    DType.BOOL: "bool", DType.F8E4M3: "float8_e4m3fn", DType.F8E4M3FNUZ: "float8_e4m3fnuz",
    DType.F8E5M2: "float8_e5m2", DType.F8E5M2FNUZ: "float8_e5m2fnuz",
    DType.F8E8M0: "float8_e8m0fnu",
}  # fmt: skip


class Torch:
    """PyTorch on a GPU."""

    def __init__(self, number: int) -> None:
        self._torch: Any = sys.modules["torch"]
        self._number = number
        self._device = self._torch.device("cuda", number)
        self._tensor: Any = self._torch.Tensor
        known = ((d, getattr(self._torch, name, None)) for d, name in _TORCH.items())
        self._kinds = {d: kind for d, kind in known if kind is not None}
        self._dtypes = {kind: d for d, kind in self._kinds.items()}
        # the handle alone, as TorchInductor's wrappers ask for it; the public way takes 2 us
        raw = getattr(self._torch._C, "_cuda_getCurrentRawStream", None)
        self._stream: Callable[[int], int] = raw or self._current
        self._empty = _quick_empty(self._torch)
        self._captured = _quick_captured(self._torch)

    def _current(self, number: int) -> int:
        handle: int = self._torch.cuda.current_stream(number).cuda_stream
        return handle

    def take(self, x: Any) -> tuple[Any, Hashable] | None:
        """Return an array in row-major order and what says its dtype and shape."""
        if type(x) is not self._tensor or x.requires_grad or x.get_device() != self._number:
            return None
        if not x.is_contiguous() or x.data_ptr() % ALIGNED or x.is_neg():
            return None
        return x, (x.dtype, x.shape)

    def lies(self, x: Any) -> Lies | None:
        """Return where an array lies; None if it must be borrowed in another way, or cannot be."""
        mine = type(x) is self._tensor and not x.requires_grad and x.get_device() == self._number
        if not mine or x.is_neg():
            return None
        itemsize, before = x.element_size(), x.storage_offset()
        room = before, x.untyped_storage().nbytes() // itemsize - before
        return Lies.at(x.data_ptr(), itemsize, tuple(x.shape), tuple(x.stride()), room)

    def base(self, x: Any, p: Placed) -> Any:
        """Return the base of an array as an array of the same memory."""
        return x.as_strided(p.shape, row_major(p.shape), x.storage_offset() - p.before)

    def packed(self, x: Any) -> Any:
        """Return a copy in row-major order, made on the GPU."""
        return x.clone() if x.is_contiguous() else x.contiguous()

    def address(self, x: Any) -> int:
        """Return where an array begins."""
        address: int = x.data_ptr()
        return address

    def described(self, x: Any) -> DeviceArray | None:
        """Return the dtype and shape of an array, at no address; None for a dtype of its own."""
        dtype = self._dtypes.get(x.dtype)
        if dtype is None:
            return None
        return DeviceArray(0, dtype, tuple(x.shape), self._number, None)

    def stream(self) -> int:
        """Return the handle of the stream that work goes on."""
        return self._stream(self._number)

    def is_captured(self, stream: int) -> bool:
        """Return whether work on that stream is being recorded for a graph, and not run."""
        return driver.is_captured(stream) if self._captured is None else self._captured()

    def maker(self, dtype: DType, shape: tuple[int, ...]) -> Make | None:
        """Return what makes an array; None where the library has no such dtype."""
        kind = self._kinds.get(dtype)
        if kind is None:
            return None
        if self._empty is not None and 0 not in shape:
            return partial(self._empty, shape, row_major(shape), kind)
        return partial(self._torch.empty, shape, dtype=kind, device=self._device)

    def reraised(self, e: Exception, what: str) -> Exception:
        """Return the error for one of the library's in making an array."""
        return _full(e, what) if isinstance(e, self._torch.cuda.OutOfMemoryError) else e


def _quick_empty(torch: Any) -> Callable[..., Any] | None:
    """Return what TorchInductor's wrappers make arrays by, which takes a third of the time.

    It makes them on the current GPU, so it is None where there are several.
    """
    found: Any = torch._C
    for name in ("_dynamo", "guards", "_empty_strided_cuda"):
        found = getattr(found, name, None)
    return found if torch.cuda.device_count() == 1 else None


def _quick_captured(torch: Any) -> Callable[[], bool] | None:
    """Return what tells whether the current stream is captured, in a tenth of the driver's time.

    It is that of the current GPU, so it is None where there are several.
    """
    found: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    return found if torch.cuda.device_count() == 1 else None


class Cupy:
    """CuPy on a GPU."""

    def __init__(self, number: int) -> None:
        self._cupy: Any = sys.modules["cupy"]
        self._number = number
        self._array: Any = self._cupy.ndarray
        self._stream: Callable[[], Any] = self._cupy.cuda.get_current_stream

    def take(self, x: Any) -> tuple[Any, Hashable] | None:
        """Return an array in row-major order and what says its dtype and shape."""
        if type(x) is not self._array or x.data.device_id != self._number:
            return None
        if not x.flags.c_contiguous or x.data.ptr % ALIGNED:
            return None
        return x, (x.dtype, x.shape)

    def lies(self, x: Any) -> Lies | None:
        """Return where an array lies; None if it must be borrowed in another way, or cannot be."""
        if type(x) is not self._array or x.data.device_id != self._number:
            return None
        itemsize, memory = x.itemsize, x.data.mem
        before = (x.data.ptr - memory.ptr) // itemsize
        strides = tuple(s // itemsize for s in x.strides)
        room = before, memory.size // itemsize - before
        return Lies.at(x.data.ptr, itemsize, x.shape, strides, room)

    def base(self, x: Any, p: Placed) -> Any:
        """Return the base of an array as an array of the same memory."""
        return self._array(p.shape, x.dtype, x.data - p.before * x.itemsize)

    def packed(self, x: Any) -> Any:
        """Return a copy in row-major order, made on the GPU."""
        return x.copy(order="C")

    def address(self, x: Any) -> int:
        """Return where an array begins."""
        address: int = x.data.ptr
        return address

    def described(self, x: Any) -> DeviceArray | None:
        """Return the dtype and shape of an array, at no address; None for a dtype of its own."""
        dtype = next((d for d in DType if d.numpy == x.dtype and not d.is_packed), None)
        return None if dtype is None else DeviceArray(0, dtype, x.shape, self._number, None)

    def stream(self) -> int:
        """Return the handle of the stream that work goes on."""
        handle: int = self._stream().ptr
        return handle

    def is_captured(self, stream: int) -> bool:
        """Return whether work on that stream is being recorded for a graph, and not run."""
        return driver.is_captured(stream)

    def maker(self, dtype: DType, shape: tuple[int, ...]) -> Make | None:
        """Return what makes an array; None where the library has no such dtype."""
        if dtype.numpy.kind == "V":  # of ml_dtypes, which CuPy lacks
            return None
        return partial(self._array, shape, dtype.numpy)

    def reraised(self, e: Exception, what: str) -> Exception:
        """Return the error for one of the library's in making an array."""
        return _full(e, what) if isinstance(e, self._cupy.cuda.memory.OutOfMemoryError) else e


def library(x: Any, number: int) -> Library | None:
    """Return the library of an array for work on a GPU; None if it is another."""
    match type(x).__module__.partition(".")[0]:
        case "torch" if x.is_cuda:
            return Torch(number)
        case "cupy":
            return Cupy(number)
        case _:
            return None


def _full(e: Exception, what: str) -> DidymaError:
    return DidymaError(
        "too-large", "the memory of the GPU", got=f"{what}, which it refused: {e}",
        want="arrays that fit", help="free arrays, or use smaller ones",
    )  # fmt: skip
