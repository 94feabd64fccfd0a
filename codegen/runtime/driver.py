"""The CUDA driver, for what PyCUDA lacks: the order between streams of other libraries.

PyCUDA's streams are those that it made.  The driver takes the handle of any stream, and orders two
of them by an event.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

DEFAULT = 1  # the handle of the default stream, in the driver and in DLPack; 0 means it, too
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class DriverError(Exception):
    """A call of the driver that failed, with CUDA's name of the error."""


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _call(name: str, *args: object) -> None:
    code = getattr(_library(), name)(*args)
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorName(code, ctypes.byref(text))
        raise DriverError(f"{name} failed: {(text.value or b'an unknown error').decode()}")


def order(stream: int, after: int) -> None:
    """Let later work of a stream begin after all earlier work of another, both by their handles.

    It needs a current context.  DriverError where the driver refuses.
    """
    if (stream or DEFAULT) == (after or DEFAULT):
        return
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
    try:
        _call("cuEventRecord", event, ctypes.c_void_p(after))
        _call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
    finally:
        _call("cuEventDestroy_v2", event)
