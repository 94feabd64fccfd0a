"""Load a program: the engine that runs its machine code, its kernels, and its constants there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import cuda, host
from . import externs as external
from .devices import Devices, placed
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
    devices: Sequence[str] = (),
    places: Sequence[str] = (),
) -> Loaded:
    """Load a program: ``read`` returns the bytes of a file by its name and what it is.

    ``objects`` are file and SHA-256 of the machine code for each kind of machine, or for an
    architecture of GPUs, ``source`` is the kernels' text, and ``externs`` are external
    functions.  ``devices`` are those of the host that values name, and ``places`` are where the
    constants are; without names all is on the program's own device.  Errors: ``target-lacks`` for
    another machine or GPU, ``engine-missing``, ``file-missing``, ``hash-mismatch``,
    ``unknown-extern``.
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
        more: list[Any] = []
        if kernels:
            name, digest = objects[gpu or host.here()]
            data = checked(read(name, "machine code of the kernels"), digest, name)
            if gpu:
                found = cuda.Kernels(engine, data, kernels)
            else:
                code = host.library(data, name)
                found = host.Kernels(code, kernels, source)
                more += [host.Kernels(code, kernels, source) for _ in devices]
        routines = external.routines(read, externs or {})
        if devices:
            several = Devices({"": engine, **{name: host.Host() for name in devices}})
            uploaded = placed(several, constants, places)
            return Loaded(several, several.kernels([found, *more]), uploaded, routines)
        return Loaded(engine, found, [engine.upload(a) for a in constants], routines)
