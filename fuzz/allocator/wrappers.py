"""Run the generated wrappers of planned programs on an engine that interprets their kernels.

So wrappers are judged without kernel text: by their results, and by what they do with memory and
streams (``oracle.watched_engine``).  What walks a program's JSON is run on such an engine, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from didyma.codegen.devices import named
from didyma.codegen.emit import program_json, wrapper
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import numbered, walk
from didyma.codegen.runtime.didyma_runtime.devices import OWN, Devices
from didyma.codegen.runtime.didyma_runtime.loading import Loaded
from didyma.codegen.runtime.engine import KernelText, Routine, Signature
from didyma.fuzz.allocator.kernels import ROUTINES
from didyma.oracle import in_place
from didyma.oracle.watched_engine import WatchedEngine, WatchedKernels
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims, lines
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.lines import most_variants
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Extern, Program
from didyma.refimpl.ir.types import Array, from_memory, nbytes_of, to_memory
from didyma.refimpl.verify.streams import several

FRESH = 0xA5  # what bytes hold before they are written, and after they are freed


class LoopEngine:
    """An engine on arrays of bytes; kernels are run by the loop interpreter."""

    name = "interpreted"

    def current(self) -> AbstractContextManager[None]:
        """Return what lets a thread use the engine."""
        return nullcontext()

    def allocate(self, nbytes: int) -> Array:
        """Return bytes that no kernel expects."""
        return np.full(nbytes, FRESH, np.uint8)

    def free(self, buffer: Array) -> None:
        """Overwrite bytes, so that whoever reads them sees it."""
        buffer[...] = FRESH

    stack = allocate
    unstack = free

    def view(self, buffer: Array, offset: int, nbytes: int) -> Array:
        """Return a part of bytes."""
        return buffer[offset : offset + nbytes]

    def upload(self, array: Array) -> Array:
        """Return a copy of an array's bytes."""
        return np.frombuffer(np.ascontiguousarray(to_memory(array)).tobytes(), np.uint8).copy()

    def download(self, buffer: Array, dtype: str, shape: Sequence[int]) -> Array:
        """Return a copy of bytes as an array."""
        return from_memory(buffer[: nbytes_of(dtype, shape)], dtype, shape).copy()

    def copy(self, target: Array, source: Array) -> None:
        """Copy all bytes of the source over the start of the target."""
        target[: source.size] = source

    def wait(self, stream: int, on: int) -> None:
        """Return at once: work is done when it is given."""

    def join(self) -> None:
        """Return at once."""


class OtherLoopEngine(LoopEngine):
    """An engine of another kind of device, to which bytes come through the host."""


def engine_for(p: Program) -> LoopEngine | Devices:
    """Return an engine for a program, with memory of its own for each device that values name."""
    engines: dict[str, LoopEngine] = {
        name: OtherLoopEngine() if name.startswith("cuda") else LoopEngine() for name in named(p)
    }
    return Devices({OWN: LoopEngine(), **engines}) if engines else LoopEngine()


@dataclass(frozen=True, slots=True)
class InterpretedKernels:
    """Kernels by their names in the text; as they are run, they demand what ``in_place`` does."""

    kernels: Mapping[str, PrimFunc]

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Array],
        sizes: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run a kernel on buffers, of which it sees as many elements as it declares."""
        del stream
        assert not scalars, f"kernels of random programs have no numbers: {kernel}"
        k = self.kernels[kernel]
        env = {v.name: sizes[v.name] for v in k.dims}
        arrays: dict[str, Array] = {}
        for p, raw in zip(k.params, buffers, strict=True):
            shape = dims.values(p.shape, env)
            nbytes = int(np.prod(shape, dtype=np.int64)) * p.dtype.nbytes
            arrays[p.name] = raw[:nbytes].view(p.dtype.numpy).reshape(shape)
        in_place.launch(k, arrays, env)


def _named(kernel: str) -> str:
    """Return the name that a kernel has in its text, which need not be that in the program."""
    return f"{kernel}_in_text"


def text_of(p: Program) -> KernelText:
    """Return the signatures of a program's kernels, without any text."""
    signatures = (
        Signature(_named(k.name), tuple((b.name, b.dtype) for b in k.params), (), k.outputs,
                  tuple(v.name for v in k.dims), (ix.ONE, ix.ONE, ix.ONE), (1, 1, 1))
        for k in p.kernels
    )  # fmt: skip
    return KernelText("", tuple(signatures))


def _routine(p: Program) -> Routine:
    """Return the routine ``mix`` on bytes; what it is given tells the line, and so the dtypes.

    On several devices its buffers are those of their engines.
    """
    calls = {dict(x.attrs)["salt"]: x for x in lines.walk(p.lines) if isinstance(x, Extern)}
    types = p.type

    def mix(
        engine: Any, outputs: Sequence[Any], inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> Any:
        line = calls[attrs["salt"]]
        own = [engine.allocate(dims.evaluate(types[v].nbytes, {})) for v in line.allocates]
        every: list[Sequence[Any]] = [[*own, *outputs], inputs]
        if isinstance(engine, Devices):
            every = [[b.buffer for b in bs] for bs in every]
        outs, ins = (
            [raw.view(types[v].dtype.numpy) for raw, v in zip(given, values, strict=True)]
            for given, values in zip(every, (line.outputs, line.inputs), strict=True)
        )
        ROUTINES["mix"](outs, ins, attrs)
        return own[0] if len(own) == 1 else own or None

    return mix


def run(
    p: Program,
    inputs: Sequence[Array],
    use: MemoryUse,
    variant: int = 0,
    externs: Mapping[str, Routine] | None = None,
) -> list[Array]:
    """Return the results of a program's wrapper, which dispatches to the variants of a number.

    ``externs`` are the library routines, ``mix`` if none are given.  EngineMemoryFault, and what
    kernels raise.
    """
    source = wrapper.emit(p, text_of(p))
    made: dict[str, Any] = dict(modules.module(source))
    watched, kernels = _watched(p, use, source)
    routines = {"mix": _routine(p)} if externs is None else externs
    watching = {name: watched.routine(x) for name, x in routines.items()}
    means = [partial(numbered, variant)] if most_variants(p) > 1 else []
    out: list[Array] = made["run"](watched, list(inputs), kernels, None, watching, *means)
    watched.demand_freed()
    return out


def _watched(p: Program, use: MemoryUse, source: str = "") -> tuple[WatchedEngine, WatchedKernels]:
    """Return an engine for a program that is watched, and the kernels there."""
    engine = engine_for(p)
    streams = any(several(f.lines) for f in (p, *p.functions))
    watched = WatchedEngine(engine, use, source, streams=streams)
    names = {
        _named(k.name): (k.name, tuple(b.name in k.outputs for b in k.params)) for k in p.kernels
    }
    text: Any = InterpretedKernels({_named(k.name): loops(k) for k in p.kernels})
    if isinstance(engine, Devices):
        text = engine.kernels([text] * len(engine.engines))
    return watched, watched.loaded(text, names)


def walked(p: Program, inputs: Sequence[Array]) -> list[Array] | None:
    """Return the results of what walks the JSON of a program; it takes the first of variants.

    None for those that call routines, of which JSON tells sizes.  EngineMemoryFault, and what
    kernels raise.
    """
    called = (x for f in (p, *p.functions) for x in lines.walk(f.lines))
    if any(isinstance(x, Extern) for x in called):
        return None
    engine, kernels = _watched(p, MemoryUse())

    def load(
        others: object, objects: object, table: object, constants: Sequence[Array], *rest: Any
    ) -> Loaded:
        del others, objects, table
        weights = list[Any]()
        for c, device in zip(constants, rest[-1], strict=True):
            with engine.on(device) if device else nullcontext():
                weights.append(engine.upload(c))
        return Loaded(engine, kernels, weights, {})

    # the workspace by symbols, which no walk reads, takes two fifths of judging a program
    with mock.patch.object(program_json, "symbolic_peak", return_value=0):
        text = program_json.program_json(p, text_of(p), {})
    with mock.patch.object(walk, "load", load):
        run = walk.read(text.encode(), _missing)
    return run(list(inputs))


def _missing(name: str, what: str) -> bytes:
    raise FileNotFoundError(f"{name}, {what}")
