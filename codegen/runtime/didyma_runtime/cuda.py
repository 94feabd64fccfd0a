"""A GPU as an engine, by NVIDIA's driver alone: ``libcuda.so.1``, which comes with the driver.

Handles and addresses are integers.  The device's primary context is used, which other libraries in
the process share; ``current`` makes it the thread's, and gives back the one that was there.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from .dtypes import Array, from_memory, nbytes_of, to_memory
from .kernels import Kernel, needs, require_room
from .maps import encoded, starts
from .refused import Refused

Word: TypeAlias = ctypes.c_uint64
Handle: TypeAlias = ctypes.c_void_p
Size: TypeAlias = ctypes.c_size_t
_ANY_SIZE = 512  # bytes to a multiple of which allocations are rounded, so that more are alike
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no implicit order with the default stream
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_OUT_OF_MEMORY = 2
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: memory may be asked for meanwhile
CAPTURED = -1  # the number of the stream that graphs are captured from and run on


@cache
def driver() -> ctypes.CDLL:
    """Return the driver's library; ``engine-missing`` where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise _missing(f"no driver: {e}") from None


def do(name: str, *args: Any, where: str = "") -> None:
    """Call a function of the driver.

    Errors: ``too-large`` where memory is short, else ``launch-failed`` at ``where``.
    """
    code: int = getattr(driver(), name)(*args)
    if not code:
        return
    text = ctypes.c_char_p()
    driver().cuGetErrorName(code, ctypes.byref(text))
    got = f"{(text.value or b'an error').decode()} from {name}"
    if code == _OUT_OF_MEMORY:
        raise Refused("too-large", where or "the memory of the GPU", got=got, want="room for it")
    raise Refused(
        "launch-failed", where or "a call of the driver", got=got, want="a call that CUDA accepts",
        help="it may be an earlier launch that failed: synchronous=True tells of which",
    )  # fmt: skip


class Block:
    """An allocation, which goes back to its pool when nothing shares it any more."""

    __slots__ = ("_pool", "address", "nbytes")

    def __init__(self, address: int, nbytes: int, pool: dict[int, list[int]]) -> None:
        self.address, self.nbytes, self._pool = address, nbytes, pool

    def __del__(self) -> None:
        """Give the bytes back."""
        self._pool.setdefault(self.nbytes, []).append(self.address)


class Buffer:
    """Bytes on the device; ``block`` is the allocation that keeps them."""

    __slots__ = ("address", "block", "nbytes")

    def __init__(self, address: int, nbytes: int, block: Block | None) -> None:
        self.address, self.nbytes, self.block = address, nbytes, block


class Cuda:
    """A GPU of those that the process may use, by its number.

    Freed memory is kept for later allocations.  Errors: ``engine-missing`` without a driver or a
    GPU, ``target-lacks`` where the GPU cannot run code for the architecture.
    """

    name = "cuda"

    def __init__(self, architecture: str, number: int = 0) -> None:
        device, context = ctypes.c_int(), Handle()
        try:
            do("cuInit", 0)
            do("cuDeviceGet", ctypes.byref(device), number)
        except Refused as e:
            raise e if e.code == "engine-missing" else _missing(e.got, number) from None
        _require(device, architecture, number)
        do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._context = context
        self._pool: dict[int, list[int]] = {}
        self._streams: dict[int, Handle] = {}
        self._lock = threading.RLock()
        self._captured = Handle()  # a stream, once there is a graph

    @contextmanager
    def current(self) -> Generator[None]:
        """Use the device in this thread, one thread at a time."""
        with self._lock:
            do("cuCtxPushCurrent_v2", self._context)
            try:
                yield
            finally:
                do("cuCtxPopCurrent_v2", ctypes.byref(Handle()))

    def allocate(self, nbytes: int) -> Buffer:
        """Return uninitialised bytes."""
        rounded = -(-max(1, nbytes) // _ANY_SIZE) * _ANY_SIZE
        if spare := self._pool.get(rounded):
            if self._streams:  # which may not have ended what they do with it
                self.join()
            address = spare.pop()
        else:
            return self.fresh(nbytes)
        return Buffer(address, nbytes, Block(address, rounded, self._pool))

    def fresh(self, nbytes: int) -> Buffer:
        """Return bytes that nobody has had."""
        rounded = -(-max(1, nbytes) // _ANY_SIZE) * _ANY_SIZE
        address = self._fresh(rounded)
        return Buffer(address, nbytes, Block(address, rounded, self._pool))

    def _fresh(self, nbytes: int) -> int:
        address = Word()
        try:
            do("cuMemAlloc_v2", ctypes.byref(address), Size(nbytes))
        except Refused as e:
            if e.code != "too-large" or not self._pool:
                raise
            self._release()
            do("cuMemAlloc_v2", ctypes.byref(address), Size(nbytes))
        return address.value

    def _release(self) -> None:
        """Free what the pool keeps."""
        for addresses in self._pool.values():
            while addresses:
                do("cuMemFree_v2", Word(addresses.pop()))
        self._pool.clear()

    def free(self, buffer: Buffer) -> None:
        """Let go of bytes, of which nobody else may hold a view."""
        buffer.block, buffer.address, buffer.nbytes = None, 0, 0

    stack, unstack = allocate, free

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return a part of bytes; ``buffer-too-small`` where they have no such part."""
        if not 0 <= offset <= offset + nbytes <= buffer.nbytes:
            got, want = f"{buffer.nbytes} bytes", f"{nbytes} from byte {offset} on"
            raise Refused("buffer-too-small", "a view", got=got, want=want)
        return Buffer(buffer.address + offset, nbytes, buffer.block)

    def upload(self, array: Array) -> Buffer:
        """Return a copy of an array's bytes in row-major order."""
        raw = np.ascontiguousarray(to_memory(array))
        made = self.allocate(raw.nbytes)
        if raw.nbytes:
            at = Handle(raw.__array_interface__["data"][0])
            do("cuMemcpyHtoD_v2", Word(made.address), at, Size(raw.nbytes))
        return made

    def read(self, buffer: Buffer, nbytes: int) -> Array:
        """Return a copy of the first bytes, once all earlier work has ended."""
        raw: Array = np.empty(nbytes, np.uint8)
        if self._streams:
            self.join()
        if nbytes:
            at = Handle(raw.__array_interface__["data"][0])
            do("cuMemcpyDtoH_v2", at, Word(buffer.address), Size(nbytes))
        return raw

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """Return a copy of the first bytes as an array."""
        return from_memory(self.read(buffer, nbytes_of(dtype, shape)), dtype, shape)

    def copy(self, target: Buffer, source: Buffer) -> None:
        """Copy all bytes of the source over the start of the target."""
        if source.nbytes:
            ends = Word(target.address), Word(source.address)
            do("cuMemcpyDtoD_v2", *ends, Size(source.nbytes))

    def bring(self, target: Buffer, source: Buffer, of: Cuda) -> None:
        """Copy all bytes of a source on another GPU, after the work of both and before more."""
        if source.nbytes:
            ends = Word(target.address), self._context, Word(source.address), of._context
            do("cuMemcpyPeer", *ends, Size(source.nbytes))

    def wait(self, stream: int, on: int) -> None:
        """Let later work of a stream begin after all earlier work of another."""
        event = Handle()
        do("cuEventCreate", ctypes.byref(event), _NO_TIMING)
        try:
            do("cuEventRecord", event, self.stream(on))
            do("cuStreamWaitEvent", self.stream(stream), event, 0)
        finally:
            do("cuEventDestroy_v2", event)

    def join(self) -> None:
        """Wait for all work of the device."""
        do("cuCtxSynchronize")

    def stream(self, number: int) -> Handle:
        """Return a stream by its number; 0 is the default stream."""
        if number == 0:
            return Handle()
        if number == CAPTURED:
            return self._captured
        if number not in self._streams:
            self.join()
            made = Handle()
            do("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
            self._streams[number] = made
        return self._streams[number]

    # ---- graphs

    def begin_capture(self) -> None:
        """Let what is launched on stream ``CAPTURED`` become a graph."""
        self.join()
        if not self._captured:
            do("cuStreamCreate", ctypes.byref(self._captured), _NON_BLOCKING)
        do("cuStreamBeginCapture_v2", self._captured, _RELAXED)

    def end_capture(self) -> Handle:
        """Return the graph of what was launched; a null handle where that is none."""
        graph = Handle()
        driver().cuStreamEndCapture(self._captured, ctypes.byref(graph))
        return graph

    def instantiated(self, graph: Handle) -> Handle:
        """Return a graph as it can be run."""
        made = Handle()
        do("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        do("cuGraphDestroy", graph)
        return made

    def run_graph(self, graph: Handle) -> None:
        """Start a graph on stream ``CAPTURED``."""
        do("cuGraphLaunch", graph, self._captured)

    def put(self, buffer: Buffer, array: Array, stream: int) -> None:
        """Copy an array's bytes into a buffer, in the order of a stream."""
        raw = np.ascontiguousarray(to_memory(array))
        if raw.nbytes:
            at = Handle(raw.__array_interface__["data"][0])
            ends = Word(buffer.address), at, Size(raw.nbytes)
            do("cuMemcpyHtoDAsync_v2", *ends, self.stream(stream))

    def take(self, buffer: Buffer, nbytes: int, stream: int) -> Array:
        """Return an array that has the first bytes once a stream has come there."""
        raw: Array = np.empty(nbytes, np.uint8)
        if nbytes:
            at = Handle(raw.__array_interface__["data"][0])
            do("cuMemcpyDtoHAsync_v2", at, Word(buffer.address), Size(nbytes), self.stream(stream))
        return raw

    def copy_later(self, target: Buffer, source: Buffer, stream: int) -> None:
        """Copy all bytes of the source over the start of the target, in the order of a stream."""
        if source.nbytes:
            ends = Word(target.address), Word(source.address), Size(source.nbytes)
            do("cuMemcpyDtoDAsync_v2", *ends, self.stream(stream))

    def synchronize(self, stream: int) -> None:
        """Wait for the work of a stream."""
        do("cuStreamSynchronize", self.stream(stream))


class Kernels:
    """Kernels of a cubin on a device.  They are launched, and run later."""

    replays = True  # as graphs

    def __init__(self, engine: Cuda, code: bytes, kernels: Mapping[str, Kernel]) -> None:
        self.table, self._engine = kernels, engine
        module = Handle()
        do("cuModuleLoadData", ctypes.byref(module), code, where="the kernels")
        self._functions = {name: _function(module, name, k) for name, k in kernels.items()}

    def launch(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """Start a kernel; ``buffer-too-small``, ``launch-failed``."""
        if start := self._ready(kernel, buffers, sizes, stream):
            start()

    def _ready(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int
    ) -> Callable[[], None] | None:
        """Return what starts a kernel; None where it has no blocks."""
        k = self.table[kernel]
        for at, (b, nbytes) in enumerate(zip(buffers, needs(k, sizes), strict=True)):
            require_room(kernel, k, at, b.nbytes, nbytes)
        grid = k.grid(sizes)
        if min(grid) <= 0:
            return None
        maps = k.maps(sizes)
        words = [b.address for b in buffers]
        words += [w for d in maps for w in encoded(do, words[d.buffer], d)]
        words += [sizes[d] & (1 << 64) - 1 for d in k.dims]
        cells, begin = (Word * len(words))(*words), starts(len(buffers), len(maps), len(words))
        first = ctypes.addressof(cells)
        args: Any = (Handle * len(begin))(*(first + 8 * i for i in begin))
        args.cells, on = cells, self._engine.stream(stream)  # which the addresses are of

        def start() -> None:
            given = *grid, *k.block, k.shared, on, args, None
            do("cuLaunchKernel", self._functions[kernel], *given, where=f"kernel {kernel}")

        return start

    def timed(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> float:
        """Run a kernel to its end and return the seconds from its launch to there."""
        self._engine.join()
        start = self._ready(kernel, buffers, sizes, stream)
        if start is None:
            return 0.0
        ends, on, took = (Handle(), Handle()), self._engine.stream(stream), ctypes.c_float()
        for event in ends:
            do("cuEventCreate", ctypes.byref(event), 0)
        try:
            do("cuEventRecord", ends[0], on)
            start()
            do("cuEventRecord", ends[1], on)
            do("cuCtxSynchronize", where=f"kernel {kernel}")
            do("cuEventElapsedTime", ctypes.byref(took), *ends)
        finally:
            for event in ends:
                driver().cuEventDestroy_v2(event)  # which fails, too, after a kernel that failed
        return took.value / 1e3

    def read(self, buffer: Buffer, nbytes: int) -> Array:
        """Return a copy of the first bytes of a buffer."""
        return self._engine.read(buffer, nbytes)


def _function(module: Handle, name: str, k: Kernel) -> Handle:
    found = Handle()
    do("cuModuleGetFunction", ctypes.byref(found), module, name.encode(), where=f"kernel {name}")
    if k.shared:
        do("cuFuncSetAttribute", found, _MOST_SHARED, k.shared, where=f"kernel {name}")
    return found


def _require(device: ctypes.c_int, architecture: str, number: int) -> None:
    """Raise ``target-lacks`` where a device cannot run code for an architecture.

    Code for ``sm_90a`` runs on devices of exactly that capability, code for ``sm_90`` also on
    later ones of the same major number.
    """
    has: list[int] = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        do("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        has.append(value.value)
    digits = architecture.removeprefix("sm_").rstrip("af")
    major, minor = int(digits[:-1]), int(digits[-1])
    later = has[1] >= minor and architecture[-1].isdecimal()
    if has[0] != major or not (has[1] == minor or later):
        raise Refused(
            "target-lacks", f"device {number}", got=f"compute capability {has[0]}.{has[1]}",
            want=f"{major}.{minor}, as code for {architecture} does",
            help=f"didyma build FILE --target sm_{has[0]}{has[1]}",
        )  # fmt: skip


def _missing(got: str, number: int = 0) -> Refused:
    return Refused(
        "engine-missing", f"cuda:{number}" if number else "cuda", got=got,
        want="a GPU and NVIDIA's driver",
        help="run it on a machine that has them, or build the program for host",
    )  # fmt: skip
