"""The engine: kernel text to PTX by NVRTC, whose instructions are then run and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from didyma.codegen.emit.dynamic import placed
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.geometry import (
    check_buffers,
    geometry,
    located,
    signature,
    words,
)
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.ptx.code import Module
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Launch, Pointer, Region, Value, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.maps import described
from didyma.codegen.runtime.ptx.meaning import HEADER, Meaning
from didyma.codegen.runtime.ptx.memory import UNIT
from didyma.codegen.runtime.ptx.text import parse
from didyma.codegen.runtime.ptx.units import OPAQUE, WIDTH, made, payloads_of, width_of
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.target import PORTABLE, SM_80, SM_90A, Target
from didyma.refimpl.ir.types import Array, DType, from_memory, nbytes_of, to_memory
from didyma.refimpl.ops.ring import UNKNOWN

_ARCHITECTURE = "compute_90a"
_POISON = 0xFF
_ALONE = frozenset(("same-value",))  # what is worth a note, and no fault


@dataclass(slots=True)
class PtxBuffer:
    """Bytes, and which of them were written; a view shares those of ``root``.

    In the ring it has units, of two bytes each.
    """

    data: Array
    written: Array
    root: int
    offset: int = 0
    units: Array = field(default_factory=lambda: np.zeros(0, UNIT))

    @property
    def nbytes(self) -> int:
        """The bytes that the buffer has."""
        return int(self.data.size)


class Ptx:
    """Engine ``ptx``.  EngineMissing where there is no NVRTC.

    ``schedule`` chooses which warps go first.  In the ``ring`` floats have payloads: arrays that
    are uploaded may then be records of values and payloads (``refimpl.interp.scalar_ring``), and
    those that are downloaded are such records.  Values are those of kernels without the ring;
    payloads come of another run, of text in which functions of the device's library are calls.
    """

    name = "ptx"
    targets: tuple[Target, ...] = (PORTABLE, SM_80, SM_90A)

    def __init__(self, schedule: int = 0, *, ring: bool = False) -> None:
        self._compiler = NvrtcCompiler(_ARCHITECTURE)
        self._in_ring = NvrtcCompiler(_ARCHITECTURE, HEADER) if ring else None
        self._schedule = schedule
        self._roots = 0

    def load(self, text: KernelText) -> PtxLoaded:
        """Compile kernel text to PTX; DidymaError ``kernel-text`` with the line at fault."""
        ring = parse(self._in_ring.virtual(text)) if self._in_ring else None
        return PtxLoaded(text, parse(self._compiler.virtual(text)), self._schedule, ring)

    def _buffer(self, data: Array, written: bool) -> PtxBuffer:
        self._roots += 1
        marks = np.zeros(-(-data.size // WIDTH) if self._in_ring else 0, UNIT)
        return PtxBuffer(data, np.full(data.size, written, np.bool_), self._roots, units=marks)

    def allocate(self, nbytes: int) -> PtxBuffer:
        """Return uninitialised bytes."""
        return self._buffer(np.full(nbytes, _POISON, np.uint8), False)

    def free(self, buffer: PtxBuffer) -> None:
        """Mark the bytes as uninitialised."""
        buffer.written[:] = False

    def view(self, buffer: PtxBuffer, offset: int, nbytes: int) -> PtxBuffer:
        """Return a part of a buffer, sharing its bytes."""
        part = slice(offset, offset + nbytes)
        marks = buffer.units[offset // WIDTH : -(-(offset + nbytes) // WIDTH)]
        return PtxBuffer(
            buffer.data[part], buffer.written[part], buffer.root, buffer.offset + offset, marks
        )

    def upload(self, array: Array) -> PtxBuffer:
        """Return a buffer with the array's bytes, packed where its dtype is."""
        raw = np.ascontiguousarray(to_memory(scalar_ring.value_of(array))).tobytes()
        buffer = self._buffer(np.frombuffer(raw, np.uint8).copy(), True)
        if array.dtype.names and array.size and (each := width_of(DType.of(array["value"]))):
            p = np.ascontiguousarray(array["payload"]).reshape(-1, 1)
            buffer.units[: p.size * each] = made(p, DType.of(array["value"])).reshape(-1)
        return buffer

    def download(self, buffer: PtxBuffer, dtype: str, shape: Sequence[int]) -> Array:
        """Copy a buffer's first bytes out as an array."""
        kind = DType(dtype)
        values = from_memory(buffer.data[: nbytes_of(kind, shape)], kind, shape).copy()
        if not self._in_ring or not kind.is_float or kind.is_packed:
            return values
        return np.asarray(scalar_ring.joined(values, payloads_of(values, buffer.units)))

    def copy(self, target: PtxBuffer, source: PtxBuffer) -> None:
        """Copy all bytes of ``source`` over the start of ``target``."""
        target.data[: source.nbytes] = source.data
        target.written[: source.nbytes] = source.written
        target.units[: source.units.size] = source.units

    def in_ring(self) -> Ptx:
        """Return the engine that computes in the ring."""
        return Ptx(self._schedule, ring=True)

    def forget(self, buffer: PtxBuffer) -> None:
        """Make payloads of a buffer unknown, which something else than a kernel has written."""
        buffer.units["payload"], buffer.units["part"] = UNKNOWN, OPAQUE

    def stack(self, nbytes: int) -> PtxBuffer:
        """Allocate."""
        return self.allocate(nbytes)

    def unstack(self, buffer: PtxBuffer) -> None:
        """Free."""
        self.free(buffer)

    def wait(self, stream: int, on: int) -> None:
        """Return at once: every launch has ended when it returns."""

    def join(self) -> None:
        """Return at once: every launch has ended when it returns."""


@dataclass(slots=True)
class PtxLoaded:
    """Kernels as PTX; each is compiled to functions of the machine at its first launch."""

    text: KernelText
    module: Module
    schedule: int = 0
    ring: Module | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict[str, Kernel])
    in_ring: dict[str, Kernel] = field(default_factory=dict[str, Kernel])

    def launch(
        self,
        kernel: str,
        buffers: Sequence[PtxBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run every block of a kernel; raises KernelFault with all that its checks saw."""
        del stream  # work is done when it is given
        s = signature(self.text, kernel)
        g = geometry(s, dims)
        check_buffers(s, g, [b.nbytes for b in buffers])
        if g.empty:
            return
        if kernel not in self.kernels:
            self.kernels[kernel] = Kernel(self.module, kernel)
            if self.ring is not None:
                self.in_ring[kernel] = Kernel(self.ring, kernel, Meaning())
        regions, places = _regions(s, buffers, g.nbytes)
        numbers = (*(d & 0xFFFF_FFFF_FFFF_FFFF for d in g.dims), *words(s, scalars))
        args: list[Value] = [*places, *(described(d, places[d.buffer]) for d in g.maps)]
        args += [n.to_bytes(8, "little") for n in numbers]
        shared = placed(self.text.source)[1].get(kernel, 0)
        shape = Shape(g.grid, s.block)
        if self.ring is not None:
            marked = [replace(r, data=r.data.copy(), written=r.written.copy()) for r in regions]
            try:
                launch(self.in_ring[kernel], shape, marked, args, shared, self.schedule)
            except DidymaError:  # the ring does not follow an instruction
                for m in marked:
                    m.units["payload"], m.units["part"] = UNKNOWN, OPAQUE
            for r, m in zip(regions, marked, strict=True):
                r.units = m.units
        done = launch(self.kernels[kernel], shape, regions, args, shared, self.schedule)
        for b, size, at in zip(buffers, g.nbytes, places, strict=True):
            part, r = slice(at.offset, at.offset + size), regions[at.region]
            b.data[:size], b.written[:size] = r.data[part], r.written[part]
            if self.ring is not None:
                marks = r.units[at.offset // WIDTH : -(-(at.offset + size) // WIDTH)]
                b.units[: marks.size] = marks
        if faults := list(self._faults(kernel, done)):
            raise KernelFault(faults)

    def _faults(self, kernel: str, done: Launch) -> list[Fault]:
        k = done.kernel
        found: list[Fault] = []
        for r in done.reports.values():
            loc = k.program.instrs[r.pc].loc
            other = f" at {k.line(r.other)}" if r.other >= 0 else ""
            fault = Fault(
                r.kind, kernel, f"{r.detail}{other} ({r.lanes} threads)", loc.line if loc else 0
            )
            if r.kind not in _ALONE:
                found.append(located(fault, self.text) if loc else replace(fault, line=0))
        return found


def _regions(
    s: Signature, buffers: Sequence[PtxBuffer], nbytes: Sequence[int]
) -> tuple[list[Region], list[Pointer]]:
    """Return the bytes that a launch uses: a region for each buffer, or for those that overlap."""
    order = sorted(range(len(buffers)), key=lambda k: (buffers[k].root, buffers[k].offset))
    regions: list[Region] = []
    places = [Pointer(0)] * len(buffers)
    last, begin, end = -1, 0, 0
    for k in order:
        b, size, name = buffers[k], nbytes[k], f"buffer {s.buffers[k][0]}"
        if b.root == last and b.offset < end:
            more = max(0, b.offset + size - end)
            r = regions[-1]
            if more:
                r.data = np.concatenate([r.data, b.data[size - more : size]])
                r.written = np.concatenate([r.written, b.written[size - more : size]])
                first = (size - more) // WIDTH
                r.units = np.concatenate([r.units, b.units[first : -(-size // WIDTH)]])
            end += more
        else:
            r = Region(name, b.data[:size].copy(), b.written[:size].copy())
            r.units = b.units[: -(-size // WIDTH)].copy()
            regions.append(r)
            last, begin, end = b.root, b.offset, b.offset + size
        places[k] = Pointer(len(regions) - 1, b.offset - begin)
    return regions, places
