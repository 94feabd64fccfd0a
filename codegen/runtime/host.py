"""The CPU as an engine: kernel text compiled in process, block by block, threads as fibers.

It checks guard bytes around every buffer and every shared array, barriers that
not all threads of a block reach together, misaligned wide accesses.  A kernel that crashes or
hangs takes the process with it: run kernels that are not trusted in a child process.
"""

from __future__ import annotations

import copy
import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol, Self, TypeAlias

import numpy as np

from didyma.codegen.emit import prelude
from didyma.codegen.runtime.compiler import CCompiler
from didyma.codegen.runtime.didyma_runtime.host import ENTRY, Stage
from didyma.codegen.runtime.didyma_runtime.maps import NBYTES, WORDS, Described
from didyma.codegen.runtime.engine import Fault, KernelFault, Loaded
from didyma.codegen.runtime.geometry import (
    Geometries,
    check_buffers,
    located,
    signature,
    words,
)
from didyma.codegen.runtime.hosttext import KernelPart, assemble
from didyma.codegen.runtime.native import Native
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.program import ALIGNMENT
from didyma.refimpl.ir.target import CPU, PORTABLE, SM_80, SM_90A, Target
from didyma.refimpl.ir.types import Array, from_memory, nbytes_of, to_memory

Order: TypeAlias = Literal["forward", "reverse"] | int

GUARD = 64  # bytes on each side of a buffer
POISON = 0xFF  # fills fresh and freed memory: a NaN in every float type
_PATTERN = bytes(0x5B ^ i for i in range(GUARD))


class HostBuffer:
    """Bytes in this process, with guard bytes on both sides of the whole allocation."""

    __slots__ = ("address", "array", "live", "nbytes", "region", "root")

    def __init__(self, array: Array, address: int, root: HostBuffer | None = None) -> None:
        self.array = array
        self.address = address
        self.nbytes: int = array.nbytes
        self.live = True
        self.root: HostBuffer = root or self
        self.region: HostBuffer | None = None  # of a thread's stack, to be given back

    def guard(self) -> None:
        """Write the guard bytes of an allocation."""
        ctypes.memmove(self.address - GUARD, _PATTERN, GUARD)
        ctypes.memmove(self.address + self.nbytes, _PATTERN, GUARD)

    def overwritten(self) -> str:
        """Return a message on the first guard byte that has changed; empty if none has."""
        below = ctypes.string_at(self.address - GUARD, GUARD)
        above = ctypes.string_at(self.address + self.nbytes, GUARD)
        if above != _PATTERN:
            at = next(i for i in range(GUARD) if above[i] != _PATTERN[i])
            return f"byte {at} past its {self.nbytes} bytes was written"
        if below != _PATTERN:
            at = next(i for i in range(1, GUARD + 1) if below[-i] != _PATTERN[-i])
            return f"byte {at} before its start was written"
        return ""


class Host:
    """Engine ``host``.

    ``compiler`` is ``tcc``, in process, or the command of gcc or clang, whose output is kept in
    ``cache``, or an object.  ``order`` is that of threads in a block and of blocks in a grid; a
    number shuffles them by that seed.  A race shows as a difference between orders.
    """

    name = "host"
    targets: tuple[Target, ...] = (CPU, PORTABLE, SM_80, SM_90A)

    def __init__(
        self,
        compiler: str | CCompiler = "tcc",
        order: Order = "forward",
        cache: Path | None = None,
    ) -> None:
        if isinstance(compiler, CCompiler):
            self._compiler: _Compiles = compiler
        else:
            self._compiler = TinyCC() if compiler == "tcc" else CCompiler(compiler, cache)
        self.prelude = prelude.load("host")
        self.driver = (files(prelude) / "driver.c").read_text(encoding="utf-8")
        self._stage = _Stage(order)
        self._local = threading.local()

    def another(self, number: int) -> Self:
        """Return the engine of another device: like this one, with memory of its own."""
        del number
        made = copy.copy(self)
        made._local = threading.local()
        return made

    def load(self, text: KernelText) -> Loaded:
        """Compile kernel text; DidymaError ``kernel-text`` where it is not C."""
        unit, parts = assemble(text, self.prelude, self.driver)
        where = ", ".join(s.name for s in text.kernels)
        native = self._compiler.compile(unit, where, [f"launch_{s.name}__" for s in text.kernels])
        return HostLoaded(text, parts, native, self._stage)

    def allocate(self, nbytes: int) -> HostBuffer:
        """Return poisoned bytes between guard bytes."""
        buffer = fresh(nbytes)
        buffer.array.fill(POISON)
        return buffer

    def free(self, buffer: HostBuffer) -> None:
        """Poison an allocation and release it; KernelFault ``guard`` if its guard bytes changed."""
        assert buffer.root is buffer, "a view cannot be freed"
        assert buffer.live, "freed twice"
        buffer.live = False
        buffer.array.fill(POISON)
        if where := buffer.overwritten():
            raise KernelFault([Fault("guard", "", f"when a buffer was freed: {where}")])

    def view(self, buffer: HostBuffer, offset: int, nbytes: int) -> HostBuffer:
        """Return a part of a buffer; the guard bytes are those of the whole."""
        assert 0 <= offset <= offset + nbytes <= buffer.nbytes, "a view outside its buffer"
        part = buffer.array[offset : offset + nbytes]
        return HostBuffer(part, buffer.address + offset, buffer.root)

    def upload(self, array: Array) -> HostBuffer:
        """Return a new buffer with the array's bytes, packed where its dtype is."""
        array = to_memory(array)
        buffer = fresh(array.nbytes)
        buffer.array.view(array.dtype).reshape(array.shape)[...] = array  # whatever its strides
        return buffer

    def download(self, buffer: HostBuffer, dtype: str, shape: Sequence[int]) -> Array:
        """Copy a buffer's first bytes out as an array."""
        nbytes = nbytes_of(dtype, shape)
        assert nbytes <= buffer.nbytes, "a download of more than there is"
        return from_memory(buffer.array[:nbytes], dtype, shape).copy()

    def copy(self, target: HostBuffer, source: HostBuffer) -> None:
        """Copy all bytes of ``source`` over the start of ``target``."""
        assert source.nbytes <= target.nbytes, "a copy into less than it needs"
        target.array[: source.nbytes] = source.array

    def stack(self, nbytes: int) -> HostBuffer:
        """Return poisoned bytes of a region from this thread's pool."""
        assert nbytes <= PORTABLE.stack, "too much for the stack"
        regions = self._regions()
        region = regions.pop() if regions else fresh(PORTABLE.stack)
        buffer = HostBuffer(region.array[:nbytes], region.address)
        buffer.guard()
        buffer.array.fill(POISON)
        buffer.region = region
        return buffer

    def unstack(self, buffer: HostBuffer) -> None:
        """Return a region to its pool; KernelFault ``guard`` if its guard bytes changed."""
        assert buffer.live, "given back twice"
        assert buffer.region is not None, "no bytes of the stack"
        buffer.live = False
        self._regions().append(buffer.region)
        if where := buffer.overwritten():
            raise KernelFault([Fault("guard", "", f"when the stack was given back: {where}")])

    def _regions(self) -> list[HostBuffer]:
        found: list[HostBuffer] = self._local.__dict__.setdefault("regions", [])
        return found

    def wait(self, stream: int, on: int) -> None:
        """Return at once: every launch has ended when it returns."""

    def join(self) -> None:
        """Return at once: every launch has ended when it returns."""


class HostLoaded:
    """Compiled kernels; the code lives as long as this object."""

    def __init__(
        self, text: KernelText, parts: Mapping[str, KernelPart], native: Native, stage: _Stage
    ) -> None:
        self.text = text
        self._stage = stage
        self._native = native
        self._kernels = {
            s.name: _HostKernel(s, parts[s.name], ENTRY(native.addresses[f"launch_{s.name}__"]))
            for s in text.kernels
        }

    def launch(
        self,
        kernel: str,
        buffers: Sequence[HostBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run a kernel; KernelFault ``guard``, ``barrier-divergence``, ``assert`` and others."""
        del stream  # work is done when it is given
        k = self._kernels.get(kernel)
        if k is None:
            k = self._kernels[signature(self.text, kernel).name]
        g = k.geometry(dims)
        check_buffers(k.signature, g, [b.nbytes for b in buffers])
        assert all(b.root.live for b in buffers), "a buffer was freed"
        if g.empty:
            return
        maps = [_described(d, buffers[d.buffer]) for d in g.maps]
        args = [b.address for b in buffers] + [m.ctypes.data for m in maps]
        args += [d % 2**64 for d in g.dims]
        args += words(k.signature, scalars)
        found = self._stage.run(k.entry, g.grid, k.signature.block, args)
        faults = [located(_describe(found, k), self.text)] if found else []
        faults += written(k.signature, buffers)
        if faults:
            raise KernelFault(faults)

    def close(self) -> None:
        """Free the code; nothing can be launched afterwards."""
        self._kernels.clear()
        self._native.close()


class _Compiles(Protocol):
    def compile(self, source: str, where: str, symbols: Sequence[str]) -> Native: ...


class _HostKernel:
    """A signature, its entry, and what was evaluated for each binding of the dims."""

    def __init__(self, s: Signature, part: KernelPart, entry: Callable[[int], None]) -> None:
        self.signature = s
        self.part = part
        self.entry = entry
        self.geometry = Geometries(s)


class _Stage(Stage):
    """Launches with the threads of a block, and the blocks of a grid, in an order."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._order: Order = order
        self._thread_orders: dict[int, Array] = {}
        self._block_orders: dict[int, tuple[int, int]] = {}

    def threads(self, count: int) -> int:
        """Return the address of the order of a block's threads; 0 is by index."""
        assert count <= PORTABLE.threads, f"a block of {count} threads"
        if self._order == "forward":
            return 0
        if count not in self._thread_orders:
            order = np.arange(count, dtype=np.uint32)[::-1].copy()
            if isinstance(self._order, int):
                order = np.random.default_rng(self._order).permutation(order)
            self._thread_orders[count] = order
        return int(self._thread_orders[count].ctypes.data)

    def blocks(self, count: int) -> tuple[int, int]:
        """Return stride and offset of the order of blocks."""
        if self._order == "forward":
            return 1, 0
        if self._order == "reverse":
            return count - 1, count - 1
        if count not in self._block_orders:
            rng = np.random.default_rng((self._order, count))
            stride = int(rng.integers(1, count, endpoint=True))
            while math.gcd(stride, count) != 1:
                stride += 1
            self._block_orders[count] = stride % count, int(rng.integers(count))
        return self._block_orders[count]


def fresh(nbytes: int) -> HostBuffer:
    """Return uninitialised bytes between guard bytes."""
    raw = np.empty(nbytes + 2 * ALIGNMENT + GUARD, np.uint8)
    start: int = raw.__array_interface__["data"][0]
    skip = -start % ALIGNMENT + ALIGNMENT
    buffer = HostBuffer(raw[skip : skip + nbytes], start + skip)
    buffer.guard()
    return buffer


def _described(d: Described, buffer: HostBuffer) -> Array:
    """Return the words of a tensor map, as the prelude of the host reads them."""
    words_ = np.zeros(WORDS, np.int64)
    words_[0], words_[1 : len(d.words) + 1] = buffer.address + d.offset * NBYTES, d.words
    return words_


def written(s: Signature, buffers: Sequence[HostBuffer]) -> list[Fault]:
    """Faults for guard bytes that a kernel wrote; the bytes are mended.

    Where buffers share guard bytes, the blame is on an output.
    """
    faults: list[Fault] = []
    named = [(name, b) for (name, _), b in zip(s.buffers, buffers, strict=True)]
    named.sort(key=lambda pair: pair[0] not in s.outputs)
    for name, buffer in named:
        if where := buffer.root.overwritten():
            buffer.root.guard()
            faults.append(Fault("guard", s.name, f"buffer {name}: {where}"))
    return faults


def _describe(found: tuple[int, ...], k: _HostKernel) -> Fault:
    what, line, other_line, thread, other, *at = found
    block = f"in block ({', '.join(map(str, at))})"
    name = k.signature.name
    match what:
        case 1:
            detail = f"thread {thread} waits {block}, thread {other} has ended"
            return Fault("barrier-divergence", name, detail, line)
        case 2:
            detail = f"thread {thread} waits {block}, thread {other} at line {other_line}"
            return Fault("barrier-divergence", name, detail, line)
        case 3:
            arrays = k.part.arrays
            beside = arrays[max(0, thread - 1)] if arrays else "shared memory"
            return Fault("out-of-bounds", name, f"bytes beside {beside} were written {block}")
        case 5:
            return Fault("assert", name, f"it does not hold in thread {thread} {block}", line)
        case 6:
            return Fault("hang", name, f"thread {thread} waits {block} for what never comes", line)
        case 7:
            detail = f"thread {thread} {block} touches block {other} of a cluster of"
            return Fault("out-of-bounds", name, f"{detail} {k.signature.cluster}", line)
        case _:
            return Fault("misaligned", name, f"a wide access of thread {thread} {block}", line)
