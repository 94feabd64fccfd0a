"""Run the kernels of a candidate on an engine: once on given inputs, or again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

from didyma.codegen.routines import Routine
from didyma.codegen.runtime.engine import Engine, Loaded
from didyma.codegen.runtime.externs import DEVICE, OnDevice, on_device, results
from didyma.codegen.select.choice import Candidate
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, DType

Launch: TypeAlias = tuple[str, Sequence[Any]]  # the name of a kernel, and its buffers


@runtime_checkable
class Repeats(Protocol):
    """Kernels that an engine can launch many times by one call."""

    def repeated(
        self, launches: Sequence[Launch], dims: Mapping[str, int], times: int
    ) -> Callable[[], None]:
        """Return what launches kernels in their order, so many times."""
        ...


@dataclass(frozen=True, slots=True)
class Launches:
    """What launches the kernels of a candidate: once, or many times at the engine's own pace."""

    loaded: Loaded
    launches: Sequence[Launch]
    env: Mapping[str, int]
    made: dict[int, Callable[[], None]] = field(default_factory=dict[int, Callable[[], None]])

    def __call__(self) -> None:
        """Launch each kernel."""
        for name, buffers in self.launches:
            self.loaded.launch(name, buffers, self.env)

    def several(self, times: int) -> None:
        """Launch all kernels so many times, by one call where the engine has that."""
        if times == 1 or not isinstance(self.loaded, Repeats):
            for _ in range(times):
                self()
            return
        if times not in self.made:
            self.made[times] = self.loaded.repeated(self.launches, self.env, times)
        self.made[times]()


@dataclass(frozen=True, slots=True)
class Bench:
    """The arguments of a function on an engine: one buffer each, shared by all candidates."""

    engine: Engine
    loop: PrimFunc
    env: Mapping[str, int]
    buffers: Mapping[str, Any]
    own: list[Any] = field(default_factory=list[Any])  # what kernels of one candidate share

    @staticmethod
    def of(
        engine: Engine, loop: PrimFunc, env: Mapping[str, int], inputs: Sequence[Array]
    ) -> Bench:
        """Upload the inputs of a function, and allocate its outputs."""
        given = dict(zip(loop.inputs, inputs, strict=True))
        buffers: dict[str, Any] = {}
        for b in loop.params:
            if b.name in given:
                buffers[b.name] = engine.upload(given[b.name])
            else:
                count = math.prod(dims.values(b.shape, env))
                buffers[b.name] = engine.allocate(count * b.dtype.nbytes)
        return Bench(engine, loop, env, buffers)

    def runner(self, c: Candidate) -> Callable[[], None]:
        """Return what launches the kernels of a candidate, or calls its routine.

        They may still run on the engine until it is joined.

        DidymaError ``kernel-text``; KernelFault from a call where the engine's checks fail, and
        DidymaError ``extern-result`` where a routine returns other arrays.
        """
        if c.routine is not None:
            return self._calls(*c.routine)
        loaded = self.engine.load(c.text)
        held = dict(self.buffers)
        for b in scratch(c.kernels, held):
            count = math.prod(dims.values(b.shape, self.env))
            held[b.name] = self.engine.allocate(count * b.dtype.nbytes)
            self.own.append(held[b.name])
        launches = [
            (s.name, [held[b.name] for b in k.params])
            for k, s in zip(c.kernels, c.text.kernels, strict=True)
        ]
        return Launches(loaded, launches, self.env)

    def _calls(self, routine: Routine, function: Function) -> Callable[[], None]:
        """Return what calls a routine on arrays of the operands, and stores its results.

        DidymaError ``target-lacks`` for one that another engine runs.
        """
        types = {b.name: (b.dtype, dims.values(b.shape, self.env)) for b in self.loop.params}
        if isinstance(routine.call, OnDevice):
            if self.engine.name != DEVICE:
                raise DidymaError(
                    "target-lacks", routine.name, got=self.engine.name,
                    want=f"engine {DEVICE}, which runs it where arrays lie",
                )  # fmt: skip
            ys, xs = (
                on_device([self.buffers[n] for n in names], [types[n] for n in names])
                for names in (self.loop.outputs, self.loop.inputs)
            )
            return partial(routine.call, function, ys, xs)
        return partial(self._call, routine, types)

    def _call(self, routine: Routine, types: Mapping[str, tuple[DType, tuple[int, ...]]]) -> None:
        """Call a routine on arrays of the host, as programs do."""
        given = (self.engine.download(self.buffers[n], *types[n]) for n in self.loop.inputs)
        want = [(types[n][0].numpy, types[n][1]) for n in self.loop.outputs]
        made = results(routine.call(*given), want, routine.name)
        for name, result in zip(self.loop.outputs, made, strict=True):
            source = self.engine.upload(result)
            self.engine.copy(self.buffers[name], source)
            self.engine.free(source)

    def outputs(self) -> tuple[Array, ...]:
        """Download the results, as they lie in memory."""
        by_name = {b.name: b for b in self.loop.params}
        return tuple(
            self.engine.download(
                self.buffers[o], by_name[o].dtype, dims.values(by_name[o].shape, self.env)
            )
            for o in self.loop.outputs
        )

    def free(self) -> None:
        """Free the buffers; KernelFault ``guard`` where bytes beside one were written."""
        for b in (*self.buffers.values(), *self.own):
            self.engine.free(b)


def run_once(
    engine: Engine, loop: PrimFunc, c: Candidate, inputs: Sequence[Array], env: Mapping[str, int]
) -> tuple[Array, ...]:
    """Run a candidate on buffers that nobody has written; return its results.

    DidymaError ``kernel-text`` and KernelFault as the engine.
    """
    bench = Bench.of(engine, loop, env, inputs)
    try:
        bench.runner(c)()
        engine.join()
        return bench.outputs()
    finally:
        bench.free()
