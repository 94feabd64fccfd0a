"""gcc or clang as the host's compiler: slower to start than TinyCC, faster code."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from didyma.codegen.runtime.native import Native
from didyma.refimpl.errors import DidymaError, EngineMissing

# Wrapping integers, no contraction and no aliasing rules: the meaning that kernel text has.
OPTIONS = (
    "-O2", "-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing",
    "-shared", "-fPIC", "-w", "-x", "c",
)  # fmt: skip


def cache_folder() -> Path:
    """Folder for compiled kernels, by the platform's custom; not created here."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "didyma"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "didyma"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "didyma"


def store(path: Path, data: bytes) -> None:
    """Write a cache entry atomically: no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
        f.write(data)
    Path(f.name).replace(path)


class CCompiler:
    """A C compiler by its command; shared objects are kept in ``cache``."""

    def __init__(self, command: str, cache: Path | None = None) -> None:
        found = shutil.which(command)
        if found is None:
            raise EngineMissing(
                "engine-missing",
                f"host with {command}",
                got=f"no {command} on PATH",
                want="a C compiler",
                help="install gcc or clang, or use the default compiler, tcc",
            )
        version = subprocess.run([found, "--version"], capture_output=True, check=True, text=True)
        self._command = found
        self._version = version.stdout
        self._cache = cache or cache_folder() / "host"

    def compile(self, source: str, where: str, symbols: Iterable[str]) -> Native:
        """Compile C text; DidymaError ``kernel-text`` with the compiler's messages."""
        key = "\0".join((source, self._version, *OPTIONS))
        path = self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.so"
        if not path.exists():
            store(path, self._build(source, where))
        lib = ctypes.CDLL(str(path))
        # The handle is not closed: code of it may still be on a stack of an abandoned thread.
        native = Native(partial(id, lib))
        for s in symbols:
            native.addresses[s] = ctypes.cast(getattr(lib, s), ctypes.c_void_p).value or 0
        return native

    def _build(self, source: str, where: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "kernels.so"
            done = subprocess.run(
                [self._command, *OPTIONS, "-o", str(out), "-", "-lm"],
                input=source,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise DidymaError(
                    "kernel-text",
                    where,
                    got=done.stderr.strip().splitlines()[0] if done.stderr else "no message",
                    want=f"C that {Path(self._command).name} compiles",
                )
            return out.read_bytes()
