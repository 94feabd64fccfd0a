"""gcc, clang or Zig as the host's compiler: slower to start than TinyCC, faster code."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from didyma.codegen.runtime.native import Native
from didyma.refimpl.cores import cores
from didyma.refimpl.errors import DidymaError, EngineMissing

# Wrapping integers, no contraction and no aliasing rules: the meaning that kernel text has.
# Nothing reads errno or floating-point flags, and no option lets a compiler change a value.
OPTIONS = (
    "-O3", "-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-w", "-x", "c",
)  # fmt: skip
NAMES = ("clang", "gcc", "zig")  # the order of preference
HELP = "install gcc or clang, or: python3 -m pip install ziglang"
_PROBE = "int one__(void) { return 1; }\n"


def cache_folder() -> Path:
    """Folder for compiled kernels, by the platform's custom; not created here."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "didyma"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "didyma"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "didyma"


def store(path: Path, data: bytes) -> Path:
    """Write a cache entry atomically, so that no reader sees a part of it; return where it is.

    Where its folder takes no files, that is a folder that this process deletes at its end.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _written(path, data)
    except OSError:
        return _written(_spare() / path.name, data)


def _written(path: Path, data: bytes) -> Path:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
        try:
            f.write(data)
            f.flush()
        except OSError:
            Path(f.name).unlink()
            raise
    return Path(f.name).replace(path)


@cache
def _spare() -> Path:
    folder = tempfile.mkdtemp(prefix="didyma-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@dataclass(frozen=True, slots=True)
class Found:
    """A C compiler of this machine: its name, how to start it, and what it says of its version."""

    name: str
    command: tuple[str, ...]
    version: str

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a library for this CPU, with vectors as wide as it has."""
        return "-shared", "-march=native", *self._meaning

    @property
    def portable(self) -> tuple[str, ...]:
        """The options of an object for every CPU of this kind; Zig's own default is this CPU."""
        return "-c", *(("-mcpu=baseline",) if self.name == "zig" else ()), *self._meaning

    @property
    def _meaning(self) -> tuple[str, ...]:
        """What keeps the meaning of a text; Zig would check for undefined behaviour otherwise."""
        return (*OPTIONS, "-fno-sanitize=all") if self.name == "zig" else OPTIONS

    @property
    def about(self) -> str:
        """The first line of what it says of its version."""
        return self.version.partition("\n")[0]


def find(name: str) -> Found:
    """Find a compiler by its name or command.

    ``zig`` is the command ``zig cc``, or that of the Python package ``ziglang``.  EngineMissing
    where it is not installed, or does not start.

    >>> find("no-such-compiler")
    Traceback (most recent call last):
    didyma.refimpl.errors.EngineMissing: engine-missing at `host with no-such-compiler`
      got:  no no-such-compiler on PATH
      want: a C compiler
      help: install gcc or clang, or: python3 -m pip install ziglang
    """
    if (command := _command(name)) is None:
        raise EngineMissing(
            "engine-missing",
            f"host with {name}",
            got=f"no {name} on PATH",
            want="a C compiler",
            help=HELP,
        )
    return Found(name, command, _version(name, command))


def _command(name: str) -> tuple[str, ...] | None:
    if (path := shutil.which(name)) is not None:
        return (path, "cc") if name == "zig" else (path,)
    if name == "zig" and has_package():
        return (sys.executable, "-m", "ziglang", "cc")
    return None


def has_package() -> bool:
    """Return whether the Python package ``ziglang`` is installed."""
    return importlib.util.find_spec("ziglang") is not None


@cache
def _version(name: str, command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, check=True, text=True, timeout=60,
            env=environment(name),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as e:
        raise broken(name, str(e)) from e
    return done.stdout


def broken(name: str, said: str) -> EngineMissing:
    """Return the error of a compiler that is installed and does not work."""
    return EngineMissing(
        "engine-missing",
        f"host with {name}",
        got=f"{name} does not work: {said}",
        want="a C compiler that makes shared libraries",
        help=f"mend it, or use another: {HELP}",
    )


def each_found() -> Iterator[Found]:
    """Yield the compilers of this machine that start, the preferred first."""
    for name in NAMES:
        with suppress(EngineMissing):
            yield find(name)


@cache
def environment(name: str) -> Mapping[str, str] | None:
    """Return the environment of a compiler, None for this process's.

    Zig keeps a cache of its own, and never ends where it cannot write that.
    """
    if name != "zig" or "ZIG_GLOBAL_CACHE_DIR" in os.environ:
        return None
    folder = cache_folder().parent / "zig"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError:
        return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(_spare())}


@cache
def cpu() -> str:
    """Return what tells this CPU from others that run other instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return "\n".join([platform.machine(), *sorted(told)])


class CCompiler:
    """A C compiler; shared objects are kept in ``cache``, by all that their content depends on."""

    def __init__(self, which: str | Found, cache: Path | None = None) -> None:
        self.found = find(which) if isinstance(which, str) else which
        self._cache = cache or cache_folder() / "host"

    def path(self, source: str) -> Path:
        """Return where the object of a text is kept."""
        key = "\0".join((source, self.found.version, cpu(), *self.found.options))
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.so"

    def compile(self, source: str, where: str, symbols: Iterable[str]) -> Native:
        """Compile C text.

        DidymaError ``kernel-text`` with the compiler's messages; EngineMissing for a compiler that
        compiles nothing.
        """
        path = self.path(source)
        if not path.exists():
            path = store(path, self._build(source, where, self.found.options))
        try:
            lib = ctypes.CDLL(str(path))
        except OSError:  # cut short when a disk was full, say
            path = store(path, self._build(source, where, self.found.options))
            try:
                lib = ctypes.CDLL(str(path))
            except OSError as e:
                path.unlink(missing_ok=True)
                raise broken(self.found.name, str(e)) from e
        # The handle is not closed: code of it may still be on a stack of an abandoned thread.
        native = Native(partial(id, lib))
        for s in symbols:
            native.addresses[s] = ctypes.cast(getattr(lib, s), ctypes.c_void_p).value or 0
        return native

    def library(self, units: Mapping[str, str], done: Callable[[], object] = lambda: None) -> bytes:
        """Compile C texts, given by name, at the same time; return a shared object of all of them.

        It runs on every CPU of this kind, and is not kept.  ``done`` is called after each text.

        Errors as of ``compile``.
        """

        def made(name: str) -> bytes:
            found = self._build(units[name], name, self.found.portable)
            done()
            return found

        with ThreadPoolExecutor(cores()) as pool:
            objects = list(pool.map(made, units))
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{i}.o" for i in range(len(objects))]
            for path, data in zip(paths, objects, strict=True):
                path.write_bytes(data)
            code, said, linked = self._run(("-shared", "-s", *map(str, paths)))
        if linked is None:
            raise broken(self.found.name, said or f"it ends with {code}")
        return linked

    def _build(self, source: str, where: str, options: Sequence[str]) -> bytes:
        code, said, made = self._run((*options, "-"), source)
        if made is not None:
            return made
        if self._run((*options, "-"), _PROBE)[2] is None:
            raise broken(self.found.name, said or f"it ends with {code}")
        raise DidymaError(
            "kernel-text",
            where,
            got=said or "no message",
            want=f"C that {self.found.name} compiles",
        )

    def _run(self, words: Sequence[str], source: str = "") -> tuple[int, str, bytes | None]:
        """Return the exit code, the first error of the messages, and what was made."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "made"
            command = [*self.found.command, *words, "-o", str(out), "-lm"]
            try:
                done = subprocess.run(
                    command, input=source, capture_output=True, text=True, check=False,
                    env=environment(self.found.name),
                )  # fmt: skip
            except OSError as e:
                raise broken(self.found.name, str(e)) from e
            lines = done.stderr.strip().splitlines() or [""]
            said = next((line for line in lines if "error:" in line), lines[0])
            made = out.read_bytes() if not done.returncode and out.exists() else None
            return done.returncode, said, made
