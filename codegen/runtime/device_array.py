"""Arrays on a GPU: what a program is given and gives, without a way through the host.

An array of PyTorch, CuPy, JAX, Numba or PyCUDA is borrowed as it is, in row-major order, and a
result is lent to the library that the inputs came from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from didyma.codegen.runtime import dlpack, driver
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import DType, nbytes_of


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array on a GPU; ``owner`` keeps its bytes alive.

    It is in row-major order, unless ``steps`` are its strides in elements: it then goes nowhere but
    to an input whose strides are declared.  Work on CUDA's default stream writes it.  Other
    libraries read it by ``__dlpack__`` or by ``__cuda_array_interface__``, and their streams wait
    for that work.
    """

    address: int
    dtype: DType
    shape: tuple[int, ...]
    device: int
    owner: object
    steps: tuple[int, ...] | None = None

    @property
    def itemsize(self) -> int:
        """Return the bytes that an element takes."""
        return self.dtype.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the strides in bytes."""
        steps = dlpack.row_major(self.shape) if self.steps is None else self.steps
        return tuple(s * self.itemsize for s in steps)

    def row(self, span: int, offset: int) -> DeviceArray:
        """Return the memory of ``span`` elements in which the array lies from ``offset`` on."""
        at = self.address - offset * self.itemsize
        return DeviceArray(at, self.dtype, (span,), self.device, self.owner)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes that the elements take."""
        return nbytes_of(self.dtype, self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        if stream == -1:  # by which a borrower says that it waits itself
            stream = None
        driver.order(stream or driver.DEFAULT, after=driver.DEFAULT)
        loan = partial(self._back, stream or driver.DEFAULT)
        return dlpack.lend(self.address, self.dtype, self.shape, self.__dlpack_device__(), loan)

    def _back(self, stream: int) -> None:
        """Let later work wait for a borrower's, which may still read the bytes."""
        with suppress(driver.DriverError):  # of a context that is gone
            driver.order(driver.DEFAULT, after=stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.numpy.kind == "V":
            raise AttributeError(f"the CUDA array interface has no {self.dtype}")
        return {
            "shape": self.shape,
            "typestr": self.dtype.numpy.str,
            "data": (self.address, False),
            "strides": None,
            "stream": driver.DEFAULT,
            "version": 3,
        }


def as_given(result: DeviceArray, given: Any) -> Any:
    """Return a result as an array of the library that a given array is of.

    An array of a library that is not known stays a ``DeviceArray``.
    """
    match type(given).__module__.partition(".")[0]:
        case "torch":
            return sys.modules["torch"].from_dlpack(result)
        case "cupy":
            return sys.modules["cupy"].from_dlpack(result)
        case "jaxlib" | "jax":
            return sys.modules["jax.numpy"].from_dlpack(result)
        case "pycuda":
            make = sys.modules["pycuda.gpuarray"].GPUArray
            return make(result.shape, result.dtype.numpy, gpudata=result.address, base=result)
        case _:
            return result


def on_gpu(array: Any) -> bool:
    """Return whether an array says that it is on a GPU."""
    if isinstance(array, np.ndarray):
        return False
    device = getattr(array, "__dlpack_device__", None)
    if device is not None:
        return int(device()[0]) == dlpack.CUDA
    return hasattr(array, "__cuda_array_interface__")


def refused(found: dlpack.Borrowed) -> DeviceArray:
    """Raise DidymaError ``not-contiguous`` for an array that is not in row-major order."""
    raise DidymaError(
        "not-contiguous",
        "an array on a GPU",
        got=f"strides {found.strides}",
        want=f"strides {dlpack.row_major(found.shape)}",
        help="copy it in row-major order first",
    )


def as_it_lies(found: dlpack.Borrowed) -> DeviceArray:
    """Return an array of any strides without a copy."""
    return DeviceArray(
        found.address, found.dtype, found.shape, found.device[1], found.owner, found.strides
    )


def borrow(
    array: Any, device: int, pack: Callable[[dlpack.Borrowed], DeviceArray] = refused
) -> DeviceArray:
    """Borrow an array on a GPU for work on CUDA's default stream.

    ``pack`` makes the copy of one that is not in row-major order, or begins at an address at which
    kernels cannot load 16 bytes.

    Errors: ``device-mismatch`` for one on another GPU, ``input-dtype``, and as ``pack``.
    """
    if isinstance(array, DeviceArray):
        found = dlpack.Borrowed(
            array.address, array.dtype, array.shape, dlpack.row_major(array.shape),
            array.__dlpack_device__(), array,
        )  # fmt: skip
    elif hasattr(array, "__dlpack__"):
        found = dlpack.borrow(array, driver.DEFAULT)
    else:
        found = _by_interface(array, device)
    if found.device[1] != device:
        raise DidymaError(
            "device-mismatch", type(array).__name__, got=f"an array on GPU {found.device[1]}",
            want=f"one on GPU {device}, where the program runs",
        )  # fmt: skip
    if not found.is_packed or (pack is not refused and found.address % dlpack.ALIGNED):
        return pack(found)
    return DeviceArray(found.address, found.dtype, found.shape, device, found.owner)


def _by_interface(array: Any, device: int) -> dlpack.Borrowed:
    """Read the CUDA array interface, version 3; it does not name the device."""
    interface = array.__cuda_array_interface__
    kind = np.dtype(interface["typestr"])
    dtype = DType.of(np.empty(0, kind))
    shape: tuple[int, ...] = tuple(interface["shape"])
    strides: tuple[int, ...] | None = interface.get("strides")
    steps = dlpack.row_major(shape) if strides is None else [s // kind.itemsize for s in strides]
    address = int(interface["data"][0] or 0)
    return dlpack.Borrowed(address, dtype, shape, tuple(steps), (dlpack.CUDA, device), array)
