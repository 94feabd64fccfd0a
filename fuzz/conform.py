"""The conformance suite on the project's own engines, with the kernels emitted here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine, Loaded
from didyma.codegen.runtime.registry import engine, targets
from didyma.oracle.conformance import LaunchCase, LoopCase, calls, cases
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.types import Array


def suite(on: str | Engine = "simt") -> Iterator[LaunchCase]:
    """Yield every case: the texts of the suite, and its loop programs as text.

    Texts with intrinsics that no target of the engine has are left out.
    """
    known = _families(on)
    yield from (c for c in cases() if not c.needs or known is None or c.needs in known)
    yield from map(emitted, calls.cases())


def emitted(case: LoopCase) -> LaunchCase:
    """Return a case of a loop program with its text."""
    text = cuda.emit([case.kernel], contract=False)
    (kernel,) = text.kernels
    return LaunchCase(
        "calls", case.name, text, kernel, case.initial, case.expected, case.dims,
        scalars=tuple(case.scalars.values()),
    )  # fmt: skip


def _families(which: str | Engine) -> frozenset[str] | None:
    """Return the families of intrinsics of the targets that an engine names, None if unknown."""
    try:
        return frozenset(f for t in targets(engine(which)) for f in t.families)
    except EngineMissing:
        return None


class Runner:
    """Launches conformance cases on an engine; a text is loaded once for its cases in a row."""

    def __init__(self, on: Engine) -> None:
        self._engine = on
        self._loaded: Loaded | None = None
        self._text: KernelText | None = None

    def __call__(self, case: LaunchCase) -> list[Array]:
        """Return the outputs of a case; raises what the engine raises."""
        if self._loaded is None or self._text is not case.text:
            self._loaded = self._engine.load(case.text)
            self._text = case.text
        on = self._engine
        buffers: list[Any] = [on.upload(a) for a in case.initial]
        try:
            self._loaded.launch(case.kernel.name, buffers, case.dims, scalars=case.scalars)
            named = dict(zip((n for n, _ in case.kernel.buffers), buffers, strict=True))
            dtypes = dict(case.kernel.buffers)
            return [
                on.download(named[o], dtypes[o], want.shape)
                for o, want in zip(case.kernel.outputs, case.expected, strict=True)
            ]
        finally:
            for b in buffers:
                on.free(b)
