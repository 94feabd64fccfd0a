"""The judge of a tuner's candidates: the checks of ``simt``, and the error bars."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.simt import Simt
from didyma.codegen.select.choice import Candidate
from didyma.codegen.select.inputs import example
from didyma.codegen.select.keys import arguments
from didyma.codegen.select.runs import Bench, run_once
from didyma.oracle.compare import compare
from didyma.oracle.primitives import PrimitiveBars, concrete
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, from_memory
from didyma.refimpl.ops.bars import Bar, Contract

LANES = 1 << 10  # threads that simt runs of a large grid: at least its first and last block


@dataclass(frozen=True)
class Bars:
    """The judge of one function's candidates: ``simt``'s checks, then the bars of the reference.

    ``simt`` runs the first and last blocks of a large grid, and the first and last rounds of long
    loops in which threads wait for each other; the engine runs all of it, on inputs drawn by the
    seed, and every result is compared.
    """

    fused: Module
    name: str
    loop: PrimFunc
    env: Mapping[str, int]
    seed: int

    def __call__(self, c: Candidate, engine: Engine) -> str:
        """Return why a candidate is wrong, or nothing; errors of engines pass."""
        return self.checked(c) or self.compared(c, engine)

    @cached_property
    def _raw(self) -> list[Array]:
        """The inputs as they lie in memory."""
        by_name = {a.name: a for a in arguments(self.loop, self.env)}
        return example([by_name[name] for name in self.loop.inputs], self.seed)

    @cached_property
    def _inputs(self) -> list[Array]:
        params = self.fused.function(self.name).params
        types = concrete((p.type for p in params), self.env)
        return [from_memory(a, t.dtype, _sizes(t)) for a, t in zip(self._raw, types, strict=True)]

    @cached_property
    def _right(self) -> set[tuple[int, bytes]]:
        """Bars, which ``_bars`` keeps, and a hash of results that lie within."""
        return set()

    @cached_property
    def _bars(self) -> PrimitiveBars:
        return PrimitiveBars(self.fused, Contract())

    @cached_property
    def _known(self) -> dict[tuple[int | None, int], tuple[Bar, ...]]:
        return {}

    def _of(self, kernels: Sequence[Kernel]) -> tuple[Bar, ...]:
        """Return the bars for the kernels of a candidate, which others of one precision share."""
        precision = self._bars.precision(self.name, self.env, kernels)
        if precision not in self._known:
            bars = self._bars.bars(self.name, self._inputs, self.env, kernels)
            self._known[precision] = bars
        return self._known[precision]

    def checked(self, c: Candidate) -> str:
        """Return what the checks of ``simt`` see in the blocks that it runs.

        A fault where middle rounds of loops are left out may come of that, so all are run then.
        A routine has no text to check.
        """
        if not c.kernels:
            return ""
        return self._simulated(c, ends=True) and self._simulated(c, ends=False)

    def _simulated(self, c: Candidate, *, ends: bool) -> str:
        threads = max(s.block[0] * s.block[1] * s.block[2] for s in c.text.kernels)
        engine = Simt(blocks=max(2, LANES // threads), ends=ends)
        bench = Bench.of(engine, self.loop, self.env, self._raw)
        try:
            bench.runner(c)()
        except KernelFault as e:
            return f"simt: {e}"
        return ""

    def compared(self, c: Candidate, engine: Engine) -> str:
        """Return which results of the engine are outside of their bars; errors of engines pass."""
        raw = run_once(engine, self.loop, c, self._raw, self.env)
        f = self.fused.function(self.name)
        bars = self._of(c.kernels or (self.loop,))
        bits = hashlib.sha256(b"".join(a.tobytes() for a in raw)).digest()
        if (id(bars), bits) in self._right:
            return ""
        types = concrete(f.result_types(), self.env)
        for name, bar, a, t in zip(f.results, bars, raw, types, strict=True):
            found = compare(name, bar, from_memory(a, t.dtype, _sizes(t)), t)
            if not found.agree:
                return found.message
        self._right.add((id(bars), bits))
        return ""


def _sizes(t: Any) -> tuple[int, ...]:
    return dims.values(t.shape, {})
