"""Engines by name, and whether each can run here; none is imported before it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.errors import DidymaError, EngineMissing

NAMES = ("simt", "host", "nvrtc", "cuda")


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether an engine can be had here; ``mend`` is the command that would bring it."""

    name: str
    runs: bool
    why: str
    mend: str


def engine(name: str) -> Engine:
    """Make an engine.

    DidymaError ``unknown-engine`` for a name that is none; EngineMissing where the machine lacks
    what it needs.

    >>> engine("host").name
    'host'
    """
    match name:
        case "simt":
            from didyma.codegen.runtime.simt import Simt

            return Simt()
        case "host":
            from didyma.codegen.runtime.host import Host

            return Host()
        case "nvrtc":
            from didyma.codegen.runtime.nvrtc import Nvrtc

            return Nvrtc()
        case "cuda":
            from didyma.codegen.runtime.cuda import Cuda

            return Cuda()
        case _:
            raise DidymaError("unknown-engine", name, got=name, want=f"one of {', '.join(NAMES)}")


def probe(name: str) -> Availability:
    """Tell whether an engine can be had, by making it.

    >>> probe("host").runs
    True
    """
    try:
        made = engine(name)
    except EngineMissing as e:
        return Availability(name, False, e.got, e.help)
    return Availability(name, True, _WHAT[made.name], "")


_WHAT = {
    "simt": "runs kernels in NumPy, with every check",
    "host": "runs kernels on this CPU, compiled by TinyCC",
    "nvrtc": "compiles kernels for the GPU, runs none",
    "cuda": "runs kernels on the GPU",
}
