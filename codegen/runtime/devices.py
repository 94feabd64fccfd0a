"""An engine for each device that the values of a program name."""

from __future__ import annotations

from typing import cast

from didyma.codegen.devices import named
from didyma.codegen.runtime.didyma_runtime.devices import Devices
from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.program import Program


def across(e: Engine, p: Program) -> Engine:
    """Return what runs a program whose own device is an engine's.

    It is the engine, or, where values name devices, one that has an engine for each of them.
    DidymaError ``device-unsupported`` for a device that the engine has none for.
    """
    names = named(p)
    if not names or isinstance(e, Devices):
        return e
    return cast("Engine", Devices({"": e, **{name: _beside(e, name, p) for name in names}}))


def _beside(e: Engine, name: str, p: Program) -> Engine:
    """Return the engine of another device beside an engine."""
    another = getattr(e, "another", None)
    if another is None or not name.startswith("host:"):
        value = next(v for f in (p, *p.functions) for v, t in f.types if t.device == name)
        want = "host:0, host:1 and so on" if another is not None else "no device tag"
        raise DidymaError(
            "device-unsupported", f"engine {e.name}, @{p.name}", got=f"%{value} on @{name}",
            want=f"{want}, on this engine",
            help="engines simt, host and host-fast have several devices; `dd.interpret` has all",
        )  # fmt: skip
    found: Engine = another()
    return found
