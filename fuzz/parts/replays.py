"""Calls that are recorded and repeated, on a GPU that is not there (``fuzz.gpu``).

A recording is drawn: launches with numbers of any size over parts of blocks, and copies.  Its
kernels add bytes, so that what a call must leave follows from its steps in their order, wherever
its blocks lie, on whatever stream it runs, and whether launch by launch or as a graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from didyma.codegen.runtime import driver
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.geometry import geometry, words
from didyma.codegen.runtime.prepared import FEWEST, KEPT, STREAMS, Prepared
from didyma.codegen.runtime.record import FIXED, Copied, Launched, Part, Recording, Result, Step
from didyma.fuzz.allocator.wrappers import LoopEngine
from didyma.fuzz.gpu import Gpu, Library
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.expr import ONE, index
from didyma.refimpl.ir.kernel import Signature
from didyma.refimpl.ir.types import Array, DType

ROOM, WORD = 96, 8  # bytes of a block, and those to whose multiples parts are aligned
SHARED = (16, 4096, 48 << 10)  # bytes that launches ask for
NUMBERS = (-5, -(1 << 40), 0, 7, (1 << 31) + 3, 1 << 33)  # sizes that launches are given
SCALARS = ((DType.F32, 2.5), (DType.I8, -3), (DType.U16, 40000), (DType.F64, -1.0))
# Errors of the driver, and the codes that tell of them.
ERRORS: Mapping[int, str] = {1: "launch-failed", 2: "too-large", 700: "device-lost"}


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with calls of a recording."""
    del engine
    gpu = Gpu(LoopEngine(), random=Random(r.randrange(1 << 30)))
    with mock.patch.object(driver, "library", return_value=Library(gpu)):
        yield from _Calls(r, gpu).judged()


class _Adds:
    """A kernel that adds the bytes of its buffers and numbers, and writes them to the last."""

    def launch(
        self,
        name: str,
        buffers: Sequence[Array],
        dims: Mapping[str, int],
        *,
        scalars: Sequence[Any],
    ) -> None:
        buffers[-1][:] = _added(name, buffers, [*dims.values()], scalars)


def _added(
    name: str, buffers: Sequence[Array], dims: Sequence[int], scalars: Sequence[Any]
) -> list[int]:
    """Return what a kernel writes to the last of its buffers; each place of a number counts."""
    total = sum(ord(c) for c in name) + sum(k * d % 251 for k, d in enumerate(dims, 3))
    total += sum(int(4 * float(x)) * k for k, x in enumerate(scalars, 5))
    rows = [b.tolist() for b in buffers]
    return [
        (total + sum(k * row[i % len(row)] for k, row in enumerate(rows, 1))) % 256
        for i in range(len(rows[-1]))
    ]


@dataclass
class _Calls:
    """A recording, and what has been called so far."""

    r: Random
    gpu: Gpu
    calls: dict[int, int] = field(default_factory=dict[int, int])

    def judged(self) -> Iterator[str]:
        r, gpu = self.r, self.gpu
        self.fixed = gpu.allocate(ROOM)
        gpu.bytes(self.fixed, ROOM)[:] = [r.randrange(256) for _ in range(ROOM)]
        self.recording = self._drawn()
        names = [s.signature.name for s in self.recording.steps if isinstance(s, Launched)]
        found = {s.signature.name: s.signature for s in self._launched()}
        handles = {n: gpu.handle((_Adds(), found[n])) for n in dict.fromkeys(names)}
        early, graphs = r.random() < 0.3, r.random() < 0.8
        self.shared = {n: r.choice(SHARED) for n in found if r.random() < 0.5}
        prepared = Prepared(self.recording, handles, self.shared, graphs=graphs, early=early)
        count = self.recording.inputs + 1 + len(self.recording.results)
        many = r.random() < 0.05
        streams = [16 * k for k in range(STREAMS + 2)] if many else r.choice(([0, 0x500], [0x500]))
        places = [[gpu.allocate(ROOM) for _ in range(r.choice((1, 2, 3)))] for _ in range(count)]
        calls = 3 * KEPT if len(streams) == 1 else r.choice((3, 5, 8))  # more than graphs are kept
        for number in range(3 * STREAMS if many else calls):
            blocks = tuple(map(r.choice, places))
            wrong = next(self._call(prepared, blocks, r.choice(streams), graphs), "")
            if wrong:
                yield f"call {number + 1}: {wrong}"
            if wrong or gpu.lost:
                return

    def _launched(self) -> list[Launched]:
        return [s for s in self.recording.steps if isinstance(s, Launched)]

    def _drawn(self) -> Recording:
        r = self.r
        inputs, results = r.randint(1, 2), r.randint(1, 2)
        steps = list[Step]()
        launches = r.choice((1, 2, FEWEST - 1, FEWEST, FEWEST + 1, FEWEST + 3))
        for n in range(launches):
            if r.random() < 0.05:
                steps.append(self._copied(inputs, results))
            steps.append(self._launch(n, inputs, results, steps))
        steps += [self._copied(inputs, results) for _ in range(r.choice((0, 0, 1, 2)))]
        told = tuple(Result(Part(inputs + 1 + k, 0, ROOM), DType.U8, (ROOM,))
                     for k in range(results))  # fmt: skip
        return Recording(inputs, ROOM, tuple(steps), told)

    def _part(self, blocks: Sequence[int], nbytes: int) -> Part:
        block = self.r.choice(blocks)
        at = WORD * self.r.randrange((ROOM - nbytes) // WORD + 1)
        return Part(block, at + (self.fixed if block == FIXED else 0), nbytes)

    def _copied(self, inputs: int, results: int) -> Copied:
        written = range(inputs, inputs + 1 + results)
        target = self._part(written, 16)
        source = self._part([FIXED, *range(inputs + 1 + results)], 16)
        while source.meets(target):
            source = self._part([FIXED, *range(inputs + 1 + results)], 16)
        return Copied(target, source)

    def _launch(self, number: int, inputs: int, results: int, before: Sequence[Step]) -> Launched:
        r = self.r
        every = [FIXED, *range(inputs + 1 + results)]
        args = [self._part(every, WORD * r.randint(1, 3)) for _ in range(r.randint(0, 2))]
        out = self._part(range(inputs, inputs + 1 + results), WORD * r.randint(1, 4))
        args = [p for p in args if p == out or not p.meets(out)]
        args.append(out)
        dims = tuple(r.sample("nmkl", r.randint(0, 3)))
        scalars = [r.choice(SCALARS) for _ in range(r.choice((0, 0, 1, 2)))]
        names = [(f"b{k}", DType.U8) for k in range(len(args))]
        grid = index(r.randint(1, 3)), index(r.randint(1, 2)), ONE
        s = Signature(
            f"k{number}", tuple(names), tuple(index(p.nbytes) for p in args), (names[-1][0],),
            dims, grid, (r.choice((1, 32)), r.choice((1, 2)), 1),
            tuple((f"s{k}", t) for k, (t, _) in enumerate(scalars)),
        )  # fmt: skip
        env = {d: r.choice(NUMBERS) for d in dims}
        waits = {i for i, s in enumerate(before) if any(p.meets(q) for p in args for q in s.parts)}
        waits |= {i for i in range(len(before)) if r.random() < 0.1}
        launches = tuple(i for i in sorted(waits) if isinstance(before[i], Launched))
        given = tuple(words(s, [x for _, x in scalars]))
        return Launched(s, geometry(s, env), tuple(args), given, launches, number)

    def _call(
        self, p: Prepared, blocks: tuple[int, ...], stream: int, graphs: bool
    ) -> Iterator[str]:
        r, gpu = self.r, self.gpu
        held = dict[int, Array]()
        for k, address in enumerate(blocks):
            memory = gpu.bytes(address, ROOM)
            memory[:] = [r.randrange(256) for _ in range(ROOM)]
            held[k] = memory.copy()
        want = self._meant(held)
        gpu.captured = r.random() < 0.1
        started = self._started(stream, graphs)
        gpu.log.clear()
        gpu.shared.clear()
        told = r.choice((None, gpu.captured))
        if r.random() < 0.05:
            error = r.choice([*ERRORS])
            name = "cuGraphLaunch" if "graph" in started else "cuLaunchKernel"
            gpu.fails = {n: [error] for n in (name, f"{name}Ex")}
            code = code_of(lambda: p.run(blocks, stream, captured=told))
            gpu.fails = {}
            if "graph" in started:  # it is forgotten, and so are the calls before
                self.calls[stream] = 0
            yield from differ(code, ERRORS[error], f"error {error} of {name}")
            return
        p.run(blocks, stream, captured=told)
        log = [(n, at) for n, at in gpu.log if n not in ("made", "early", "early edge")]
        yield from differ(log, [(n, stream) for n in started], "what is started")
        room = sorted(self.shared.get(s.signature.name, 0) for s in self._launched())
        yield from differ(sorted(gpu.shared), room, "the shared memory of launches")
        for k, address in enumerate(blocks):
            got = gpu.bytes(address, ROOM).tolist()
            yield from differ(got, want[k].tolist(), f"block {k} after {self.recording.steps}")

    def _meant(self, held: Mapping[int, Array]) -> dict[int, Array]:
        """Return what blocks hold after the steps, one by one."""
        known = {k: a.copy() for k, a in held.items()}
        known[FIXED] = self.gpu.bytes(self.fixed, ROOM).copy()

        def of(p: Part) -> Array:
            first = p.offset - (self.fixed if p.block == FIXED else 0)
            return known[p.block][first : first + p.nbytes]

        for s in self.recording.steps:
            if isinstance(s, Copied):
                of(s.target)[:] = of(s.source)
                continue
            scalars = [
                np.frombuffer(w.to_bytes(8, "little"), t.numpy, 1)[0]
                for w, (_, t) in zip(s.scalars, s.signature.scalars, strict=True)
            ]
            rows = [of(a) for a in s.args]
            of(s.args[-1])[:] = _added(s.signature.name, rows, s.geometry.dims, scalars)
        return known

    def _started(self, stream: int, graphs: bool) -> list[str]:
        """Return what a call has to start: a graph from the third call on a stream on."""
        if stream not in self.calls and len(self.calls) == STREAMS:
            self.calls.clear()
        calls = self.calls[stream] = self.calls.get(stream, 0) + 1
        steps = self.recording.steps
        each = [s.signature.name if isinstance(s, Launched) else "copy" for s in steps]
        count = len(self._launched())
        whole = "copy" not in each[:count] and count >= FEWEST
        if calls <= 2 or self.gpu.captured or not whole or not graphs:
            return each
        return ["graph", *each[count:]]
