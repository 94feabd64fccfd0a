"""Calls of a module on a GPU as CUDA graphs: what a call launches is launched again as one.

The second call with inputs of some shapes is captured rather than run: a program that reads a value
to decide what comes next cannot be.  A graph has memory of its own for inputs, results and all
between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .checks import taken
from .cuda import CAPTURED, Buffer, Cuda, Kernels
from .dtypes import Array, dtype_of, from_memory, nbytes_of, to_memory
from .recorder import Row
from .rows import lent, row

# The shape and the dtype of an input, and its strides where it is to be read as it lies.
Lies = tuple[tuple[int, ...], Any, tuple[int, ...] | None]
Key = Sequence[Lies]


class Unsound(Exception):
    """A call does what no graph can repeat."""


class Capture:
    """Engine and kernels of one call, as a module's ``run`` uses them, that launches nothing.

    What is freed stays: work of several streams is ordered in the graph alone.
    """

    replays = False

    def __init__(self, engine: Cuda, kernels: Kernels, given: Sequence[Array]) -> None:
        self._engine, self._kernels, self.name = engine, kernels, engine.name
        self._inputs = {id(a): i for i, a in enumerate(given)}
        self.inputs: dict[int, tuple[Buffer, Row | None]] = {}
        self.results: list[tuple[Buffer, str, Array]] = []
        self.kept: list[Buffer] = []
        self._streams: set[int] = set()

    @property
    def table(self) -> Any:
        """How kernels are launched, by their names."""
        return self._kernels.table

    @property
    def reads(self) -> Any:
        """What reads values to decide by."""
        raise Unsound

    def current(self) -> AbstractContextManager[None]:
        """As ``Cuda.current``."""
        return self._engine.current()

    def allocate(self, nbytes: int) -> Buffer:
        """Return bytes that nobody else has while the graph lives."""
        made = self._engine.fresh(nbytes)
        self.kept.append(made)
        return made

    stack = allocate

    def free(self, buffer: Buffer) -> None:
        """Keep the bytes."""

    unstack = free

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """As ``Cuda.view``."""
        return self._engine.view(buffer, offset, nbytes)

    def upload(self, array: Array) -> Buffer:
        """Return where calls will put an input."""
        of = lent(array)
        number = self._inputs.get(id(of[0] if of else array))
        if number is None or number in self.inputs:
            raise Unsound
        made = self.allocate(to_memory(array).nbytes)
        self.inputs[number] = made, Row(of[1], array.size) if of else None
        return made

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """Return an array that stands for a result."""
        made: Array = np.empty(tuple(shape), dtype_of(dtype))
        self.results.append((buffer, dtype, made))
        return made

    def copy(self, target: Buffer, source: Buffer) -> None:
        """Capture a copy."""
        self._engine.copy_later(target, source, CAPTURED)

    def wait(self, stream: int, on: int) -> None:
        """Capture that a stream waits for another."""
        self._enter(stream)
        self._enter(on)
        self._engine.wait(stream or CAPTURED, on or CAPTURED)

    def join(self) -> None:
        """Capture that all streams wait for one another."""
        for stream in self._streams:
            self._engine.wait(CAPTURED, stream)
        self._streams.clear()  # the next work of each begins after that

    def _enter(self, stream: int) -> None:
        """Let the work of a stream begin after what was captured before."""
        if stream and stream not in self._streams:
            self._streams.add(stream)
            self._engine.wait(stream, CAPTURED)

    def launch(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """Capture a launch."""
        self._enter(stream)
        self._kernels.launch(kernel, buffers, sizes, stream or CAPTURED)


class Graph:
    """A call that was captured, of inputs of some shapes and dtypes."""

    def __init__(self, key: Key, engine: Cuda, capture: Capture, handle: Any) -> None:
        self._key, self._engine, self._capture = list(key), engine, capture
        self._handle = handle

    def replay(self, args: list[Any]) -> list[Array] | None:
        """Return the results for a list of inputs, which is emptied; None for other inputs."""
        if len(args) != len(self._key):
            return None
        for a, (shape, dtype, strides) in zip(args, self._key, strict=True):
            if type(a) is not np.ndarray or a.shape != shape or a.dtype != dtype:
                return None
            if strides is not None and a.strides != strides:
                return None
        given = taken(args)
        with self._engine.current():
            for i, (buffer, lies) in self._capture.inputs.items():
                array = given[i] if lies is None else row(given[i], lies.span, lies.before)
                self._engine.put(buffer, array, CAPTURED)
            self._engine.run_graph(self._handle)
            raw = [
                self._engine.take(b, nbytes_of(dtype, a.shape), CAPTURED)
                for b, dtype, a in self._capture.results
            ]
            self._engine.synchronize(CAPTURED)
        rows = zip(raw, self._capture.results, strict=True)
        return [from_memory(r, dtype, a.shape) for r, (_, dtype, a) in rows]


def captured(
    run: Any, key: Key, engine: Cuda, kernels: Kernels, given: Sequence[Array], weights: Any
) -> Graph | None:
    """Return a call of a module's ``run`` as a graph; None where it cannot be one."""
    capture = Capture(engine, kernels, given)
    engine.begin_capture()
    sound, results = True, list[Any]()
    try:
        results = run(capture, list(given), capture, weights, {})
    except Unsound:
        sound = False
    finally:
        handle = engine.end_capture()
    same = [id(r) for r in results] == [id(a) for _, _, a in capture.results]
    if not (sound and same and handle):
        return None
    return Graph(key, engine, capture, engine.instantiated(handle))
