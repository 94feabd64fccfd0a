"""Device tags of values: engines have one device, so a program that names others is refused."""

from __future__ import annotations

from collections.abc import Iterator

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Program


def require_one_device(m: Module | Program) -> None:
    """Raise ``device-unsupported`` for a value that is to be on a device of its own."""
    for where, name, device in _program(m) if isinstance(m, Program) else _graph(m):
        raise DidymaError(
            "device-unsupported", where, got=f"%{name} on @{device}",
            want="no device tag: an engine has one device, and every value is on it",
            help=f"remove `@{device}`, or run the program by the reference: `dd.interpret`",
        )  # fmt: skip


def _graph(m: Module) -> Iterator[tuple[str, str, str]]:
    for f in m.functions:
        for name, t in f.types().items():
            if t.device:
                yield f"@{f.name}: %{name}: {t}", name, t.device


def _program(p: Program) -> Iterator[tuple[str, str, str]]:
    for f in (*p.functions, p):
        for name, t in f.types:
            if t.device:
                yield f"@{f.name}: %{name}: {t}", name, t.device
