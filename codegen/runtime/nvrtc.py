"""The compile gate: kernel text to machine code of a GPU, on machines that need not have one.

NVRTC is found in the wheels of NVIDIA, in the CUDA toolkit, or where the loader finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from time import process_time
from typing import TYPE_CHECKING, Any, NoReturn

from didyma.codegen.runtime import cuda_libraries, device_code, nvrtc_library, nvrtc_process
from didyma.codegen.runtime.nvrtc_library import Built, Job
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import of_architecture
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.emit.prelude import Prelude

ARCHITECTURE = "sm_90a"
MEND = "python3 -m pip install nvidia-cuda-nvrtc"
SOUND = (13, 5)  # the first version seen without the faults of ``docs/measurements.md``
UNCACHED = (13, 0)  # the first version seen that may leave the driver's cache on the disk alone
MINIMAL = (12, 4)  # that may leave out textures and launches, of which kernel text knows nothing
ATTEMPTS = 12
# What nvcc includes of itself in every file.
AS_NVCC = (
    "-default-device",
    *(f"-D__builtin_{f}={f}" for f in ("memcpy", "memset")),
    *(f"--pre-include={h}.h" for h in ("stdint", "limits", "math", "float")),
)
_FILE = "kernel text"  # its name in messages
_INCLUDED = "included.h"
_ERROR = re.compile(rf"^{_FILE}\((\d+)\): (?:catastrophic )?error: *(.*)$", re.MULTILINE)
_ANY_ERROR = re.compile(r"^(?:(.+?)\((\d+)\): )?(?:catastrophic )?error: *(.*)$", re.MULTILINE)
_NAMES = "__nv_name_map"  # the file of messages about names of kernels
_FUNCTION = re.compile(
    r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.S
)
_REGISTERS = re.compile(r"Used (\d+) registers")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SHARED = re.compile(r"(\d+) bytes smem")
_UNSET = re.compile(
    r'^(.+?)\((\d+)\): warning #549-D: variable "(\w+)" is used before', re.MULTILINE
)
# Remarks on products of four warps that wait for each other.
_SERIAL = re.compile(r"\(C75(?:1\d|20)\)[^\n]*")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes: registers a thread, bytes of stack and of spills, shared bytes."""

    kernel: str
    registers: int
    stack: int
    spills: int
    shared: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture, with what each kernel takes.

    ``ptx`` is the text in NVIDIA's virtual instructions that the machine code was assembled from.
    ``remarks`` say why the assembler lets products of four warps wait for each other, if it does.
    """

    code: bytes
    resources: tuple[Resources, ...]
    ptx: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translated:
    """PTX of a file, the name of the kernel that was asked for, and what is never set in the file.

    ``unset`` are lines at which a variable is read that no path has set, with the variable's name.
    ``code`` is the machine code, where the architecture is that of a GPU, such as ``sm_90a``.
    ``attempts`` is how often more of what is for the host had to be left out.
    """

    ptx: str
    name: str
    unset: tuple[tuple[int, str], ...]
    code: bytes
    attempts: int = 0


class NvrtcCompiler:
    """NVRTC; EngineMissing where it cannot be found.

    ``included`` is a text that comes before whatever is compiled to PTX.  Kernels that may begin
    ``early`` wait for what precedes them.
    """

    def __init__(
        self, architecture: str = ARCHITECTURE, included: str = "", *, early: bool = False
    ) -> None:
        self._early = early
        self._included = included
        self._path, found = _found()
        self._architecture = architecture
        self.version = f"{found[0]}.{found[1]}"
        self.sound = found >= SOUND
        less = {"--minimal": MINIMAL, "--no-cache": UNCACHED}  # no textures and no launches
        self._less = tuple(o for o, since in less.items() if found >= since)

    def _build(self, job: Job) -> Built:
        return nvrtc_process.service(self._path).build(job)

    @cached_property
    def _prelude(self) -> Prelude:
        from didyma.codegen.emit import prelude  # slow to import; kernels of users need none of it

        return prelude.load("cuda")

    def source(self, text: KernelText) -> str:
        """Return the whole of what is compiled: types, intrinsics, kernels.

        Shared arrays that a kernel may not declare are in memory that its launch asks for.
        """
        from didyma.codegen.emit.dynamic import early, placed
        from didyma.codegen.intrinsics import extended

        prelude_ = extended(self._prelude, text.intrinsics)
        source = placed(text.source)[0]
        kernels = early(source) if self._early else source
        return f'{prelude_.select(text.source)}#line 1 "{_FILE}"\n{kernels}'

    def options(self, text: KernelText) -> tuple[str, ...]:
        """Return the options of NVRTC for a text, which fuses products and sums where it may."""
        usual = (f"--gpu-architecture={self._architecture}", "--ptxas-options=-v", *self._less)
        return usual if text.contract else (*usual, "--fmad=false")

    def compile(self, text: KernelText) -> Cubin:
        """Compile; DidymaError ``kernel-text`` with the line at fault."""
        source = self.source(text)
        built = self._build(Job(source, "prelude", {}, self.options(text), (), ("CUBIN", "PTX")))
        if built.failed:
            raise _error(source, built.log)
        code, ptx = built.parts["CUBIN"], _text(built.parts["PTX"])
        resources, remarks = tuple(_resources(built.log)), (*_SERIAL.findall(built.log),)
        return Cubin(code, resources, ptx, remarks)

    def virtual(self, text: KernelText) -> str:
        """Compile to PTX with line numbers; DidymaError ``kernel-text`` with the line at fault."""
        source = self.source(text)
        usual = (o for o in self.options(text) if "ptxas" not in o)
        headers, more = self._before()
        given = ("-lineinfo", *usual, *more)
        built = self._build(Job(source, "prelude", headers, given, (), ("PTX",)))
        if built.failed:
            raise _error(source, built.log)
        return _text(built.parts["PTX"])

    def _before(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return headers and options for the text that is included."""
        if not self._included:
            return {}, ()
        return {_INCLUDED: self._included}, (f"--pre-include={_INCLUDED}",)

    def ptx(
        self,
        source: str,
        name: str,
        flags: Sequence[str] = (),
        kernel: str = "",
        attempts: int = ATTEMPTS,
        *,
        keep: bool = False,
    ) -> Translated:
        """Compile CUDA C++ of a file to PTX.

        ``kernel`` may be an instance of a template, such as ``f<float, 4>``.  Where NVRTC refuses
        the file, what is for the host is left out, in so many attempts.  Headers of the host
        have nothing but a few types.  ``keep`` is that of ``Job``.
        DidymaError ``kernel-text`` with NVRTC's first message and its line, or ``unknown-kernel``.
        """
        found, log = None, ""
        if "<<<" not in source:  # which only code of the host has
            found, log = self._attempt(source, name, flags, kernel, device_code.PLAIN, keep=keep)
        if found is None:
            found, log = self._device_part(source, name, flags, kernel, log, attempts, keep=keep)
        if found is None:
            raise _message(source, name, kernel, log)
        return found

    def _device_part(
        self,
        source: str,
        name: str,
        flags: Sequence[str],
        kernel: str,
        log: str,
        attempts: int,
        *,
        keep: bool,
    ) -> tuple[Translated | None, str]:
        """Compile what of a file is for the device; leave out what NVRTC refuses of the rest.

        Return the translation, or nothing, and what NVRTC says.
        """
        text, headers = device_code.device_part(source), {**device_code.PLAIN}
        for attempt in range(attempts):
            headers |= dict.fromkeys(device_code.lost_headers(log), "")
            given = [*flags, *AS_NVCC]
            found, log = self._attempt(text, name, given, kernel, headers, keep=keep)
            if found is not None:
                return replace(found, attempts=attempt + 1), log
            less = device_code.without(text, device_code.error_lines(log, name))
            if less == text and not device_code.lost_headers(log):
                if attempt and "std" not in log:
                    break
                headers = {**headers, **device_code.STANDARD}
            text = less
        return None, log

    def _attempt(
        self,
        source: str,
        name: str,
        flags: Sequence[str],
        kernel: str,
        headers: Mapping[str, str],
        *,
        keep: bool,
    ) -> tuple[Translated | None, str]:
        """Compile; return the translation, or nothing, and what NVRTC says."""
        expressions = (kernel,) if "<" in kernel else ()
        built = self.translate(source, name, flags, expressions, headers, keep=keep)
        if built.failed:
            return None, built.log
        code = built.parts.get("CUBIN", b"")
        lowered = built.lowered[0] if expressions else kernel
        return Translated(self.text(built), lowered, self.unset(built, name), code), built.log

    def translate(
        self,
        source: str,
        name: str,
        flags: Sequence[str],
        expressions: Sequence[str],
        headers: Mapping[str, str],
        *,
        keep: bool = False,
    ) -> Built:
        """Compile CUDA C++ to PTX with lines, and to machine code where one has it.

        ``keep`` is that of ``Job``.
        """
        folders = [f"-I{f}" for f in device_code.include_folders()]
        own, more = self._before()
        given = [f"--gpu-architecture={self._architecture}", "--device-int128", *flags, *folders]
        given += more
        if not {"-G", "--device-debug"} & {*flags}:
            given.append("-lineinfo")
        parts = ("PTX", "CUBIN") if self._architecture.startswith("sm_") else ("PTX",)
        whole = device_code.reached(source, expressions)
        job = Job(
            whole, name, {**headers, **own}, (*given,), (*expressions,), parts, keep
        )  # fmt: skip
        return self._build(job)

    @staticmethod
    def text(built: Built) -> str:
        """Return the PTX of what was built."""
        return _text(built.parts["PTX"])

    @staticmethod
    def unset(built: Built, name: str) -> tuple[tuple[int, str], ...]:
        """Return the lines of a file at which a variable is read that no path has set."""
        found = _UNSET.findall(built.log)
        return tuple((int(n), v) for file, n, v in found if file == name)


class Nvrtc:
    """Engine ``nvrtc``: compiles, runs nothing."""

    name = "nvrtc"

    def __init__(self, architecture: str = ARCHITECTURE) -> None:
        self._compiler = NvrtcCompiler(architecture)
        self.targets = of_architecture(architecture)

    def load(self, text: KernelText) -> NvrtcLoaded:
        """Compile kernel text; DidymaError ``kernel-text`` with the line at fault."""
        return NvrtcLoaded(self._compiler.compile(text))

    def allocate(self, nbytes: int) -> NoReturn:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def free(self, buffer: Any) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def view(self, buffer: Any, offset: int, nbytes: int) -> NoReturn:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def upload(self, array: Array) -> NoReturn:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def download(self, buffer: Any, dtype: str, shape: Sequence[int]) -> Array:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def copy(self, target: Any, source: Any) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def stack(self, nbytes: int) -> NoReturn:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def unstack(self, buffer: Any) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def wait(self, stream: int, on: int) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()

    def join(self) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()


@dataclass(frozen=True, slots=True)
class NvrtcLoaded:
    """Kernels that compiled."""

    cubin: Cubin

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Any],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Raise EngineMissing: NVRTC compiles, and runs nothing."""
        raise _only_compiles()


def _only_compiles() -> EngineMissing:
    return EngineMissing(
        "engine-missing",
        "nvrtc",
        got="the engine nvrtc, which only compiles",
        want="an engine that runs kernels",
        help="use simt, host or cuda",
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").rstrip("\0")


def _message(source: str, name: str, kernel: str, log: str) -> DidymaError:
    """Return the error for the first message about a file of a user, or a kernel that it names."""
    found = _ANY_ERROR.search(log)
    if found is not None and found[1] == _NAMES:
        want = "a kernel of the text, such as `f<float, 128>`"
        return DidymaError("unknown-kernel", kernel, got=found[3], want=want)
    if found is None:
        return DidymaError(
            "kernel-text", name, got=log.strip(), want="CUDA C++ that NVRTC compiles"
        )
    line, lines = int(found[2] or 0), source.splitlines()
    shown = lines[line - 1].strip() if found[1] == name and 0 < line <= len(lines) else ""
    where = f"{found[1]}:{line}" if line else name
    e = DidymaError("kernel-text", where, got=found[3], want="CUDA C++ that NVRTC compiles")
    return e.at(name, line, shown) if shown else e


def _error(source: str, log: str) -> DidymaError:
    found = _ERROR.search(log)
    if found is None:
        return DidymaError("kernel-text", _FILE, got=log.strip(), want="text that NVRTC compiles")
    line = int(found[1])
    lines = source.partition(f'#line 1 "{_FILE}"\n')[2].splitlines()
    return DidymaError(
        "kernel-text",
        f"line {line}: {lines[line - 1].strip() if line <= len(lines) else ''}",
        got=found[2],
        want="text that NVRTC compiles",
    )


def _resources(log: str) -> Iterator[Resources]:
    for name, report in _FUNCTION.findall(log):
        registers = _REGISTERS.search(report)
        stack = _STACK.search(report)
        shared = _SHARED.search(report)
        yield Resources(
            name,
            int(registers[1]) if registers else 0,
            int(stack[1]) if stack else 0,
            int(stack[2]) + int(stack[3]) if stack else 0,
            int(shared[1]) if shared else 0,
        )


@cache
def _found() -> tuple[str, tuple[int, int]]:
    """Return the library's path and version; EngineMissing where none can be loaded."""
    for candidate in cuda_libraries.paths("nvrtc"):
        try:
            return candidate, nvrtc_library.version(nvrtc_library.declared(candidate))
        except OSError:
            continue
    raise EngineMissing(
        "engine-missing",
        "nvrtc",
        got="no libnvrtc in site-packages, the CUDA toolkit or the loader's path",
        want="NVRTC, CUDA's run-time compiler",
        help=MEND,
    )


def processor_time() -> float:
    """Return the processor time in seconds of this process and of NVRTC, which works for it."""
    return process_time() + nvrtc_process.service(_found()[0]).seconds
