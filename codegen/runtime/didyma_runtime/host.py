"""The CPU as an engine: kernels are machine code in a shared object, buffers arrays of bytes."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import platform
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .checks import WIDEST
from .dtypes import Array, checked, dtype_of, from_memory, nbytes_of, to_memory
from .refused import Refused

Extents = Callable[[Mapping[str, int]], tuple[int, ...]]  # of the sizes by name
Shapes = Callable[[Mapping[str, int]], tuple[tuple[int, ...], ...]]

LAUNCH = struct.Struct("<6Q14I")  # Launch__ of the kernels' C text
FAULT = struct.Struct("<8I")
FAULT_AT = 72  # its offset there
MAX_ARGS = 4096
THREADS = 1024  # of a block, at most
STACK = (1 << 16) + 320  # bytes of a thread's stack; odd, so that tops fall in all cache sets
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ALIGNMENT = 256  # of buffers
_FAULTS = {
    1: "a thread waits at a barrier and another has ended", 2: "threads wait at two barriers",
    3: "bytes beside shared memory were written", 4: "a wide access is misaligned",
    5: "an assertion does not hold",
}  # fmt: skip


class Stage:
    """What launches share that may run one at a time: launch record, arguments, stacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._args = (ctypes.c_uint64 * MAX_ARGS)()
        self._args_address = ctypes.addressof(self._args)
        self._record = ctypes.create_string_buffer(LAUNCH.size)
        self._address = ctypes.addressof(self._record)
        self._stacks: mmap.mmap | None = None
        self._stacks_address = 0

    def run(
        self,
        entry: Callable[[int], None],
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[int],
    ) -> tuple[int, ...]:
        """Run a grid, whose arguments are words, and return the fault fields of its record."""
        with self._lock:
            if self._stacks is None:  # the system gives pages as threads use them
                self._stacks = mmap.mmap(-1, THREADS * STACK)
                self._stacks_address = ctypes.addressof(ctypes.c_char.from_buffer(self._stacks))
            self._args[: len(args)] = list(args)
            order = self.threads(math.prod(block)), STACK, *self.blocks(math.prod(grid))
            given = self._args_address, self._stacks_address, *order, *grid, *block
            LAUNCH.pack_into(self._record, 0, *given, *(0,) * 8)
            entry(self._address)
            return FAULT.unpack_from(self._record, FAULT_AT)

    def threads(self, count: int) -> int:
        """Return the address of the order of a block's threads; 0 is by index."""
        del count
        return 0

    def blocks(self, count: int) -> tuple[int, int]:
        """Return stride and offset of the order of blocks."""
        del count
        return 1, 0


@dataclass(slots=True)
class Buffer:
    """Bytes in this process; ``raw`` keeps them, and ``array`` shows them."""

    array: Array
    raw: object

    @property
    def address(self) -> int:
        """Where they are."""
        return int(self.array.__array_interface__["data"][0])

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return self.array.nbytes


class Host:
    """The CPU: kernels are machine code in a shared object, and buffers are arrays of bytes."""

    name = "host"

    def allocate(self, nbytes: int) -> Buffer:
        """Return bytes that hold anything."""
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        skip = -int(raw.__array_interface__["data"][0]) % ALIGNMENT
        return Buffer(raw[skip : skip + nbytes], raw)

    stack = allocate

    def free(self, buffer: Buffer) -> None:
        """Let go of bytes, of which nobody else may hold a view."""
        buffer.array, buffer.raw = _NOTHING, None

    unstack = free

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return a part of bytes."""
        return Buffer(buffer.array[offset : offset + nbytes], None)

    def upload(self, array: Array) -> Buffer:
        """Return an array's bytes: the array itself where it lies as kernels read it."""
        array = to_memory(array)
        if array.flags.c_contiguous:
            lent = Buffer(array.reshape(-1).view(np.uint8), array)
            if lent.address % WIDEST == 0:
                return lent
        made = self.allocate(array.nbytes)
        made.array.view(array.dtype).reshape(array.shape)[...] = array
        return made

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """Return a copy of the first bytes as an array."""
        return from_memory(buffer.array[: nbytes_of(dtype, shape)], dtype, shape).copy()

    def copy(self, target: Buffer, source: Buffer) -> None:
        """Copy all bytes of the source over the start of the target."""
        target.array[: source.nbytes] = source.array

    def wait(self, stream: int, on: int) -> None:
        """Return at once: every launch has ended when it returns."""

    def join(self) -> None:
        """Return at once: every launch has ended when it returns."""


_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a kernel is launched.

    ``grid``, ``sizes`` and ``shapes`` are functions of the sizes by name: its blocks, the elements
    of each of the ``buffers``, which are names and dtypes, and the shapes of the ``outputs``.
    ``nodes`` are those of the graph that it computes.
    """

    buffers: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    dims: tuple[str, ...]
    grid: Extents
    sizes: Extents
    block: tuple[int, int, int]
    shapes: Shapes
    nodes: tuple[str, ...] = ()


class Kernels:
    """Kernels of a shared object; ``source`` is their text, whose lines faults name."""

    def __init__(self, library: Any, kernels: Mapping[str, Kernel], source: str = "") -> None:
        self.table, self._source = kernels, source
        self._library = library
        self._entries = {name: ENTRY((f"launch_{name}__", library)) for name in kernels}
        self._stage = Stage()

    def launch(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """Run a kernel; ``kernel-fault`` where its checks failed, ``buffer-too-small``."""
        del stream  # work is done when it is given
        k = self.table[kernel]
        for (name, dtype), count, b in zip(k.buffers, k.sizes(sizes), buffers, strict=True):
            if b.nbytes < count * dtype_of(dtype).itemsize:
                want = f"{count} elements of {dtype}"
                where = f"{kernel}, buffer {name}"
                raise Refused("buffer-too-small", where, got=f"{b.nbytes} bytes", want=want)
        grid = [max(0, n) for n in k.grid(sizes)]
        if 0 in grid:
            return
        args = [b.address for b in buffers] + [sizes[d] % 2**64 for d in k.dims]
        fault, line, *_ = self._stage.run(self._entries[kernel], grid, k.block, args)
        if fault:
            where = f"kernel {kernel}, line {line} of the kernels"
            e = Refused("kernel-fault", where, got=_FAULTS[fault], want="a kernel that does not")
            if 0 < line <= len(lines := self._source.splitlines()):
                e.add_note(f"line {line} of the kernels: {lines[line - 1].strip()}")
            if k.nodes:
                e.add_note(f"nodes of the graph: {', '.join(k.nodes)}")
            raise e


def here() -> str:
    """Name the machines that run the same machine code as this one.

    It is the processor and the system, such as ``x86_64-linux``.
    """
    return f"{platform.machine().lower()}-{platform.system().lower()}"


def library(data: bytes, name: str) -> Any:
    """Return machine code as a library, from the bytes that were checked rather than from a file.

    Error ``target-lacks`` where the system has no such files.
    """
    if not hasattr(os, "memfd_create"):
        raise Refused("target-lacks", name, got=here(), want="a Linux system")
    fd = os.memfd_create(name)  # stays open: a loader knows what it has loaded by the path
    with os.fdopen(os.dup(fd), "wb") as f:
        f.write(data)
    found, math_ = ctypes.CDLL(f"/proc/self/fd/{fd}"), ctypes.CDLL("libm.so.6")
    found.bound__.restype = ctypes.c_char_p
    for function in found.bound__().decode().split():
        address = ctypes.cast(getattr(math_, function), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(found, f"bound_{function}__").value = address.value
    return found


class Loaded(NamedTuple):
    """What calls of a program share: an engine, the kernels, and the constants there."""

    engine: Host
    kernels: Kernels | None
    weights: list[Buffer]


def load(
    read: Callable[[str, str], bytes],
    objects: Mapping[str, tuple[str, str]],
    kernels: Mapping[str, Kernel],
    constants: Sequence[Array],
    source: str = "",
) -> Loaded:
    """Load a program: ``read`` returns the bytes of a file by its name and what it is.

    ``objects`` are file and SHA-256 of the machine code for each kind of machine, and ``source`` is
    the kernels' text.  Errors:
    ``target-lacks`` for another machine, ``file-missing``, ``hash-mismatch``.
    """
    engine, found = Host(), None
    if kernels:
        if here() not in objects:
            raise Refused(
                "target-lacks", "kernels", got=f"machine code for {', '.join(objects) or 'none'}",
                want=here(), help="build the program on such a machine: `didyma build`",
            )  # fmt: skip
        name, digest = objects[here()]
        data = checked(read(name, "machine code of the kernels"), digest, name)
        found = Kernels(library(data, name), kernels, source)
    return Loaded(engine, found, [engine.upload(a) for a in constants])
