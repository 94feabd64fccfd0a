"""The CUDA driver by ctypes, for what PyCUDA lacks: launches on streams of other libraries.

PyCUDA's streams are those that it made, and its kernels have no handles.  Handles are integers
here.  Every function needs a current context.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from didyma.codegen.runtime.didyma_runtime.maps import Described, encoded
from didyma.refimpl.errors import DidymaError

DEFAULT = 1  # the handle of the default stream, in the driver and in DLPack; 0 means it, too
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_OUT_OF_MEMORY = 2
# The errors of which cuda.h says that the process or the context cannot go on: of hardware (214,
# 220, 226, 911), of kernels (700 to 721), of a server that is gone (810).
_LASTING = frozenset(
    (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911)
)


class DriverError(Exception):
    """A call of the driver that failed: its function, and CUDA's number and name of the error."""

    def __init__(self, function: str, code: int) -> None:
        self.function = function
        self.code = code
        self.name = error_name(code)
        super().__init__(f"{function} failed: {self.name}")


@cache
def library() -> ctypes.CDLL:
    """Return the library of the driver; OSError where there is none."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def call(name: str, *args: object) -> None:
    """Call a function of the driver; DriverError where it fails."""
    code = getattr(library(), name)(*args)
    if code:
        raise DriverError(name, code)


def error_name(code: int) -> str:
    """Return CUDA's name of an error."""
    text = ctypes.c_char_p()
    library().cuGetErrorName(code, ctypes.byref(text))
    return (text.value or f"error {code}".encode()).decode()


def failure(code: int, where: str, what: str) -> DidymaError:
    """Return the error for a call of the driver that failed with ``code`` at ``where``.

    ``what`` says what was refused.  Its code is ``device-lost`` where no later call can succeed,
    ``too-large`` where memory was short, else ``launch-failed``.
    """
    name = error_name(code)
    if code in _LASTING:
        return DidymaError(
            "device-lost", where, got=name, want="kernels that end without a fault",
            help="CUDA gives this process no way on: start it again; Cuda(checked=True) waits for"
            " each kernel and names the one at fault",
        )  # fmt: skip
    if code == _OUT_OF_MEMORY:
        return DidymaError(
            "too-large", where, got=f"{name}: {what}", want="memory that is free",
            help="free arrays, or use smaller ones",
        )  # fmt: skip
    return DidymaError(
        "launch-failed", where, got=f"{name}: {what}", want="a launch that CUDA accepts",
        help="the engine can be used as before",
    )  # fmt: skip


def lasting() -> int:
    """Return the number of an error that has ended the use of the GPU in this process, or 0."""
    code: int = library().cuCtxSynchronize()
    return code if code in _LASTING else 0


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``, of one that is a number."""

    _fields_ = (("which", ctypes.c_int), ("value", ctypes.c_int * 17))


class Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, which is on
_EARLY = _Attribute(6, (ctypes.c_int * 17)(0, 1))


def launcher(*, early: bool = False) -> Any:
    """Return a function of the driver that launches, whose arguments ``launch`` gives.

    What is launched ``early`` may begin before what precedes it on the stream has ended.
    """
    return library()["cuLaunchKernelEx" if early else "cuLaunchKernel"]


def launch(
    function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
    stream: ctypes.c_void_p, arguments: ctypes.c_void_p, *, early: bool = False,
) -> tuple[object, ...]:  # fmt: skip
    """Return the arguments of a function of the driver that launches.

    ``arguments`` is the address of an array of the addresses of the kernel's arguments.
    """
    kernel = ctypes.c_void_p(function)
    if not early:
        return (kernel, *grid, *block, shared, stream, arguments, None)
    config = Config(grid, block, shared, stream, ctypes.pointer(_EARLY), 1)
    return (ctypes.byref(config), kernel, arguments, None)


def tensor_map(address: int, d: Described) -> tuple[int, ...]:
    """Return the words of a tensor map of a buffer; DidymaError ``launch-failed`` if refused."""
    try:
        return encoded(call, address, d)
    except DriverError as e:
        raise failure(e.code, f"a tensor map of {d.x} x {d.y} x {d.z}", e.function) from e


def load(image: bytes) -> int:
    """Return the handle of a module of machine code."""
    handle = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(handle), image)
    return handle.value or 0


def unload(module: int) -> None:
    """Unload a module; not an error where its context is gone."""
    library().cuModuleUnload(ctypes.c_void_p(module))


def function(module: int, name: str) -> int:
    """Return the handle of a kernel."""
    handle = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(handle), ctypes.c_void_p(module), name.encode())
    return handle.value or 0


def allow_shared(function: int, nbytes: int) -> None:
    """Let launches of a kernel ask for so many bytes of shared memory."""
    most = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call("cuFuncSetAttribute", ctypes.c_void_p(function), most, nbytes)


def copy(target: int, source: int, nbytes: int, stream: int) -> None:
    """Copy bytes on the device, in the order of a stream."""
    call(
        "cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target), ctypes.c_uint64(source),
        ctypes.c_size_t(nbytes), ctypes.c_void_p(stream),
    )  # fmt: skip


def is_captured(stream: int) -> bool:
    """Return whether work on a stream is being recorded for a graph, and not run."""
    status = ctypes.c_int()
    if code := library().cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status)):
        raise DriverError("cuStreamIsCapturing", code)
    return status.value != 0


def order(stream: int, after: int) -> None:
    """Let later work of a stream begin after all earlier work of another, both by their handles.

    DriverError where the driver refuses.
    """
    if (stream or DEFAULT) == (after or DEFAULT):
        return
    event = ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
    try:
        call("cuEventRecord", event, ctypes.c_void_p(after))
        call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
    finally:
        call("cuEventDestroy_v2", event)
