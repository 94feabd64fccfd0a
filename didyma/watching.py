"""Calls of compiled programs of which each launch is told, once it has ended."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import didyma_runtime, modules
from didyma.codegen.runtime.didyma_runtime.kernels import Kernel
from didyma.codegen.runtime.didyma_runtime.watch import Around, Watch
from didyma.codegen.runtime.engine import Engine
from didyma.refimpl.ir.types import Array


def watched(
    run: partial[list[Any]], engine: Engine, c: Compiled, watch: Watch | None, around: Around | None
) -> partial[list[Any]]:
    """Return a wrapper's run of which each launch is told; its keywords have the kernels."""
    space = modules.module(c.wrapper)
    timed = _Timed(run.keywords["kernels"], engine, space["KERNELS"])
    asked: dict[str, Any] = {"finite": False, "watch": watch, "around": around}
    module_run = inspect.unwrap(space["run"])
    told = didyma_runtime.watched(timed, module_run, space["LINES"], **asked, synchronous=True)
    return partial(run, kernels=told)


class _Timed:
    """Kernels that an engine has loaded, as those of the runtime of built programs are watched."""

    def __init__(self, kernels: Any, engine: Engine, table: Mapping[str, Kernel]) -> None:
        self.table, self._kernels, self._engine = table, kernels, engine

    def timed(
        self, kernel: str, buffers: Sequence[Any], sizes: Mapping[str, int], stream: int = 0
    ) -> float:
        """Run a kernel to its end and return the seconds that it took."""
        self._engine.join()
        start = time.perf_counter()
        self._kernels.launch(kernel, buffers, sizes, stream)
        self._engine.join()
        return time.perf_counter() - start

    def read(self, buffer: Any, nbytes: int) -> Array:
        """Return a copy of the first bytes of a buffer."""
        reads: Any = getattr(self._engine, "reads", self._engine)
        found: Array = reads.download(buffer, "u8", (nbytes,))
        return found
