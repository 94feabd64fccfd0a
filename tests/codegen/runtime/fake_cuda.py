"""A GPU that is not there: PyCUDA and NVRTC as far as engine ``cuda`` uses them.

The driver is that of ``didyma.fuzz.gpu``; kernels run on engine ``host``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from didyma.codegen.runtime import cuda, driver
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.nvrtc import Cubin
from didyma.fuzz import gpu
from didyma.fuzz.gpu import Library
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.types import Array

INVALID = 1
ILLEGAL_ADDRESS = gpu.ILLEGAL_ADDRESS


class Gpu(gpu.Gpu):
    """A GPU whose kernels run on engine ``host``."""

    def __init__(self) -> None:
        super().__init__(Host())


class Error(Exception):
    """An error of PyCUDA's."""


class NoMemory(Error):
    """PyCUDA's error for memory that is not there."""


class Allocation:
    """Memory on the device, until it is freed."""

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self._gpu = gpu
        try:
            self._address = gpu.allocate(nbytes)
        except MemoryError:
            raise NoMemory("out of memory") from None

    def __int__(self) -> int:
        return self._address

    def free(self) -> None:
        self._gpu.free(self._address)

    def __del__(self) -> None:
        if getattr(self, "_address", 0) in self._gpu.live:
            self.free()


def _pycuda(gpu: Gpu) -> Any:
    def checked(name: str) -> None:
        if code := gpu.error(name):
            raise Error(f"{name} failed: error {code}")

    def down(out: Array, address: int) -> None:
        checked("memcpy_dtoh")
        out[:] = gpu.bytes(address, out.nbytes)

    def up(address: int, data: Array) -> None:
        checked("memcpy_htod")
        gpu.bytes(address, data.nbytes)[:] = data

    def over(target: int, source: int, nbytes: int) -> None:
        checked("memcpy_dtod")
        gpu.bytes(target, nbytes)[:] = gpu.bytes(source, nbytes)

    def fill(address: int, value: int, nbytes: int) -> None:
        gpu.bytes(address, nbytes)[:] = value

    def allocate(nbytes: int) -> Allocation:
        return Allocation(gpu, nbytes)

    context = SimpleNamespace(push=lambda: None, pop=lambda: None)
    device = SimpleNamespace(
        compute_capability=lambda: (9, 0), retain_primary_context=lambda: context
    )

    class Device:
        def __new__(cls, number: int) -> Any:
            return device

        @staticmethod
        def count() -> int:
            return 1

    return SimpleNamespace(
        init=lambda: None, Device=Device, Error=Error, MemoryError=NoMemory,
        mem_alloc=allocate, memcpy_dtoh=down, memcpy_htod=up,
        memcpy_dtod=over, memset_d8=fill,
        Context=SimpleNamespace(synchronize=lambda: checked("synchronize")),
    )  # fmt: skip


class _Compiler:
    sound, version = True, "13.9"

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def source(self, text: KernelText) -> str:
        self._gpu.texts[text.source] = text
        return text.source

    def options(self, text: KernelText) -> tuple[str, ...]:
        return () if text.contract else ("apart",)

    def compile(self, text: KernelText) -> Cubin:
        return Cubin(text.source.encode(), (), "")


def planted(patch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    """Put the GPU into this machine."""
    library, compiler, pycuda = Library(gpu), _Compiler(gpu), _pycuda(gpu)

    def compilers(architecture: str, *, early: bool = False) -> _Compiler:
        assert architecture == "sm_90a"
        del early  # nothing runs at once here
        return compiler

    def forget(close: object) -> object:  # an engine that no process ends with
        return close

    patch.setattr(driver, "library", lambda: library)
    patch.setattr(cuda, "_pycuda", lambda: pycuda)
    patch.setattr(cuda, "_pool", lambda: SimpleNamespace(allocate=pycuda.mem_alloc))
    patch.setattr(cuda, "NvrtcCompiler", compilers)
    patch.setattr("atexit.register", forget)
