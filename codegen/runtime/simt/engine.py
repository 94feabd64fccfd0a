"""The engine: loads text, launches blocks in batches, collects what the checks saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.emit import subset
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.intrinsics import functions, table
from didyma.codegen.runtime.didyma_runtime.maps import WORDS, Described
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.geometry import (
    Geometry,
    check_buffers,
    geometry,
    located,
    numbers,
    signature,
)
from didyma.codegen.runtime.simt.access import MOST_ROUNDS, Run, Traffic, ended
from didyma.codegen.runtime.simt.control import Exec, StoppedError
from didyma.codegen.runtime.simt.copies import STORE
from didyma.codegen.runtime.simt.fences import Fences
from didyma.codegen.runtime.simt.in_ring import InRing
from didyma.codegen.runtime.simt.machine import Translator
from didyma.codegen.runtime.simt.meets import Box, Walk
from didyma.codegen.runtime.simt.memory import LaneArray, SimtBuffer, Warps
from didyma.codegen.runtime.simt.values import NUMPY, Arithmetic, Plain
from didyma.refimpl.interp import scalar, scalar_ring
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.target import CPU, PORTABLE, SM_80, SM_90A, Target
from didyma.refimpl.ir.types import Array, DType, from_memory, nbytes_of, to_memory
from didyma.refimpl.ops.ring import UNKNOWN

_BATCH = 1 << 15  # lanes that run together; whole blocks, at least one


@dataclass(slots=True)
class _Reports:
    """Faults by kind and line: the first detail, and how many lanes in all."""

    kernel: str
    seen: dict[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict[tuple[str, int], tuple[str, int]]
    )

    def add(self, kind: str, detail: str, lanes: int, line: int) -> None:
        first, count = self.seen.get((kind, line), (detail, 0))
        self.seen[kind, line] = first, count + lanes

    def faults(self, text: KernelText) -> list[Fault]:
        return [
            located(Fault(kind, self.kernel, f"{detail} ({count} threads)", line), text)
            for (kind, line), (detail, count) in self.seen.items()
        ]


@dataclass(frozen=True, slots=True)
class _Before:
    """What memory held, and what had been counted, before a launch."""

    memory: tuple[tuple[Array, Array], ...]
    counts: tuple[tuple[Counter[Any], Counter[Any]], ...]

    @staticmethod
    def of(buffers: Sequence[SimtBuffer], traffic: Traffic | None) -> _Before:
        arrays = (a for b in buffers for a in (b.data, b.written, b.payloads) if a is not None)
        counters = [getattr(traffic, f.name) for f in fields(Traffic)] if traffic else []
        return _Before(tuple((a, a.copy()) for a in arrays), tuple((c, c.copy()) for c in counters))

    def restore(self) -> None:
        for array, old in self.memory:
            array[:] = old
        for counter, count in self.counts:
            counter.clear()
            counter.update(count)


@dataclass(slots=True)
class SimtKernels:
    """Kernel text, parsed once; a kernel is compiled at its first launch."""

    text: KernelText
    arithmetic: Arithmetic = field(default_factory=Plain)
    blocks: int | None = None
    traffic: Traffic | None = None
    exact: bool = False
    rounds: int = MOST_ROUNDS
    ends: bool = False
    compiled: dict[str, tuple[Exec, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[Exec, tuple[str, ...]]]
    )
    parsed: dict[str, subset.Function] = field(default_factory=dict[str, subset.Function])
    waiting: set[str] = field(default_factory=set[str])  # whose groups of threads run in turn
    read: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # constant arrays

    def _kernel(self, name: str) -> tuple[Exec, tuple[str, ...]]:
        if not self.parsed:
            self.parsed = {f.name: f for f in subset.functions(self.text.source)}
        if name not in self.compiled:
            function = self.parsed[name]
            translator = self._translator(function.above)
            self.compiled[name] = translator.function(function.tree)
            self.read[name] = {
                p.name
                for p in function.tree.decl.type.args.params
                if isinstance(p.type, c.PtrDecl) and "const" in p.type.type.quals
            }
            if translator.in_turn:
                self.waiting.add(name)
        return self.compiled[name]

    def _translator(self, above: int) -> Translator:
        more = self.text.intrinsics
        meaning = scalar_ring if isinstance(self.arithmetic, InRing) else scalar
        known = functions(more, meaning.intrinsic_fn)
        counting = self.traffic is not None
        return Translator(
            self.arithmetic, table(more), known, counting, self.exact, self.ends, above
        )

    def launch(
        self,
        kernel: str,
        buffers: Sequence[SimtBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run every block of a kernel; raises KernelFault with all that its checks saw.

        Blocks of a batch run in step, so one that waits within a loop holds up another that has
        left the loop.  A kernel that seems to hang runs again from the start, block by block.
        """
        del stream  # work is done when it is given
        s = signature(self.text, kernel)
        g = geometry(s, dims)
        check_buffers(s, g, tuple(b.nbytes for b in buffers))
        if g.empty:
            return
        _, params = self._kernel(kernel)
        before = None
        if kernel in self.waiting:
            named = zip(params, buffers, strict=False)
            written = [b for name, b in named if name not in self.read[kernel]]
            before = _Before.of(written, self.traffic)
        try:
            self._launch(kernel, s, g, buffers, scalars, _BATCH)
        except KernelFault as e:
            if before is None or all(f.kind != "hang" for f in e.faults):
                raise
            before.restore()
            self._launch(kernel, s, g, buffers, scalars, 1)

    def _launch(
        self,
        kernel: str,
        s: Signature,
        g: Geometry,
        buffers: Sequence[SimtBuffer],
        scalars: Sequence[float],
        lanes: int,
    ) -> None:
        """Run blocks in batches of so many lanes or a cluster; of one lane, until a batch hangs."""
        body, params = self._kernel(kernel)
        reports = _Reports(kernel)
        arrays = {
            name: _memory(name, dtype, b, size, name_in_ir in s.outputs)
            for name, (name_in_ir, dtype), b, size in zip(
                params, s.buffers, buffers, g.nbytes, strict=False
            )
        }
        convert = self.arithmetic.converter
        pairs = zip(s.scalars, numbers(s, scalars), strict=True)
        given = [convert(c_type(d))(x) for (_, d), x in pairs]
        values = [*map(np.int64, g.dims), *given]
        described = dict(zip(params[len(buffers) :], g.maps, strict=False))
        boxes = {name: _box(arrays[params[d.buffer]], d) for name, d in described.items()}
        arrays |= {name: _words(name) for name in described}
        variables = dict(zip(params[len(buffers) + len(boxes) :], values, strict=True))
        threads = s.block[0] * s.block[1] * s.block[2]
        total = g.grid[0] * g.grid[1] * g.grid[2]
        longest, fences = 0, Fences()
        with np.errstate(all="ignore"):
            step = max(1, lanes // (threads * s.cluster)) * s.cluster
            for first, count in _batches(total, step, self.blocks, s.cluster):
                warps = Warps(first, count, threads, s.cluster, fences)
                run = Run(
                    warps, _axes(warps, s, g), dict(variables), dict(arrays), reports.add,
                    traffic=self.traffic, rounds=self.rounds, boxes=boxes,
                )  # fmt: skip
                run.kernel = kernel
                try:
                    body(run, None)
                    ended(run, 0)
                except StoppedError as e:
                    reports.add(*e.args)
                for c in run.copies.left(STORE):
                    detail = f"the block ends before a wait for {c.name}, which reads shared memory"
                    reports.add("unwaited", detail, len(c.moved[0].who), c.line)
                run.copies.end(warps)
                if self.traffic is not None:
                    self.traffic.statements[kernel] += int(run.steps.sum())
                    self.traffic.blocks[kernel] += count
                    longest = max(longest, int(run.steps.max()))
                if lanes == 1 and any(kind == "hang" for kind, _ in reports.seen):
                    break
        if self.traffic is not None:
            self.traffic.launches[kernel] += 1
            self.traffic.longest[kernel] += longest
        for (name_in_ir, dtype), b in zip(s.buffers, buffers, strict=True):
            if name_in_ir not in s.outputs:
                continue
            if self.ends or (self.blocks is not None and total > self.blocks):
                b.written[:] = True
            else:
                _spread(b.written, dtype.nbytes)
        if reports.seen:
            raise KernelFault(reports.faults(self.text))


def _batches(
    total: int, step: int, most: int | None, cluster: int = 1
) -> Iterator[tuple[int, int]]:
    """Yield the first block and the number of blocks of each batch that runs.

    Of more than ``most`` blocks, half that many run from each end of the grid; whole clusters do.

    >>> list(_batches(10, 3, None)), list(_batches(10, 3, 4))
    ([(0, 3), (3, 3), (6, 3), (9, 1)], [(0, 2), (8, 2)])
    """
    few = most is not None and total > most
    ends = [(0, total)]
    if few and most:
        half = -(-most // (2 * cluster)) * cluster
        last = most // (2 * cluster) * cluster
        ends = [(0, (most + 1) // 2), (total - most // 2, total)]
        if cluster > 1:
            ends = [(0, min(half, total)), (max(half, total - last), total)]
    for begin, end in ends:
        for first in range(begin, end, step):
            yield first, min(step, end - first)


def _memory(name: str, dtype: DType, b: SimtBuffer, nbytes: int, written: bool) -> LaneArray:
    """View bytes as elements; an element counts as written when its first byte is."""
    in_ring = b.payloads is not None and dtype.is_float
    t = dtype.numpy if in_ring else NUMPY[c_type(dtype)]
    data = b.data[:nbytes].view(t)
    whole = bool(b.written[:nbytes].all())
    elements = None if whole else b.written[: nbytes : t.itemsize]
    payloads = b.payloads[: nbytes : t.itemsize] if b.payloads is not None and in_ring else None
    return LaneArray(name, "global", data, data.size, elements, written, payloads)


def _box(array: LaneArray, d: Described) -> Box:
    extents, steps = (d.x, d.y, d.z), (1, d.near, d.far)
    if not d.images:
        return Box(array, d.offset, extents, steps, d.rows)
    walk = Walk((d.left, d.top), (d.right, d.bottom), (d.across, d.down))
    return Box(array, d.offset, (*extents, d.images), (*steps, d.step), d.rows, walk)


def _words(name: str) -> LaneArray:
    """Return the words of a tensor map, which only copies of boxes read."""
    return LaneArray(name, "const", np.zeros(WORDS, np.uint64), WORDS, None, False)


def _axes(w: Warps, s: Signature, g: Geometry) -> dict[tuple[str, str], Array]:
    thread = (w.lane % w.threads).astype(np.uint32)
    block = (w.lane // w.threads).astype(np.uint32)
    bx, by, _ = s.block
    gx, gy, _ = g.grid
    found = {
        ("threadIdx", "x"): thread % bx,
        ("threadIdx", "y"): thread // bx % by,
        ("threadIdx", "z"): thread // (bx * by),
        ("blockIdx", "x"): block % gx,
        ("blockIdx", "y"): block // gx % gy,
        ("blockIdx", "z"): block // (gx * gy),
    }
    for axis, i in zip("xyz", range(3), strict=True):
        found["blockDim", axis] = np.asarray(s.block[i], np.uint32)
        found["gridDim", axis] = np.asarray(g.grid[i], np.uint32)
    return found


def _spread(written: Array, itemsize: int) -> None:
    """Let the bytes of an element follow its first, which a store has marked."""
    elements = written[: written.size // itemsize * itemsize].reshape(-1, itemsize)
    elements[:] = elements[:, :1]


@dataclass(slots=True)
class Simt:
    """Pure NumPy: out of bounds, uninitialised reads, races and barrier divergence are faults.

    In the ``ring`` every float has a payload besides.  Arrays that are uploaded may then be records
    of both (``refimpl.interp.scalar_ring``); floats that are downloaded are such records.

    Of a grid with more than ``blocks`` blocks, only that many run, from both of its ends.  Its
    outputs then count as written, as they do with ``ends``: of long loops in which threads wait for
    each other, only the first and last rounds run (``leaps``).

    ``traffic``, if given, counts what kernels load, store and execute.

    If ``exact``, a sum, difference or product of signed integers that overflows is a fault, since
    C does not say what it is; else it wraps.

    A loop hangs if its variables and the memory come again as they were, or after so many
    ``rounds``.
    """

    name: str = "simt"
    ring: bool = False
    targets: tuple[Target, ...] = (PORTABLE, CPU, SM_80, SM_90A)
    blocks: int | None = None
    traffic: Traffic | None = None
    exact: bool = False
    rounds: int = MOST_ROUNDS
    ends: bool = False

    def load(self, text: KernelText) -> SimtKernels:
        """Return kernels that are parsed at the first launch."""
        arithmetic = InRing() if self.ring else Plain()
        return SimtKernels(
            text, arithmetic, self.blocks, self.traffic, self.exact, self.rounds, self.ends
        )

    def allocate(self, nbytes: int) -> SimtBuffer:
        """Return uninitialised bytes."""
        payloads = np.full(nbytes, scalar_ring.POISON) if self.ring else None
        return SimtBuffer(np.full(nbytes, 0xFF, np.uint8), np.zeros(nbytes, np.bool_), payloads)

    def free(self, buffer: SimtBuffer) -> None:
        """Mark the bytes as uninitialised."""
        buffer.written[:] = False

    def view(self, buffer: SimtBuffer, offset: int, nbytes: int) -> SimtBuffer:
        """Part of a buffer, sharing its bytes."""
        return buffer.view(offset, nbytes)

    def upload(self, array: Array) -> SimtBuffer:
        """Return a buffer with the array's bytes, packed where its dtype is."""
        values = scalar_ring.value_of(array)
        data = np.array(to_memory(values), order="C").reshape(-1).view(np.uint8)
        buffer = SimtBuffer(data, np.ones(data.size, np.bool_))
        if self.ring:
            buffer.payloads = np.full(data.size, scalar_ring.POISON)
            dtype = DType.of(values)
            if dtype.is_float and not dtype.is_packed:
                with np.errstate(all="ignore"):
                    payloads = np.asarray(scalar_ring.payload_of(array))
                buffer.payloads[:: dtype.nbytes] = payloads.reshape(-1)
        return buffer

    def download(self, buffer: SimtBuffer, dtype: str, shape: Sequence[int]) -> Array:
        """Copy a buffer's first bytes out as an array."""
        kind = DType(dtype)
        values = from_memory(buffer.data[: nbytes_of(kind, shape)], kind, shape).copy()
        if buffer.payloads is None or not kind.is_float or kind.is_packed:
            return values
        payloads = buffer.payloads[: values.nbytes : kind.nbytes].reshape(values.shape)
        return np.asarray(scalar_ring.joined(values, payloads))

    def copy(self, target: SimtBuffer, source: SimtBuffer) -> None:
        """Copy all bytes of ``source`` over the start of ``target``."""
        target.data[: source.nbytes] = source.data
        target.written[: source.nbytes] = source.written
        if target.payloads is not None and source.payloads is not None:
            target.payloads[: source.nbytes] = source.payloads

    def another(self, number: int) -> Simt:
        """Return an engine of another device: like this one, with memory of its own."""
        del number
        return replace(self)

    def in_ring(self) -> Simt:
        """Return the engine that computes in the ring."""
        return replace(self, ring=True)

    def forget(self, buffer: SimtBuffer) -> None:
        """Make the payloads of a buffer UNKNOWN, which something else than a kernel has written."""
        if buffer.payloads is not None:
            buffer.payloads[:] = UNKNOWN

    def stack(self, nbytes: int) -> SimtBuffer:
        """Allocate."""
        return self.allocate(nbytes)

    def unstack(self, buffer: SimtBuffer) -> None:
        """Free."""
        self.free(buffer)

    def wait(self, stream: int, on: int) -> None:
        """Return at once: every launch has ended when it returns."""

    def join(self) -> None:
        """Return at once: every launch has ended when it returns."""
