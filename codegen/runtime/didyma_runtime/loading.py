"""Load a program: the engine that runs its machine code, its kernels, and its constants there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import cuda, host
from . import externs as external
from .dtypes import Array, checked
from .externs import Extern
from .kernels import Kernel
from .refused import Refused

_GPU = "sm_"  # how the names of architectures of GPUs begin


class Loaded(NamedTuple):
    """What calls of a program share: an engine, the kernels, the constants there, and routines."""

    engine: Any
    kernels: Any
    weights: list[Any]
    externs: Mapping[str, Any]


def load(
    read: Callable[[str, str], bytes],
    objects: Mapping[str, tuple[str, str]],
    kernels: Mapping[str, Kernel],
    constants: Sequence[Array],
    source: str = "",
    externs: Mapping[str, Extern] | None = None,
) -> Loaded:
    """Load a program: ``read`` returns the bytes of a file by its name and what it is.

    ``objects`` are file and SHA-256 of the machine code for each kind of machine, or for an
    architecture of GPUs, ``source`` is the kernels' text, and ``externs`` are external
    functions.  Errors: ``target-lacks`` for another machine or GPU, ``engine-missing``,
    ``file-missing``, ``hash-mismatch``, ``unknown-extern``.
    """
    gpu = next((name for name in objects if name.startswith(_GPU)), "")
    if kernels and not gpu and host.here() not in objects:
        raise Refused(
            "target-lacks", "kernels", got=f"machine code for {', '.join(objects) or 'none'}",
            want=host.here(), help="build the program on such a machine: `didyma build`",
        )  # fmt: skip
    engine: Any = cuda.Cuda(gpu) if gpu else host.Host()
    with engine.current():
        found: Any = None
        if kernels:
            name, digest = objects[gpu or host.here()]
            data = checked(read(name, "machine code of the kernels"), digest, name)
            if gpu:
                found = cuda.Kernels(engine, data, kernels)
            else:
                found = host.Kernels(host.library(data, name), kernels, source)
        routines = external.routines(read, externs or {})
        return Loaded(engine, found, [engine.upload(a) for a in constants], routines)
