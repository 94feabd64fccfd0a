"""Judge calls of planned programs that a recording repeats, as engine ``cuda`` repeats them.

A program's wrapper is recorded for each binding of its symbols, and the recordings are called in
turn on a GPU that is not there (``fuzz.gpu``): by other sizes, with other values and addresses, one
array as several inputs, on several streams, launch by launch and as graphs.  Each call must give
what the program without memory means, and leave inputs and results of earlier calls as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from didyma.codegen.emit import wrapper
from didyma.codegen.runtime import driver, modules
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.prepared import FEWEST, Prepared
from didyma.codegen.runtime.record import Copied, Launched, Step, obstacle, record
from didyma.fuzz.allocator import meaning
from didyma.fuzz.allocator.wrappers import FRESH, InterpretedKernels, LoopEngine
from didyma.fuzz.gpu import Gpu, Library
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.kernel import KernelText, Signature, loops
from didyma.refimpl.ir.loop import Binary, Buffer
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array

CALLS = (14, 4, 4)  # of programs in turn; the most use more addresses than graphs are kept for
STREAMS = (0, 0, 0x500)  # by their handles
AGAIN = 0.6  # the chance that an input, a result or scratch memory is where an earlier one was
ALIASED = 0.2  # the chance that an input is another one of its type
CAPTURED = 0.1  # the chance that a stream is being recorded


@dataclass(frozen=True, slots=True)
class _Weight:
    """A constant on the device."""

    address: int
    nbytes: int


@dataclass(slots=True)
class _Places:
    """Memory of the device by its size; ``kept`` is in use by what must stay as it is."""

    gpu: Gpu
    random: Random
    known: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    kept: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def take(self, nbytes: int) -> int:
        """Return the address of bytes that nobody uses, often of ones that were used before."""
        known = self.known.setdefault(nbytes, [])
        free = [a for a in known if a not in self.kept]
        if free and self.random.random() < AGAIN:
            return self.random.choice(free)
        known.append(address := self.gpu.allocate(nbytes))
        return address

    def keep(self, address: int, data: bytes) -> None:
        """Note what bytes hold; from now on nobody may write them."""
        if data:
            self.kept[address] = data

    def give(self) -> None:
        """Let some of what is kept be used for something else."""
        for address in [a for a in self.kept if self.random.random() < AGAIN]:
            del self.kept[address]

    def changed(self) -> bool:
        """Return whether somebody wrote what is kept."""
        return any(self.gpu.bytes(a, len(d)).tobytes() != d for a, d in self.kept.items())


def text_of(p: Program) -> KernelText:
    """Return the signatures of a program's kernels: no block where nothing is written."""

    def signature(name: str, params: Sequence[Buffer], outputs: Sequence[str]) -> Signature:
        sizes = [ix.of_dim(_numel(b)) for b in params]
        written = ix.add(*(n for b, n in zip(params, sizes, strict=True) if b.name in outputs))
        grid = Binary("min", written, ix.ONE), ix.ONE, ix.ONE
        told = tuple(v.name for v in p.kernel[name].dims)
        buffers = tuple((b.name, b.dtype) for b in params)
        return Signature(name, buffers, tuple(sizes), tuple(outputs), told, grid, (1, 1, 1))

    kernels = (signature(k.name, loops(k).params, k.outputs) for k in p.kernels)
    return KernelText("", tuple(kernels))


def _numel(b: Buffer) -> Dim:
    return dims.mul(1, *b.shape)


def unordered(steps: Sequence[Step]) -> Iterator[str]:
    """Yield each two steps that touch a byte which one of them writes, and that nothing orders.

    A launch comes after those that it names and all before these; a copy parts what is before it
    from what is after it.
    """
    before = list[set[int]]()
    for i, s in enumerate(steps):
        if isinstance(s, Copied):
            before.append({*range(i)})
            continue
        copies = [k for k in range(i) if isinstance(steps[k], Copied)]
        named = {*s.after, *copies[-1:]}
        before.append(named.union(*(before[k] for k in named)))
        for k in {*range(i)} - before[-1]:
            if _clash(steps[k], s) or _clash(s, steps[k]):
                yield f"step {i + 1} does not wait for step {k + 1}: {steps[k]} and {s}"


def _clash(s: Step, other: Step) -> bool:
    """Return whether a step writes a byte that another one touches."""
    written = (s.target,) if isinstance(s, Copied) else s.written
    return any(p.meets(q) for p in written for q in other.parts)


def judged(
    bare: Program, planned: Program, envs: Sequence[Mapping[str, int]], seed: int
) -> Iterator[str]:
    """Yield what is wrong with calls of a planned program that are repeated, if anything is.

    ``bare`` is the program without memory; ``envs`` are bindings of its symbols.
    """
    if not obstacle(planned):
        gpu = Gpu(LoopEngine(), random=Random(seed))
        with mock.patch.object(driver, "library", return_value=Library(gpu)):
            calls = _Calls(bare, planned, gpu, Random(seed))
            yield from calls.judged(envs, CALLS[seed % len(CALLS)])


class _Calls:
    """Calls of one program, each by what was recorded for the sizes of its inputs."""

    def __init__(self, bare: Program, planned: Program, gpu: Gpu, random: Random) -> None:
        self.bare, self.gpu, self.random = bare, gpu, random
        self.values = np.random.default_rng(random.randrange(1 << 32))
        self.text = text_of(planned)
        self.source = wrapper.emit(planned, self.text)
        self.run: Any = modules.module(self.source)["run"]
        self.places = _Places(gpu, random)
        self.calls: dict[tuple[int, int], int] = {}
        self.weights = [self._weight(t.data) for _, t in planned.constants]
        loaded = InterpretedKernels({k.name: loops(k) for k in planned.kernels})
        self.functions = {s.name: gpu.handle((loaded, s)) for s in self.text.kernels}

    def _weight(self, data: bytes) -> _Weight:
        address = self.places.take(len(data))
        self.gpu.bytes(address, len(data))[:] = np.frombuffer(data, np.uint8)
        self.places.keep(address, data)
        return _Weight(address, len(data))

    def judged(self, envs: Sequence[Mapping[str, int]], calls: int) -> Iterator[str]:
        ready = [self._prepared(env) for env in envs]
        weights = dict(self.places.kept)
        recorded = (unordered(p.recording.steps) for p in ready)
        if wrong := next(chain(*recorded, self._lines(ready)), ""):
            yield wrong
            return
        for number in range(calls):
            turn = self.random.randrange(len(envs))
            if wrong := next(self._call(envs[turn], ready[turn]), ""):
                yield f"call {number + 1}, sizes {dict(envs[turn])}: {wrong}"
                return
            self.places.give()
            self.places.kept |= weights

    def _prepared(self, env: Mapping[str, int]) -> Prepared:
        given = [DeviceArray(0, t.dtype, dims.values(t.shape, env), 0, None) for t in self._inputs]

        def run(engine: Any, inputs: list[Any], *, kernels: Any) -> list[Any]:
            out: list[Any] = self.run(engine, inputs, kernels, self.weights)
            return out

        return Prepared(record(run, self.text, given), self.functions, {}, graphs=True)

    @property
    def _inputs(self) -> list[Any]:
        return [self.bare.type[v] for v in self.bare.inputs]

    def _lines(self, ready: Sequence[Prepared]) -> Iterator[str]:
        """Yield where a launch names a line of the wrapper that does not launch its kernel."""
        lines = self.source.splitlines()
        for s in (s for p in ready for s in p.recording.steps if isinstance(s, Launched)):
            if f'"{s.signature.name}"' not in lines[s.line - 1]:
                yield f"{s.where} is {lines[s.line - 1].strip()}"

    def _call(self, env: Mapping[str, int], p: Prepared) -> Iterator[str]:
        given = self._given(env)
        want = meaning.run(self.bare, [a for a, _ in given], env)
        r = p.recording
        room, *out = map(self._filled, (r.scratch, *(a.nbytes for a in want)))
        for address in (room, *out):
            self.places.kept.pop(address, None)
        self.gpu.captured = self.random.random() < CAPTURED
        told = self.random.choice((None, self.gpu.captured))
        blocks, stream = (*(at for _, at in given), room, *out), self.random.choice(STREAMS)
        self.gpu.log.clear()
        p.run(blocks, stream, captured=told)
        started, wanted = [x for x, _ in self.gpu.log if x != "made"], self._started(p, stream)
        if started != wanted:
            yield f"{started} are started, and not {wanted}"
        for k, (a, at) in enumerate(zip(want, out, strict=True)):
            if self.gpu.bytes(at, a.nbytes).tobytes() != a.tobytes():
                yield f"result {k + 1} has other bytes"
        shapes = [(x.dtype.numpy, x.shape) for x in r.results]
        if shapes != [(a.dtype, a.shape) for a in want]:
            yield f"results of {shapes} are told"
        if self.places.changed():
            yield "an input, a constant or a result of an earlier call was written"
        for a, at in zip(want, out, strict=True):
            self.places.keep(at, a.tobytes())

    def _started(self, p: Prepared, stream: int) -> list[str]:
        """Return what a call has to start: a graph from the third call on a stream on."""
        steps = p.recording.steps
        each = [s.signature.name if isinstance(s, Launched) else "copy" for s in steps]
        calls = self.calls[id(p), stream] = self.calls.get((id(p), stream), 0) + 1
        kernels = [x for x in each if x != "copy"]
        whole = each[: len(kernels)] == kernels and len(kernels) >= FEWEST
        if calls <= 2 or self.gpu.captured or not whole:
            return each
        return ["graph", *each[len(kernels) :]]

    def _filled(self, nbytes: int) -> int:
        """Return the address of bytes that nobody else uses, and that hold no value."""
        address = self.places.take(nbytes)
        self.gpu.bytes(address, nbytes).fill(FRESH)
        self.places.keep(address, b"\0" * nbytes)
        return address

    def _given(self, env: Mapping[str, int]) -> list[tuple[Array, int]]:
        """Return inputs and where they lie."""
        found = list[tuple[Array, int]]()
        for t in self._inputs:
            shape = dims.values(t.shape, env)
            like = [x for x in found if x[0].shape == shape and x[0].dtype == t.dtype.numpy]
            if like and self.random.random() < ALIASED:
                found.append(self.random.choice(like))
                continue
            a = self.values.integers(0, 100, shape).astype(t.dtype.numpy)
            at = self.places.take(a.nbytes)
            self.gpu.bytes(at, a.nbytes)[:] = np.frombuffer(a.tobytes(), np.uint8)
            self.places.keep(at, a.tobytes())
            found.append((a, at))
        return found
