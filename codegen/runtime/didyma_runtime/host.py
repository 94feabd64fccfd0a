"""The CPU as an engine: kernels are machine code in a shared object, buffers arrays of bytes."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .checks import WIDEST
from .dtypes import OWN, Array, from_memory, nbytes_of, to_memory
from .kernels import Kernel, needs, require_room
from .refused import Refused

LAUNCH = struct.Struct("<6Q14I")  # Launch__ of the kernels' C text
FAULT = struct.Struct("<8I")
FAULT_AT = 72  # its offset there
MAX_ARGS = 4096
THREADS, CLUSTER = 1024, 8  # of a block, and blocks of a cluster, at most
STACK = (1 << 16) + 320  # bytes of a thread's stack; odd, so that tops fall in all cache sets
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ALIGNMENT = 256  # of buffers
MOST_STACK = 100 << 10  # bytes that `stack` is asked for, at most
MOST_KNOWN = 256  # sizes of a kernel that are remembered
_FAULTS = {
    1: "a thread waits at a barrier and another has ended", 2: "threads wait at two barriers",
    3: "bytes beside shared memory were written", 4: "a wide access is misaligned",
    5: "an assertion does not hold",
}  # fmt: skip


class Stage:
    """What launches share that may run one at a time: launch record, arguments, stacks.

    Tapes of a ``library`` that can run them take turns with launches.
    """

    def __init__(self, library: Any = None) -> None:
        self._lock = threading.Lock()
        self._args = ctypes.create_string_buffer(8 * MAX_ARGS)
        self._args_address = ctypes.addressof(self._args)
        self._record = ctypes.create_string_buffer(LAUNCH.size)
        self._address = ctypes.addressof(self._record)
        self._faults = memoryview(self._record).cast("B")[FAULT_AT:].cast("I")
        self._last = b""  # the launch record that is in place
        self._launching, self._replaying = ctypes.c_uint(), ctypes.c_uint()
        if hasattr(library, "replay__"):
            self._launching = ctypes.c_uint.in_dll(library, "launching__")
            self._replaying = ctypes.c_uint.in_dll(library, "replaying__")
        self._stacks: mmap.mmap | None = None
        self._stacks_address = 0

    def run(
        self,
        entry: Callable[[int], None],
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[int],
    ) -> tuple[int, ...]:
        """Run a grid, whose arguments are words, and return its fault fields as ``go`` does."""
        return self.go(entry, self.record(grid, block), struct.Struct(f"{len(args)}Q"), args)

    def record(self, grid: Sequence[int], block: Sequence[int]) -> bytes:
        """Return the launch record of a grid, for ``go`` of this stage."""
        with self._lock:
            if self._stacks is None:  # the system gives pages as threads use them
                self._stacks = mmap.mmap(-1, THREADS * CLUSTER * STACK)
                self._stacks_address = ctypes.addressof(ctypes.c_char.from_buffer(self._stacks))
        order = self.threads(math.prod(block)), STACK, *self.blocks(math.prod(grid))
        given = self._args_address, self._stacks_address, *order, *grid, *block
        return LAUNCH.pack(*given, *(0,) * 8)

    def go(
        self, entry: Callable[[int], None], record: bytes, form: struct.Struct, args: Sequence[int]
    ) -> tuple[int, ...]:
        """Run a launch record with arguments of a form; return its fault fields, empty if none."""
        with self._lock:
            form.pack_into(self._args, 0, *args)
            if record is not self._last:  # in which no fault is
                ctypes.memmove(self._address, record, LAUNCH.size)
                self._last = record
            self._launching.value = 1
            try:
                while self._replaying.value:
                    time.sleep(0)
                entry(self._address)
            finally:
                self._launching.value = 0
            if not self._faults[0]:
                return ()
            self._last = b""
            return FAULT.unpack_from(self._record, FAULT_AT)

    def threads(self, count: int) -> int:
        """Return the address of the order of a block's threads; 0 is by index."""
        del count
        return 0

    def blocks(self, count: int) -> tuple[int, int]:
        """Return stride and offset of the order of blocks."""
        del count
        return 1, 0


class Buffer:
    """Bytes in this process: ``nbytes`` from ``offset`` on of ``base``, which keeps them."""

    __slots__ = ("address", "base", "nbytes", "offset")

    def __init__(self, address: int, nbytes: int, base: Array, offset: int = 0) -> None:
        self.address, self.nbytes, self.base, self.offset = address, nbytes, base, offset

    @property
    def array(self) -> Array:
        """The bytes as an array of them."""
        raw: Array = self.base.reshape(-1).view(np.uint8)
        return raw[self.offset : self.offset + self.nbytes]


class Host:
    """The CPU: kernels are machine code in a shared object, and buffers are arrays of bytes."""

    name = "host"

    def __init__(self) -> None:
        self._spare: list[Buffer] = []  # for `stack`

    def current(self) -> AbstractContextManager[None]:
        """Return what lets a thread use the engine, as every thread may."""
        return nullcontext()

    def allocate(self, nbytes: int) -> Buffer:
        """Return uninitialised bytes."""
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = _address(raw)
        skip = -start % ALIGNMENT
        return Buffer(start + skip, nbytes, raw, skip)

    def free(self, buffer: Buffer) -> None:
        """Let go of bytes, of which nobody else may hold a view."""
        buffer.base, buffer.address, buffer.nbytes = _NOTHING, 0, 0

    def stack(self, nbytes: int) -> Buffer:
        """Return a few uninitialised bytes, of memory that later calls are given again."""
        if nbytes > MOST_STACK:
            return self.allocate(nbytes)
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = self.allocate(MOST_STACK)
        return Buffer(spare.address, nbytes, spare.base, spare.offset)

    def unstack(self, buffer: Buffer) -> None:
        """Take back what ``stack`` returned."""
        if buffer.nbytes <= MOST_STACK:
            self._spare.append(Buffer(buffer.address, MOST_STACK, buffer.base, buffer.offset))
        self.free(buffer)

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return a part of bytes; ``buffer-too-small`` where they have no such part."""
        if not 0 <= offset <= offset + nbytes <= buffer.nbytes:
            got, want = f"{buffer.nbytes} bytes", f"{nbytes} from byte {offset} on"
            raise Refused("buffer-too-small", "a view", got=got, want=want)
        return Buffer(buffer.address + offset, nbytes, buffer.base, buffer.offset + offset)

    def upload(self, array: Array) -> Buffer:
        """Return an array's bytes: the array itself where it lies as kernels read it."""
        if array.dtype.isbuiltin != 1:
            array = np.ascontiguousarray(to_memory(array)).view(np.uint8)
        if array.flags.c_contiguous:
            start = _address(array)
            if start % WIDEST == 0:
                return Buffer(start, array.nbytes, array)
        made = self.allocate(array.nbytes)
        made.array.view(array.dtype).reshape(array.shape)[...] = array
        return made

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """Return a copy of the first bytes as an array."""
        if dtype not in OWN:
            return from_memory(buffer.array[: nbytes_of(dtype, shape)], dtype, shape).copy()
        return np.ndarray(tuple(shape), OWN[dtype], buffer.base, buffer.offset).copy()

    def copy(self, target: Buffer, source: Buffer) -> None:
        """Copy all bytes of the source over the start of the target."""
        target.array[: source.nbytes] = source.array

    def wait(self, stream: int, on: int) -> None:
        """Return at once: every launch has ended when it returns."""

    def join(self) -> None:
        """Return at once: every launch has ended when it returns."""


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


_NOTHING: Array = np.empty(0, np.uint8)


class Entry:
    """A kernel and its machine code, with what was found out for sizes that it has had."""

    __slots__ = ("form", "kernel", "known", "run")

    def __init__(self, kernel: Kernel, run: Any) -> None:
        self.kernel, self.run = kernel, run
        self.form = struct.Struct(f"{len(kernel.buffers)}Q{len(kernel.dims)}q")
        self.known: dict[tuple[int, ...], tuple[tuple[int, ...], bytes | None]] = {}


class Kernels:
    """Kernels of a shared object; ``source`` is their text, whose lines faults name."""

    def __init__(self, library: Any, kernels: Mapping[str, Kernel], source: str = "") -> None:
        self.table, self._source = kernels, source
        self._library = library
        self._entries = {
            name: Entry(k, ENTRY((f"launch_{name}__", library))) for name, k in kernels.items()
        }
        self._stage = Stage(library)

    def launch(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """Run a kernel; ``kernel-fault`` where its checks failed, ``buffer-too-small``."""
        del stream  # work is done when it is given
        e = self._entries[kernel]
        values = tuple([sizes[d] for d in e.kernel.dims])
        known = e.known.get(values)
        if known is None:
            known = self._found(e, values, sizes)
        needed, record = known
        args: list[int] = []
        for b, nbytes in zip(buffers, needed, strict=True):
            if b.nbytes < nbytes:
                require_room(kernel, e.kernel, len(args), b.nbytes, nbytes)
            args.append(b.address)
        if record is None:
            return
        if found := self._stage.go(e.run, record, e.form, (*args, *values)):
            raise self.fault(kernel, *found[:2])

    def timed(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> float:
        """Run a kernel and return the seconds that it took."""
        start = time.perf_counter()
        self.launch(kernel, buffers, sizes, stream)
        return time.perf_counter() - start

    def read(self, buffer: Buffer, nbytes: int) -> Array:
        """Return the first bytes of a buffer, as they lie there."""
        return buffer.array[:nbytes]

    def launched(
        self, kernel: str, sizes: Mapping[str, int]
    ) -> tuple[int, bytes | None, tuple[int, ...]]:
        """Return the machine code of a kernel that was launched, its launch record and its sizes.

        There is no record where it has no blocks.
        """
        e = self._entries[kernel]
        values = tuple([sizes[d] for d in e.kernel.dims])
        return ctypes.cast(e.run, ctypes.c_void_p).value or 0, e.known[values][1], values

    @property
    def replays(self) -> bool:
        """Whether the shared object can run tapes."""
        return hasattr(self._library, "replay__")

    def replayer(self, functions: Sequence[int]) -> int:
        """Return the function of the shared object that runs tapes, which uses those of Python."""
        table = (ctypes.c_void_p * len(functions))(*functions)
        own = ctypes.c_char.in_dll(self._library, "python__")
        ctypes.memmove(ctypes.addressof(own), table, ctypes.sizeof(table))
        return ctypes.cast(self._library.replay__, ctypes.c_void_p).value or 0

    def _found(
        self, e: Entry, values: tuple[int, ...], sizes: Mapping[str, int]
    ) -> tuple[tuple[int, ...], bytes | None]:
        """Return the bytes that each buffer must have and the launch record; None: no blocks."""
        k = e.kernel
        needed = needs(k, sizes)
        grid = [max(0, n) for n in k.grid(sizes)]
        found = needed, None if 0 in grid else self._stage.record(grid, k.block)
        if len(e.known) >= MOST_KNOWN:
            e.known.clear()
        e.known[values] = found
        return found

    def fault(self, kernel: str, fault: int, line: int) -> Refused:
        """Return the error of a launch whose checks failed on a line of the source."""
        k = self.table[kernel]
        where = f"kernel {kernel}, line {line} of the kernels"
        e = Refused("kernel-fault", where, got=_FAULTS[fault], want="a kernel that does not")
        if 0 < line <= len(lines := self._source.splitlines()):
            e.add_note(f"line {line} of the kernels: {lines[line - 1].strip()}")
        if k.nodes:
            e.add_note(f"nodes of the graph: {', '.join(k.nodes)}")
        return e


def here() -> str:
    """Name the machines that run the same machine code as this one.

    It is the processor and the system, such as ``x86_64-linux``.
    """
    return f"{platform.machine().lower()}-{platform.system().lower()}"


def anonymous(data: bytes, name: str) -> str:
    """Return the path of a file that lives as long as the process and has no name elsewhere.

    Error ``target-lacks`` where the system has no such files.
    """
    if not hasattr(os, "memfd_create"):
        raise Refused("target-lacks", name, got=here(), want="a Linux system")
    fd = os.memfd_create(name)  # stays open: a loader knows what it has loaded by the path
    with os.fdopen(os.dup(fd), "wb") as f:
        f.write(data)
    return f"/proc/self/fd/{fd}"


def library(data: bytes, name: str) -> Any:
    """Return machine code as a library, from the bytes that were checked rather than from a file.

    Error ``target-lacks`` where the system has no such files.
    """
    found, math_ = ctypes.CDLL(anonymous(data, name)), ctypes.CDLL("libm.so.6")
    found.bound__.restype = ctypes.c_char_p
    for function in found.bound__().decode().split():
        address = ctypes.cast(getattr(math_, function), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(found, f"bound_{function}__").value = address.value
    return found
