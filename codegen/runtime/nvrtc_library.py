"""NVRTC's library, called in a process of its own: text that crashes it ends that process alone.

The file runs as a script, with the library's path as its argument: it reads jobs from its standard
input and writes what they built to its standard output.  Both are tuples as ``marshal`` has them.
It imports the standard library alone, so that it starts in few milliseconds.  Its second argument
is a folder for the headers that it keeps, which it removes at its end.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from shutil import rmtree
from time import process_time
from typing import Any, BinaryIO, NamedTuple

_LENGTH = struct.Struct("<Q")
_HEAP = 512 << 20  # bytes of what one text includes that can be kept; untouched, they take nothing
_KEPT = 1 << 30  # bytes of files of what is kept, beyond which they are removed


class Job(NamedTuple):
    """A text to compile, with its name, headers by name, and options.

    ``expressions`` are the names in C++ of instances of templates; ``parts`` are what is wanted of
    ``PTX`` and ``CUBIN``.  With ``keep``, what the text includes is kept for later jobs that begin
    with the same and have the same options; NVRTC before 12.8 does not.
    """

    source: str
    name: str
    headers: dict[str, str]
    options: tuple[str, ...]
    expressions: tuple[str, ...]
    parts: tuple[str, ...]
    keep: bool = False


class Built(NamedTuple):
    """What NVRTC makes of a job: its log, the lowered names of the expressions, and the parts.

    ``seconds`` of processor time were spent on it.
    """

    failed: bool
    log: str
    lowered: tuple[str, ...]
    parts: dict[str, bytes]
    seconds: float


def declared(path: str) -> ctypes.CDLL:
    """Load the library with the types of its functions; OSError where it cannot be loaded."""
    lib = ctypes.CDLL(path)
    handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
    lib.nvrtcGetErrorString.restype = text
    lib.nvrtcGetErrorString.argtypes = [ctypes.c_int]
    lib.nvrtcCreateProgram.argtypes = [
        ctypes.POINTER(handle), text, text, ctypes.c_int, ctypes.POINTER(text),
        ctypes.POINTER(text),
    ]  # fmt: skip
    lib.nvrtcAddNameExpression.argtypes = [handle, text]
    lib.nvrtcGetLoweredName.argtypes = [handle, text, ctypes.POINTER(text)]
    lib.nvrtcCompileProgram.argtypes = [handle, ctypes.c_int, ctypes.POINTER(text)]
    lib.nvrtcDestroyProgram.argtypes = [ctypes.POINTER(handle)]
    if hasattr(lib, "nvrtcSetPCHHeapSize"):
        lib.nvrtcSetPCHHeapSize.argtypes = [ctypes.c_size_t]
    for what in ("ProgramLog", "PTX", "CUBIN"):
        getattr(lib, f"nvrtcGet{what}Size").argtypes = [handle, size]
        getattr(lib, f"nvrtcGet{what}").argtypes = [handle, text]
    return lib


def version(lib: ctypes.CDLL) -> tuple[int, int]:
    """Return the version of the library."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(lib, lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def build(lib: ctypes.CDLL, job: Job, folder: str) -> Built:
    """Compile a job in this process; what is kept lies in a folder."""
    begun, program, count = process_time(), ctypes.c_void_p(), len(job.headers)
    texts, files = _strings([*job.headers.values()]), _strings([*job.headers])
    _check(lib, lib.nvrtcCreateProgram(
        ctypes.byref(program), job.source.encode(), job.name.encode(), count, texts, files
    ))  # fmt: skip
    try:
        for e in job.expressions:
            _check(lib, lib.nvrtcAddNameExpression(program, e.encode()))
        options = (*job.options, *(_keeping(lib, folder) if job.keep else ()))
        failed = lib.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _bytes(lib, program, "ProgramLog").decode(errors="replace").rstrip("\0")
        if failed:
            return Built(True, log, (), {}, process_time() - begun)
        names = tuple(_lowered(lib, program, e) for e in job.expressions)
        parts = {p: _bytes(lib, program, p) for p in job.parts}
        return Built(False, log, names, parts, process_time() - begun)
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _keeping(lib: ctypes.CDLL, folder: str) -> tuple[str, ...]:
    """Return the options that keep headers in a folder, which is emptied first if it is large."""
    if not hasattr(lib, "nvrtcSetPCHHeapSize"):
        return ()
    files = [*os.scandir(folder)]
    if sum(f.stat().st_size for f in files) > _KEPT:
        for f in files:
            os.remove(f)
    return ("--pch", f"--pch-dir={folder}", "--pch-messages=false")


def _lowered(lib: ctypes.CDLL, program: ctypes.c_void_p, expression: str) -> str:
    name = ctypes.c_char_p()
    _check(lib, lib.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
    return (name.value or b"").decode()


def _strings(row: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(row))(*(s.encode() for s in row))


def _bytes(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    out = ctypes.create_string_buffer(max(1, size.value))
    _check(lib, getattr(lib, f"nvrtcGet{what}")(program, out))
    return out.raw[: size.value]


def _check(lib: ctypes.CDLL, status: int) -> None:
    if status:
        message: bytes = lib.nvrtcGetErrorString(status)
        raise RuntimeError(f"NVRTC: {message.decode()}")


def send(to: BinaryIO, message: tuple[Any, ...]) -> None:
    """Write a message, after its length."""
    raw = marshal.dumps(tuple(message))
    to.write(_LENGTH.pack(len(raw)) + raw)
    to.flush()


def receive(source: BinaryIO) -> tuple[Any, ...]:
    """Read a message; EOFError where its writer has ended."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    raw = source.read(_LENGTH.unpack(head)[0])
    found: tuple[Any, ...] = marshal.loads(raw)
    return found


def _answer(lib: ctypes.CDLL, job: Job, folder: str) -> tuple[Any, ...]:
    """Return what a job built, or the text of an error that is no message of the compiler."""
    try:
        return build(lib, job, folder)
    except RuntimeError as e:
        return (str(e),)


def _serve(path: str, folder: str) -> None:
    """Compile jobs until the process that sends them ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the library prints is no answer
    lib = declared(path)
    if hasattr(lib, "nvrtcSetPCHHeapSize"):
        _check(lib, lib.nvrtcSetPCHHeapSize(_HEAP))
    with suppress(EOFError, OSError):
        while True:
            send(answers, _answer(lib, Job(*receive(sys.stdin.buffer)), folder))
    rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
