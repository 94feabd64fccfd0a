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
    architecture of GPUs, first for the program's own device, ``source`` is the kernels' text, and
    ``externs`` are external functions.  ``devices`` are those that values name, ``host:N`` or
    ``cuda:N``, and ``places`` are where the constants are; without names all is on the program's
    own device.  Errors: ``target-lacks`` for another machine or GPU, ``engine-missing``,
    ``file-missing``, ``hash-mismatch``, ``unknown-extern``.
    """
    own = next(iter(objects), "")
    gpu = own if own.startswith(_GPU) else ""
    engines = {"": _engine("cuda:0", gpu), **{name: _engine(name, gpu) for name in devices}}
    found: list[Any] = []
    on_host: Any = None  # the same for all devices of the host: one machine code, one stage
    for engine in engines.values() if kernels else ():
        if on_host and isinstance(engine, host.Host):
            found.append(on_host)
            continue
        kind = gpu if isinstance(engine, cuda.Cuda) else host.here()
        if kind not in objects:
            raise Refused(
                "target-lacks", "kernels", got=f"machine code for {', '.join(objects) or 'none'}",
                want=kind, help="build the program on such a machine: `didyma build`",
            )  # fmt: skip
        name, digest = objects[kind]
        data = checked(read(name, "machine code of the kernels"), digest, name)
        if isinstance(engine, host.Host):
            on_host = host.Kernels(host.library(data, name), kernels, source)
            found.append(on_host)
        else:
            with engine.current():
                found.append(cuda.Kernels(engine, data, kernels))
    routines = external.routines(read, externs or {})
    if devices:
        several = Devices(engines)
        return Loaded(several, several.kernels(found), placed(several, constants, places), routines)
    with engines[""].current():
        uploaded = [engines[""].upload(a) for a in constants]
    return Loaded(engines[""], found[0] if found else None, uploaded, routines)


def _engine(device: str, gpu: str) -> Any:
    """Return the engine of a device; without code for a GPU every device is the CPU's."""
    kind, _, number = device.partition(":")
    return cuda.Cuda(gpu, int(number)) if gpu and kind == "cuda" else host.Host()
