"""An engine for each device that the values of a program name."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from didyma.codegen.devices import named
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.didyma_runtime.devices import Devices
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.host import Host
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.program import Program

KINDS = ("cuda", "host")  # of devices: the name before the colon


def across(e: Engine, p: Program) -> Engine:
    """Return what runs a program whose own device is an engine's.

    It is the engine, or, where values name devices, one that has an engine for each of them.
    On engine ``cuda`` a device ``cuda:N`` is that GPU, and ``host:N`` is the CPU.  An engine on
    the CPU stands for every device, each with memory of its own.
    DidymaError ``device-unsupported`` for a device that the engine has none for; EngineMissing for
    a GPU that is not there.
    """
    names = named(p)
    if not names or isinstance(e, Devices):
        return e
    return cast("Engine", Devices({"": e, **{name: _beside(e, name, p) for name in names}}))


def _beside(e: Engine, name: str, p: Program) -> Engine:
    """Return the engine of another device beside an engine."""
    kind, _, number = name.partition(":")
    if isinstance(e, Cuda) and kind == "host":
        return Host()
    another: Callable[[int], Engine] | None = getattr(e, "another", None)
    if another is None or kind not in KINDS or not number.isdecimal():
        value = next(v for f in (p, *p.functions) for v, t in f.types if t.device == name)
        want = "host:N or cuda:N" if another is not None else "no device tag"
        raise DidymaError(
            "device-unsupported", f"engine {e.name}, @{p.name}", got=f"%{value} on @{name}",
            want=f"{want}, on this engine",
            help="engines simt, host, host-fast and cuda have several; `dd.interpret` has all",
        )  # fmt: skip
    return another(int(number))
