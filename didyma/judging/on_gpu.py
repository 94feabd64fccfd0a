"""Launches of a task's kernels on a GPU: the text itself, compiled for that GPU by NVRTC."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from didyma.codegen.runtime import driver
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.ptx.sanitize import Argument
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging import launching
from didyma.judging.task import Kept, Result, Task
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir.types import Array, DType

if TYPE_CHECKING:
    from didyma.codegen.runtime.cuda import Cuda, CudaBuffer

_NEWER = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
_USUAL_SHARED = 48 << 10  # bytes of dynamic shared memory that need not be asked for


def run(task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> list[Array]:
    """Launch the kernels of a task once; return the outputs in the order of the specification.

    KernelFault ``crash`` for an error that CUDA reports; EngineMissing without a GPU, and for PTX
    that is newer than its driver.
    """
    on = _engine()
    held: dict[str, Argument] = {}
    for step in task.steps:
        made = launching.arguments(task, step, env, arrays, held)
        shape, shared = launching.geometry(task, step, env, arrays)
        buffers = [on.upload(a.value) if a.value.ndim else None for a in made]
        if shape.blocks and shape.threads:
            module = _loaded(_code(task.source, step.name, task.flags, on.architecture))
            try:
                function = driver.function(module, step.kernel.name)
                _launch(function, step.label, shape, shared, made, buffers)
            finally:
                driver.unload(module)
        for role, a, b in zip(step.roles, made, buffers, strict=True):
            if isinstance(role, Result | Kept) and b is not None:
                left = on.download(b, DType.of(a.value), a.value.shape)
                held[launching.key(role)] = replace(a, value=left)
    return [*launching.results(task, env, held)]


def _launch(
    function: int,
    name: str,
    shape: Shape,
    shared: int,
    made: Sequence[Argument],
    buffers: Sequence[CudaBuffer | None],
) -> None:
    """Launch and wait; KernelFault where CUDA reports an error."""
    if shared > _USUAL_SHARED:
        driver.allow_shared(function, shared)
    values = [
        a.value.tobytes() if b is None else (b.address + a.start).to_bytes(8, "little")
        for a, b in zip(made, buffers, strict=True)
    ]
    cells = [ctypes.create_string_buffer(v, len(v)) for v in values]
    given = (ctypes.c_void_p * len(cells))(*map(ctypes.addressof, cells))
    code: int = driver.launcher()(
        ctypes.c_void_p(function), *shape.grid, *shape.block, shared, None, given, None
    )
    code = code or driver.library().cuCtxSynchronize()
    if code:
        raise KernelFault([Fault("crash", name, driver.error_name(code))])


def _loaded(image: bytes) -> int:
    try:
        return driver.load(image)
    except driver.DriverError as e:
        if e.code != _NEWER:
            raise
        raise EngineMissing(
            "engine-missing", "cuda", got="PTX that is newer than the driver",
            want="PTX of a version that the driver can compile",
            help="install a newer driver, or write older PTX",
        ) from e  # fmt: skip


@cache
def _engine() -> Cuda:
    from didyma.codegen.runtime.cuda import Cuda

    return Cuda()


@lru_cache(maxsize=8)
def _code(source: Source, kernel: str, flags: tuple[str, ...], architecture: str) -> bytes:
    """Return machine code of a source; of PTX, the text, which the driver compiles."""
    if source.file.endswith(".ptx"):
        return source.text.encode() + b"\0"
    return NvrtcCompiler(architecture).ptx(source.text, source.file, flags, kernel).code
