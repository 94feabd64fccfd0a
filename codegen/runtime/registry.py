"""Engines by name, imported on demand, and whether each can run on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from didyma.codegen import plugins
from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import PORTABLE, Target

NAMES = ("simt", "host", "host-fast", "ptx", "nvrtc", "cuda")


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether an engine can run here; ``mend`` is a command that would install it."""

    name: str
    runs: bool
    why: str
    mend: str


def names() -> tuple[str, ...]:
    """Return Didyma's engines and those that other distributions register."""
    return tuple(dict.fromkeys((*NAMES, *plugins.names(plugins.ENGINES))))


def engine(which: str | Engine, *, checked: bool = True) -> Engine:
    """Make an engine of a name, or check that an object is one and return it.

    Without ``checked``, an engine whose checks cost time at every launch leaves them out.

    DidymaError ``unknown-engine`` for a name that is none, ``bad-engine`` for an object that lacks
    a method of the protocol, ``broken-plugin``; EngineMissing where the machine lacks what the
    engine needs.

    >>> engine("host").name
    'host'
    """
    return _made(which, checked) if isinstance(which, str) else _checked(which, "engine")


def ahead(name: str, target: Target) -> Callable[[KernelText], None]:
    """Return what compiles kernel text so that an engine to come need not, where that can be done.

    DidymaError ``kernel-text`` as the engine; EngineMissing where the machine lacks the compiler.
    """
    if name != "cuda" or not target.architecture:
        return lambda text: None
    from didyma.codegen.runtime.cuda import ahead

    return ahead(target.architecture)


def targets(e: Engine) -> tuple[Target, ...]:
    """Return the targets that an engine has or imitates; one that says nothing is portable.

    The first is that for which a program of a user is compiled, unless options name another.
    """
    return getattr(e, "targets", (PORTABLE,))


def require_target(e: Engine, target: Target) -> None:
    """Raise DidymaError ``wrong-target`` if an engine lacks what programs for a target rely on."""
    if not any(own.covers(target) for own in targets(e)):
        raise DidymaError(
            "wrong-target", f"engine {e.name}", got=f"a program for {target.name}",
            want=f"one for {' or '.join(own.name for own in targets(e))}",
        )  # fmt: skip


def _made(name: str, checked: bool) -> Engine:
    match name:
        case "simt":
            from didyma.codegen.runtime.simt import Simt

            return Simt()
        case "host":
            from didyma.codegen.runtime.host import Host

            return Host()
        case "host-fast":
            from didyma.codegen.runtime.fast.engine import HostFast

            return HostFast(checked=checked)
        case "ptx":
            from didyma.codegen.runtime.ptx.engine import Ptx

            return Ptx()
        case "nvrtc":
            from didyma.codegen.runtime.nvrtc import Nvrtc

            return Nvrtc()
        case "cuda":
            from didyma.codegen.runtime.cuda import Cuda

            return Cuda(checked=checked)
        case _:
            return _registered(name)


def _registered(name: str) -> Engine:
    found = plugins.load(plugins.ENGINES, name)
    if found is None:
        raise DidymaError("unknown-engine", name, got=name, want=f"one of {', '.join(names())}")
    return _checked(found, f"{name} of {plugins.origin(plugins.ENGINES, name)}")


def _checked(found: object, where: str) -> Engine:
    return cast("Engine", plugins.checked(found, Engine, "bad-engine", where))


def probe(name: str) -> Availability:
    """Return whether an engine can be had, by making it.

    >>> probe("host").runs
    True
    """
    try:
        made = engine(name)
    except DidymaError as e:
        if isinstance(e, EngineMissing) or name not in NAMES:
            return Availability(name, False, e.got, e.help)
        raise
    about: str = getattr(made, "about", "")
    return Availability(name, True, about or _WHAT.get(name) or _from(name), "")


def _from(name: str) -> str:
    return f"registered by {plugins.origin(plugins.ENGINES, name)}"


_WHAT = {
    "simt": "runs kernels in NumPy, with every check",
    "host": "runs kernels on this CPU, compiled by TinyCC",
    "ptx": "runs NVIDIA's instructions, with every check",
    "nvrtc": "compiles kernels for the GPU, runs none",
    "cuda": "runs kernels on the GPU",
}
