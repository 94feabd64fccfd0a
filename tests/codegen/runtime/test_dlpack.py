from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from didyma.codegen.runtime import dlpack
from didyma.codegen.runtime.device_array import DeviceArray, as_given, borrow, on_gpu
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType


class Lent:
    """A NumPy array that is known by DLPack alone; ``returned`` counts what came back."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.returned = 0

    def __dlpack__(self, **_: object) -> Any:
        a = self.array
        return dlpack.lend(a.ctypes.data, DType.of(a), a.shape, (dlpack.CPU, 0), self._back)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def _back(self) -> None:
        self.returned += 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "u2", "?"])
def test_numpy_borrows_what_is_lent(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    lent = Lent(array)
    got = np.from_dlpack(lent)
    assert got.dtype == array.dtype
    assert got.shape == (2, 3)
    assert got.ctypes.data == array.ctypes.data
    assert lent.returned == 0
    del got
    gc.collect()
    assert lent.returned == 1


def test_a_capsule_that_nobody_takes_comes_back() -> None:
    lent = Lent(np.ones(3))
    capsule = lent.__dlpack__()
    assert lent.returned == 0
    del capsule
    gc.collect()
    assert lent.returned == 1


def test_arrays_of_numpy_are_borrowed_in_place() -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    got = dlpack.borrow(array[:, 1:, ::2])
    assert got.address == array[:, 1:].ctypes.data
    assert (got.dtype, got.shape, got.strides) == (DType.I16, (2, 2, 2), (12, 4, 2))
    assert not got.is_packed
    assert dlpack.borrow(array).is_packed
    assert dlpack.borrow(array[:, :0, ::2]).is_packed
    assert dlpack.borrow(array[:1, 1:]).is_packed
    assert got.device == (dlpack.CPU, 0)


def test_what_is_borrowed_stays_alive() -> None:
    lent = Lent(np.full(4, 7.0))
    got = dlpack.borrow(lent)
    gc.collect()
    assert lent.returned == 0
    del got
    gc.collect()
    assert lent.returned == 1


def test_complex_numbers_have_no_dtype() -> None:
    with pytest.raises(DidymaError, match="input-dtype"):
        dlpack.borrow(np.ones(2, np.complex64))


def test_packed_dtypes_cannot_be_lent() -> None:
    with pytest.raises(DidymaError, match="device-unsupported"):
        dlpack.lend(64, DType.I4, (2,), (dlpack.CUDA, 0), lambda: None)


class OnGpu:
    """What a library such as Numba offers: the CUDA array interface alone."""

    def __init__(self, **interface: object) -> None:
        self.__cuda_array_interface__ = {"typestr": "<f4", "data": (4096, False), **interface}


def test_an_array_by_the_cuda_array_interface() -> None:
    given = OnGpu(shape=(2, 3), strides=(12, 4))
    assert on_gpu(given)
    got = borrow(given, 1)
    assert (got.address, got.dtype, got.shape, got.device) == (4096, DType.F32, (2, 3), 1)
    assert got.owner is given
    assert as_given(got, given) is got
    assert borrow(got, 1).address == 4096
    with pytest.raises(DidymaError, match="device-mismatch"):
        borrow(got, 0)


@pytest.mark.parametrize(("address", "packs"), [(4096, 0), (4112, 0), (4100, 1)])
def test_an_array_between_wide_accesses_is_packed(address: int, packs: int) -> None:
    given, packed = DeviceArray(address, DType.F32, (8,), 1, None), list[dlpack.Borrowed]()

    def pack(found: dlpack.Borrowed) -> DeviceArray:
        packed.append(found)
        return given

    borrow(given, 1, pack)
    assert len(packed) == packs


def test_a_device_array_says_what_it_is() -> None:
    a = DeviceArray(256, DType.F64, (3, 2), 1, None)
    assert a.__cuda_array_interface__["typestr"] == "<f8"
    assert a.__dlpack_device__() == (dlpack.CUDA, 1)
    assert (a.ndim, a.nbytes) == (2, 48)
    b = DeviceArray(256, DType.BF16, (3,), 0, None)
    assert not hasattr(b, "__cuda_array_interface__")
    assert np.dtype(ml_dtypes.bfloat16) == b.dtype.numpy
    assert not on_gpu(np.ones(3))


@pytest.mark.parametrize("stream", [None, -1, 1])
def test_a_loan_on_the_default_stream_asks_nothing_of_the_driver(stream: int | None) -> None:
    before = dlpack.lent()
    capsule = DeviceArray(256, DType.F64, (3, 2), 0, None).__dlpack__(stream=stream)
    assert dlpack.lent() == before + 1
    del capsule
    gc.collect()
    assert dlpack.lent() == before
