"""Calls with arrays on a GPU: they go in as they are, and results come back as their like."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.cuda import Cuda, CudaLoaded
from didyma.codegen.runtime.device_array import DeviceArray, as_given, on_gpu
from didyma.codegen.runtime.driver import DEFAULT
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.libraries import Library, Make, library
from didyma.codegen.runtime.prepared import FEWEST, Prepared
from didyma.codegen.runtime.record import TooLong, obstacle, record
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.types import DType, nbytes_of
from didyma.strided import Strided, Strides
from didyma.strided import means as strided_means
from didyma.tracer.arrays import AnyArray, arguments, arguments_on

SHAPES = 64  # of inputs, that a program keeps prepared calls for
KEPT = 1 << 20  # bytes of scratch memory, at most, that a program keeps for the calls on a stream
STREAMS = 8  # for which it does so

Run: TypeAlias = Callable[[Sequence[AnyArray]], list[Any]]


def caller(
    run: partial[list[Any]], engine: Engine, c: Compiled, options: Options | None = None
) -> Run:
    """Return what runs a wrapper on inputs and returns its results.

    On engine ``cuda``, inputs that are on the GPU are read where they are, and if there are any,
    results are arrays on the GPU, of the library of the first of them.  Else the results are
    NumPy arrays.  ``options`` are those that the program was compiled with.

    Errors: as of ``arguments``, of ``borrow`` and of the wrapper; on engine ``cuda`` also
    ``launch-failed``, ``device-lost`` and ``too-large``.
    """
    wrapped = line_by_line(run, engine, c.source.entry)
    if not isinstance(engine, Cuda) or engine.checked or obstacle(c.program):
        return wrapped
    return Calls(run, engine, c, wrapped, Strides(c, options or Options()))


def line_by_line(run: partial[list[Any]], engine: Engine, entry: Function) -> Run:
    """Return what runs a wrapper on inputs as ``caller``'s does, and repeats no call."""
    if isinstance(engine, Cuda):
        return partial(_on_cuda, run, engine, entry)
    return partial(_on_host, run, engine, entry)


def strided(run: Run) -> tuple[Strided, ...]:
    """Return what calls did with inputs that were not in row-major order, of prepared calls."""
    return run.strides.seen if isinstance(run, Calls) else ()


def _on_host(
    run: Callable[..., list[Any]], engine: Engine, entry: Function, inputs: Sequence[AnyArray]
) -> list[Any]:
    return run(engine, arguments(entry, inputs))


def _on_cuda(
    run: Callable[..., list[Any]], engine: Cuda, entry: Function, inputs: Sequence[AnyArray]
) -> list[Any]:
    first = next((x for x in inputs if on_gpu(x)), None)
    try:
        if first is None:
            return run(engine, arguments(entry, inputs))
        results: list[DeviceArray] = run(
            engine.resident, arguments_on(engine.number, entry, inputs, engine.pack)
        )
    except KernelFault as e:
        raise engine.failure(e, f"kernel {e.faults[0].kernel}") from e
    return [as_given(r, first) for r in results]


@dataclass(slots=True)
class _Scratch:
    """Scratch memory that calls on a stream use one after another, by library and stream.

    Work of a stream is done in order, so what one call leaves there is dead when the next begins.
    A call that is being recorded for a graph takes memory of its own, for the graph may run when
    the program is gone; so does one that needs more than ``KEPT`` bytes.
    """

    kept: dict[tuple[Library, int], tuple[int, Any]] = field(
        default_factory=dict[tuple[Library, int], tuple[int, Any]]
    )

    def take(
        self, library: Library, stream: int, nbytes: int, make: Make, *, captured: bool
    ) -> Any:
        """Return an array of at least so many bytes, which ``make`` makes."""
        if nbytes > KEPT or captured:
            return make()
        size, array = self.kept.get((library, stream), (0, None))
        if size < nbytes:
            if len(self.kept) == STREAMS:
                self.kept.clear()
            array = make()
            self.kept[library, stream] = nbytes, array
        return array


@dataclass(frozen=True, slots=True)
class _Ready:
    """A prepared call, and what makes its scratch memory and results in a library."""

    call: Prepared
    scratch: Make | None
    results: tuple[Make, ...]


@dataclass(slots=True)
class Calls:
    """Calls of one program, prepared once for the dtypes and shapes of their inputs.

    ``wrapped`` makes the calls that cannot be.  ``strides`` has programs for inputs that are not in
    row-major order, whose calls are ``_others``.
    """

    run: partial[list[Any]]
    engine: Cuda
    compiled: Compiled
    wrapped: Run
    strides: Strides
    _others: dict[str, Calls] = field(default_factory=dict[str, "Calls"])
    _libraries: dict[type, Library] = field(default_factory=dict[type, Library])
    _ready: dict[Hashable, _Ready | None] = field(default_factory=dict[Hashable, _Ready | None])
    _scratch: _Scratch = field(default_factory=_Scratch)

    def __call__(self, inputs: Sequence[AnyArray]) -> list[Any]:
        """Run on inputs and return the results; errors as of ``caller``."""
        library = self._library(inputs)
        if library is None:
            return self._exchanged(inputs)
        arrays: list[Any] = []  # list[Any]() takes a third of a microsecond more, in each call
        key: list[Hashable] = []
        for x in inputs:
            taken = library.take(x)
            if taken is None:
                return self._in_other_order(library, inputs)
            arrays.append(taken[0])
            key.append(taken[1])
        kinds = (library, *key)
        ready = self._ready.get(kinds) or self._made(library, kinds, arrays)
        if ready is None:
            return self._exchanged(inputs)
        call, make, stream = ready.call, ready.scratch, library.stream()
        scratch, captured = None, None
        try:
            if make is not None:
                captured = library.is_captured(stream)
                nbytes = call.recording.scratch
                scratch = self._scratch.take(library, stream, nbytes, make, captured=captured)
            results = [make() for make in ready.results]
        except Exception as e:
            raise library.reraised(e, f"the results of {self.compiled.program.name}") from e
        at = library.address
        room = 0 if scratch is None else at(scratch)
        call.run((*map(at, arrays), room, *map(at, results)), stream, captured=captured)
        return results

    def _made(self, library: Library, kinds: Hashable, arrays: Sequence[AnyArray]) -> _Ready | None:
        return None if kinds in self._ready else self._make(library, kinds, arrays)

    def _in_other_order(self, library: Library, inputs: Sequence[AnyArray]) -> list[Any]:
        """Call the program that reads inputs as they lie, those of them that one can."""
        known = library.is_captured(library.stream())
        given = self.strides.given(library, inputs, known=known)
        if given is None:
            return self._exchanged(inputs)
        other = None if given.compiled is None else self._other(given.compiled)
        return (other or self)(given.arrays)

    def _other(self, c: Compiled) -> Calls:
        """Return calls of a program for other layouts, which shares the constants."""
        found = self._others.get(c.wrapper)
        if found is None:
            given = {**self.run.keywords, "kernels": self.engine.load(c.text)}
            run = partial(modules.load(c.wrapper), **given)
            wrapped = partial(_on_cuda, run, self.engine, c.source.entry)
            found = Calls(run, self.engine, c, wrapped, Strides(c, self.strides.options))
            self._others[c.wrapper] = found
        return found

    def _library(self, inputs: Sequence[AnyArray]) -> Library | None:
        if not inputs:
            return None
        kind = type(cast("object", inputs[0]))
        found = self._libraries.get(kind)
        if found is None:
            found = library(inputs[0], self.engine.number)
            if found is not None:
                self._libraries[kind] = found
        return found

    def _make(self, library: Library, kinds: Hashable, arrays: Sequence[AnyArray]) -> _Ready | None:
        """Prepare the calls with inputs like these; None where the library lacks a dtype."""
        described = [library.described(a) for a in arrays]
        known = [d for d in described if d is not None]
        ready = None
        if len(known) == len(arrays) and (call := self._prepared(known)) is not None:
            r = call.recording
            makers = [library.maker(x.dtype, x.shape) for x in r.results]
            makes = tuple(m for m in makers if m is not None)
            scratch = library.maker(DType.U8, (r.scratch,)) if r.scratch else None
            if len(makes) == len(makers):
                ready = _Ready(call, scratch, makes)
        return self._keep(kinds, ready)

    def _keep(self, kinds: Hashable, ready: _Ready | None) -> _Ready | None:
        if len(self._ready) == SHAPES:
            self._ready.clear()
        self._ready[kinds] = ready
        return ready

    def _prepared(self, given: Sequence[DeviceArray]) -> Prepared | None:
        try:
            recording = record(self.run, self.compiled.text, given)
        except TooLong:
            return None
        loaded = cast("CudaLoaded", self.run.keywords["kernels"])
        return Prepared(
            recording,
            loaded.functions,
            loaded.shared,
            graphs=self.engine.graphs,
            early=loaded.early,
        )

    def _exchanged(self, inputs: Sequence[AnyArray]) -> list[Any]:
        """Borrow and lend the arrays by DLPack, and work on CUDA's default stream."""
        first = next((x for x in inputs if on_gpu(x)), None)
        if first is None:
            return self.wrapped(inputs)
        engine, entry = self.engine, self.compiled.source.entry
        given = arguments_on(engine.number, entry, inputs, engine.pack)
        arrays = [a for a in given if isinstance(a, DeviceArray)]
        if len(arrays) < len(given):
            return self.wrapped(inputs)
        kinds = tuple([(a.dtype, a.shape) for a in arrays])
        if kinds in self._ready:
            ready = self._ready[kinds]
        else:
            call = self._prepared(arrays)
            ready = self._keep(kinds, None if call is None else _Ready(call, None, ()))
        if ready is None:
            return self.wrapped(inputs)
        r = ready.call.recording
        made = [engine.allocate(nbytes_of(x.dtype, x.shape)) for x in r.results]
        scratch = engine.allocate(r.scratch)
        blocks = (*(a.address for a in arrays), scratch.address, *(b.address for b in made))
        ready.call.run(blocks, DEFAULT)
        engine.free(scratch)
        lent = (engine.lend(b, x.dtype, x.shape) for b, x in zip(made, r.results, strict=True))
        return [as_given(a, first) for a in lent]


def means(c: Compiled, options: Options) -> tuple[str, ...]:
    """Return how calls with arrays on a GPU run, in sentences."""
    why = obstacle(c.program)
    graph = f"from {FEWEST} launches on, repeated calls replay them as one CUDA graph"
    how = f"by the wrapper, launch by launch: {why}" if why else f"prepared for each shape; {graph}"
    order = "read where they are in row-major order, from a multiple of 16 bytes on"
    others = "others are copied first, each by one kernel on the GPU"
    some = f"; {others}" if why else ""
    said = f"calls with arrays on a GPU are {how}", f"inputs there are {order}{some}"
    return said if why else (*said, *strided_means(c, options))
