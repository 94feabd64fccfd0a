"""PyTorch on the GPU that is not there, as far as calls use it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from didyma.refimpl.ir.types import Array

from .fake_cuda import Allocation, Gpu, NoMemory


class Tensor:
    """A tensor of PyTorch on the GPU: some bytes, with a shape and strides in elements."""

    __module__ = "torch"
    is_cuda = True
    requires_grad = False

    def __init__(self, gpu: Gpu, values: Array, owner: Allocation | None = None) -> None:
        self._gpu, self.values = gpu, values
        self._owner = owner
        self.dtype = values.dtype
        self.shape = values.shape
        self._address = int(values.ctypes.data) if values.size else 0
        self._in_order = bool(values.flags.c_contiguous)

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's name
        return Tensor(self._gpu, self.values.T, self._owner)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self._gpu, self.values[key], self._owner)

    def get_device(self) -> int:
        return 0

    def is_neg(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return self._in_order

    def contiguous(self) -> Tensor:
        self._gpu.log.append(("contiguous", 0))
        return put(self._gpu, self.values)

    def clone(self) -> Tensor:
        self._gpu.log.append(("clone", 0))
        return put(self._gpu, self.values)

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return self.values.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.values.itemsize for s in self.values.strides)

    def storage_offset(self) -> int:
        assert self._owner is not None
        return (self._address - int(self._owner)) // self.values.itemsize

    def untyped_storage(self) -> Any:
        assert self._owner is not None
        nbytes = self._gpu.live[int(self._owner)].nbytes
        return SimpleNamespace(nbytes=lambda: nbytes)

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        assert self._owner is not None
        kind, size = self.values.dtype, self.values.itemsize
        whole = self._gpu.live[int(self._owner)]
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        assert 0 <= offset <= last < whole.nbytes // size, "outside of its storage"
        made = np.ndarray(shape, kind, whole, offset * size, [s * size for s in strides])
        return Tensor(self._gpu, made, self._owner)


class OutOfMemoryError(RuntimeError):
    """PyTorch's."""


def empty(gpu: Gpu, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Return a tensor of bytes that hold anything."""
    kind = np.dtype(dtype)
    nbytes = kind.itemsize * int(np.prod(shape, dtype=np.int64))
    try:
        owner = Allocation(gpu, nbytes)
    except NoMemory:
        raise OutOfMemoryError(f"tried to allocate {nbytes} bytes") from None
    values = gpu.bytes(int(owner), nbytes).view(kind).reshape(shape)
    return Tensor(gpu, values, owner)


def put(gpu: Gpu, values: Array) -> Tensor:
    """Return a tensor of values."""
    made = empty(gpu, values.shape, values.dtype)
    made.values[...] = values
    return made


def torch(gpu: Gpu) -> Any:
    """Return the module; its current stream is that of ``stream``."""

    def made(shape: tuple[int, ...], dtype: Any, device: object) -> Tensor:
        assert device == ("cuda", 0)
        return empty(gpu, shape, dtype)

    def strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Tensor:
        found = empty(gpu, shape, dtype)
        assert found.stride() == strides
        return found

    def device(kind: str, number: int) -> tuple[str, int]:
        return kind, number

    def stream(number: int) -> int:
        assert number == 0
        return int(module.stream)

    names = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
    module = SimpleNamespace(
        Tensor=Tensor, stream=0, device=device, empty=made,
        cuda=SimpleNamespace(OutOfMemoryError=OutOfMemoryError, device_count=lambda: 1),
        _C=SimpleNamespace(
            _cuda_getCurrentRawStream=stream,
            _cuda_isCurrentStreamCapturing=lambda: gpu.captured,
            _dynamo=SimpleNamespace(guards=SimpleNamespace(_empty_strided_cuda=strided)),
        ),
        **{name: np.dtype(name) for name in names},
    )  # fmt: skip
    return module
