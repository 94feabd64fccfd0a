"""A GPU as an engine: context, memory and launches by PyCUDA, compilation by NVRTC.

The primary context is retained, as CUDA's own runtime does, so that other libraries in the
process share it.  An engine is used from the thread that made it.
"""

from __future__ import annotations

import atexit
import hashlib
import warnings
import weakref
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from ctypes import c_void_p
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.emit.dynamic import placed
from didyma.codegen.runtime import driver, strided
from didyma.codegen.runtime.compiler import cache_folder, store
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.didyma_runtime.maps import starts
from didyma.codegen.runtime.dlpack import ALIGNED, Borrowed
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.geometry import Geometries, check_buffers, signature, words
from didyma.codegen.runtime.graphs import Graph, Kernel
from didyma.codegen.runtime.nvrtc import SOUND, NvrtcCompiler
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import of_architecture
from didyma.refimpl.ir.types import Array, DType, from_memory, nbytes_of, to_memory

if TYPE_CHECKING:
    from types import ModuleType

    from pycuda import driver as pycuda_driver
    from pycuda.tools import DeviceMemoryPool

POISON = 0xFF  # a NaN in every float type
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no implicit order with the default stream
_MEND = "on a machine with an NVIDIA GPU: python3 -m pip install pycuda nvidia-cuda-nvrtc"


class CudaBuffer:
    """Bytes on the device; other libraries read it by ``__cuda_array_interface__``.

    ``owner`` keeps the bytes alive: PyCUDA's allocation, a foreign array, or the whole that this
    is a view of.  Bytes that are ``lent`` live as long as the arrays that share them.
    """

    __slots__ = ("address", "lent", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.lent = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }


class Cuda:
    """Engine ``cuda``.

    ``checked`` fills fresh memory with NaN bytes and waits for every launch, so that a crash names
    its kernel; without it only downloads wait, a pool keeps the memory that is freed, and calls
    with arrays on the GPU are prepared once for their shapes; with ``graphs`` they are replayed as
    CUDA graphs where that pays.  With ``early``, kernels are launched while those before them end,
    on GPUs of compute capability 9 and more, and wait for that.  Cubins are kept in ``cache``.
    Raises EngineMissing where there is no PyCUDA, no NVRTC, no driver or no GPU.
    """

    name = "cuda"

    def __init__(
        self,
        device: int = 0,
        *,
        checked: bool = True,
        graphs: bool = True,
        early: bool = False,
        cache: Path | None = None,
    ) -> None:
        self._driver = _pycuda()
        self.device = _device(self._driver, device)
        major, minor = self.device.compute_capability()
        own = "a" if major >= 9 else ""  # the architecture's own instructions
        self.architecture = f"sm_{major}{minor}{own}"
        self.targets = of_architecture(self.architecture)
        self.early = early and major >= 9
        self._compiler = NvrtcCompiler(self.architecture, early=self.early)
        if not self._compiler.sound:
            warnings.warn(
                f"NVRTC {self._compiler.version} is known to miscompile some integer arithmetic:"
                f" python3 -m pip install 'nvidia-cuda-nvrtc>={SOUND[0]}.{SOUND[1]}'",
                stacklevel=2,
            )
        self._cache = cache or cache_folder() / "cuda"
        self.checked = checked
        self.graphs = graphs
        self._resident = False
        self._apart = False  # whether the context is current in ``current`` alone
        self.reads = self  # the engine whose downloads are NumPy arrays
        self.number = device
        self._packers: dict[tuple[int, int], CudaLoaded] = {}
        self._streams: dict[int, pycuda_driver.Stream] = {}
        self._context: pycuda_driver.Context | None = self.device.retain_primary_context()
        self._context.push()
        self._pool = None if checked else _pool()
        atexit.register(self.close)  # a context left current aborts the process at its end

    def close(self) -> None:
        """Give the context back; the engine and its buffers are dead afterwards."""
        if self._context is not None:
            self._streams.clear()
            self._packers.clear()
            self._pool = None
            vars(self).pop("resident", None)
            if not self._apart:
                self._context.pop()
            self._context = None
            atexit.unregister(self.close)

    def another(self, number: int) -> Cuda:
        """Return the engine of a GPU like this one, whose context ``current`` makes current."""
        made = Cuda(
            number, checked=self.checked, graphs=self.graphs, early=self.early, cache=self._cache
        )
        assert made._context is not None
        made._context.pop()
        made._apart = True
        return made

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the context of ``another`` GPU the thread's; that of the first is so already."""
        if self._context is None or not self._apart:
            yield
            return
        self._context.push()
        try:
            yield
        finally:
            self._context.pop()

    def bring(self, target: CudaBuffer, source: CudaBuffer, of: Cuda) -> None:
        """Copy all bytes of a source on another GPU, after the work of both and before more."""
        if source.nbytes:
            ends = target.address, source.address, source.nbytes
            self._do("memcpy_peer", *ends, self._context, of._context)

    def load(self, text: KernelText) -> CudaLoaded:
        """Compile kernel text, or take it from the cache, and put it on the device.

        DidymaError ``kernel-text`` with the line at fault.
        """
        code, _ = kept(self._compiler, self._cache, text)
        return CudaLoaded(text, code, self.checked, self._stream, early=self.early)

    def remarks(self, text: KernelText) -> tuple[str, ...]:
        """Return why the assembler lets products of four warps wait for each other, if it does."""
        return kept(self._compiler, self._cache, text)[1]

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Return fresh bytes."""
        allocate = self._driver.mem_alloc if self._pool is None else self._pool.allocate
        try:
            owner = allocate(max(1, nbytes))  # CUDA allocates no empty range
        except self._driver.MemoryError as e:
            raise DidymaError(
                "too-large", "the memory of the GPU", got=f"{nbytes} bytes, which it refused: {e}",
                want="an allocation that fits", help="free arrays, or use smaller ones",
            ) from e  # fmt: skip
        except self._driver.Error as e:
            raise self.failure(e) from e
        buffer = CudaBuffer(int(owner), nbytes, owner)
        if self.checked and nbytes:
            self._do("memset_d8", buffer.address, POISON, nbytes)
            if self._streams:  # which do not wait for the default stream
                self.join()
        return buffer

    def free(self, buffer: CudaBuffer) -> None:
        """Give bytes back that ``allocate`` or ``upload`` returned."""
        owner: Any = buffer.owner
        if not buffer.lent and not isinstance(owner, DeviceArray):
            owner.free()
        buffer.owner = None

    def view(self, buffer: CudaBuffer, offset: int, nbytes: int) -> CudaBuffer:
        """Part of a buffer, sharing its bytes."""
        assert 0 <= offset <= offset + nbytes <= buffer.nbytes, "a view outside its buffer"
        return CudaBuffer(buffer.address + offset, nbytes, buffer)

    @cached_property
    def resident(self) -> Cuda:
        """This engine for calls whose arrays are, and whose results stay, on the GPU.

        Its ``upload`` takes a ``DeviceArray`` without a copy, and ``download`` returns one.
        """
        twin = copy(self)
        twin._resident = True
        return twin

    def upload(self, array: Array | DeviceArray) -> CudaBuffer:
        """Return a new buffer with the array's bytes, packed where its dtype is.

        An array on the GPU is taken as it is.
        """
        if isinstance(array, DeviceArray):
            if array.address % ALIGNED == 0:
                return CudaBuffer(array.address, array.nbytes, array)
            buffer = self.allocate(array.nbytes)  # as a row may begin anywhere
            self.copy(buffer, CudaBuffer(array.address, array.nbytes, array))
            return buffer
        array = to_memory(array)
        buffer = self.allocate(array.nbytes)
        if array.nbytes:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._do("memcpy_htod", buffer.address, data)
        return buffer

    def download(self, buffer: CudaBuffer, dtype: str, shape: Sequence[int]) -> Any:
        """Copy a buffer's first bytes out as an array, once every launch before has ended.

        A ``resident`` engine returns a ``DeviceArray`` at once.
        """
        if self._resident:
            return self._kept(buffer, DType(dtype), tuple(shape))
        out = np.empty(nbytes_of(dtype, shape), np.uint8)
        assert out.nbytes <= buffer.nbytes, "a download of more than there is"
        if out.nbytes:
            self._do("memcpy_dtoh", out, buffer.address)
        return from_memory(out, dtype, shape)

    def lend(self, buffer: CudaBuffer, dtype: DType, shape: tuple[int, ...]) -> DeviceArray:
        """Return a whole allocation as an array that stays on the GPU."""
        buffer.lent = True
        return DeviceArray(buffer.address, dtype, shape, self.number, buffer.owner)

    def pack(self, found: Borrowed) -> DeviceArray:
        """Copy an array that is not in row-major order into a new one that is, on the GPU."""
        rank, nbytes = len(found.shape), found.dtype.numpy.itemsize
        kernel = self._packers.get((rank, nbytes))
        if kernel is None:
            kernel = self._packers[rank, nbytes] = self.load(strided.text(rank, nbytes))
        made = self.allocate(nbytes_of(found.dtype, found.shape))
        sizes = strided.sizes(found.shape, found.strides)
        lowest = found.address - nbytes * sizes["first"]
        given = CudaBuffer(lowest, nbytes * sizes["span"], found.owner)
        try:
            kernel.launch(strided.NAME, (given, made), sizes)
        except KernelFault as e:
            raise self.failure(e, f"kernel {strided.NAME}") from e
        return self.lend(made, found.dtype, found.shape)

    def _kept(self, buffer: CudaBuffer, dtype: DType, shape: tuple[int, ...]) -> DeviceArray:
        """Return a buffer's first bytes as an array that stays on the GPU.

        It shares the allocation that it is a part of where it is at least half of that, so that
        what it keeps alive is at most twice its size; else it is a copy.
        """
        nbytes, root = nbytes_of(dtype, shape), buffer
        while isinstance(root.owner, CudaBuffer):
            root = root.owner
        address = buffer.address
        if isinstance(root.owner, DeviceArray) or 2 * nbytes < root.nbytes:
            root = self.allocate(nbytes)
            address = root.address
            if nbytes:
                self._do("memcpy_dtod", address, buffer.address, nbytes)
        root.lent = True
        return DeviceArray(address, dtype, shape, self.number, root.owner)

    def copy(self, target: CudaBuffer, source: CudaBuffer) -> None:
        """Copy all bytes of ``source`` over the start of ``target``."""
        assert source.nbytes <= target.nbytes, "a copy into less than it needs"
        if source.nbytes:
            self._do("memcpy_dtod", target.address, source.address, source.nbytes)

    def stack(self, nbytes: int) -> CudaBuffer:
        """Allocate."""
        return self.allocate(nbytes)

    def unstack(self, buffer: CudaBuffer) -> None:
        """Free."""
        self.free(buffer)

    def wait(self, stream: int, on: int) -> None:
        """Let a stream wait for an event that another records; the host waits for stream 0."""
        waiting, awaited = self._stream(stream), self._stream(on)
        if waiting is None or awaited is None:
            self.join()
            return
        event = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        event.record(awaited)
        waiting.wait_for_event(event)

    def join(self) -> None:
        """Wait for the whole device."""
        try:
            self._driver.Context.synchronize()
        except self._driver.Error as e:
            raise self.failure(e) from e

    def _do(self, name: str, *args: Any) -> None:
        """Call a function of PyCUDA's; DidymaError where it fails."""
        try:
            getattr(self._driver, name)(*args)
        except self._driver.Error as e:
            raise self.failure(e) from e

    def failure(
        self, e: Exception, where: str = "a kernel that was launched before"
    ) -> DidymaError:
        """Return the error for a call of the driver that failed, or found what a launch did."""
        if code := driver.lasting():
            return driver.failure(code, where, "")
        return DidymaError(
            "launch-failed", where, got=str(e), want="a call that CUDA accepts",
            help="the engine can be used as before",
        )  # fmt: skip

    def _stream(self, number: int) -> pycuda_driver.Stream | None:
        """A stream by number; 0 is CUDA's default stream, for which the others do not wait."""
        if number == 0:
            return None
        if number not in self._streams:
            self.join()
            self._streams[number] = self._driver.Stream(_NON_BLOCKING)
        return self._streams[number]


def kept(compiler: NvrtcCompiler, folder: Path, text: KernelText) -> tuple[bytes, tuple[str, ...]]:
    """Return the machine code of kernel text with the compiler's remarks, which the folder keeps.

    DidymaError ``kernel-text`` with the line at fault.
    """
    key = "\0".join((compiler.source(text), compiler.version, *compiler.options(text)))
    code = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.cubin"
    remarks = code.with_suffix(".txt")
    if code.exists() and remarks.exists():
        return code.read_bytes(), tuple(remarks.read_text(encoding="utf-8").splitlines())
    made = compiler.compile(text)
    store(remarks, "\n".join(made.remarks).encode())
    store(code, made.code)
    return made.code, made.remarks


def ahead(architecture: str) -> Callable[[KernelText], None]:
    """Return what compiles kernel text for engines to come, without a GPU.

    EngineMissing where there is no NVRTC.
    """
    compiler, folder = NvrtcCompiler(architecture), cache_folder() / "cuda"

    def compile_(text: KernelText) -> None:
        if text.source:
            kept(compiler, folder, text)

    return compile_


class CudaLoaded:
    """Kernels on the device; they stay as long as this object.

    ``functions`` are their handles by name, and ``shared`` the bytes of shared memory that launches
    of some of them ask for.  If they begin ``early``, the code waits for what precedes them.
    """

    def __init__(
        self, text: KernelText, code: bytes, synchronous: bool,
        streams: Callable[[int], pycuda_driver.Stream | None], *, early: bool = False,
    ) -> None:  # fmt: skip
        self.text = text
        self.early = early
        self._streams = streams
        self._synchronous = synchronous
        module = driver.load(code)
        weakref.finalize(self, driver.unload, module).atexit = False  # the context may be gone then
        self.functions = {s.name: driver.function(module, s.name) for s in text.kernels}
        self.shared = placed(text.source)[1]
        for name, nbytes in self.shared.items():
            driver.allow_shared(self.functions[name], nbytes)
        self._geometries = {s.name: Geometries(s) for s in text.kernels}
        self._launch = driver.launcher(early=early)

    def launch(
        self,
        kernel: str,
        buffers: Sequence[CudaBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Start a kernel; KernelFault ``crash`` where CUDA reports one."""
        made = self._arguments(kernel, buffers, dims, scalars)
        if made is None:
            return
        k, _held = made
        on = self._streams(stream)
        code: int = self._launch(*driver.launch(
            k.function, tuple(k.grid), tuple(k.block), k.shared,
            c_void_p(0 if on is None else on.handle), c_void_p(k.arguments), early=self.early,
        ))  # fmt: skip
        if not code and self._synchronous:
            code = driver.library().cuCtxSynchronize()
        if code:
            raise KernelFault([Fault("crash", kernel, driver.error_name(code))])

    def repeated(
        self,
        launches: Sequence[tuple[str, Sequence[CudaBuffer]]],
        dims: Mapping[str, int],
        times: int,
    ) -> Callable[[], None]:
        """Return what starts kernels in their order, so many times, as one CUDA graph.

        Its call raises DriverError where the driver refuses it.
        """
        made = [m for name, buffers in launches if (m := self._arguments(name, buffers, dims, ()))]
        kernels = [k for _ in range(times) for k, _held in made]
        after = [[n - 1] if n else [] for n in range(len(kernels))]
        graph = Graph(kernels, after, early=self.early)
        run = partial(graph.start, c_void_p(0))
        weakref.finalize(run, graph.close).atexit = False
        return run

    def _arguments(
        self,
        kernel: str,
        buffers: Sequence[CudaBuffer],
        dims: Mapping[str, int],
        scalars: Sequence[float],
    ) -> tuple[Kernel, object] | None:
        """Return how to launch a kernel, and what must live until then; None for an empty grid."""
        geometries = self._geometries.get(kernel)
        if geometries is None:
            geometries = self._geometries[signature(self.text, kernel).name]
        s, g = geometries.signature, geometries(dims)
        check_buffers(s, g, [b.nbytes for b in buffers])
        if g.empty:
            return None
        known = (d & 0xFFFF_FFFF_FFFF_FFFF for d in g.dims)
        maps = [w for d in g.maps for w in driver.tensor_map(buffers[d.buffer].address, d)]
        addresses = (b.address for b in buffers)
        cells = array("Q", (*addresses, *maps, *known, *words(s, scalars)))
        first = cells.buffer_info()[0]
        begin = starts(len(buffers), len(g.maps), len(cells))
        args = array("Q", (first + 8 * at for at in begin))
        nbytes, address = self.shared.get(kernel, 0), args.buffer_info()[0]
        return Kernel(self.functions[kernel], g.grid, s.block, nbytes, address), (cells, args)


def _pycuda() -> Any:
    try:
        from pycuda import driver as found
    except ImportError as e:
        raise _missing(f"no PyCUDA: {e}") from e
    module: ModuleType = found
    return module


def _pool() -> DeviceMemoryPool:
    from pycuda.tools import DeviceMemoryPool

    return DeviceMemoryPool()


def _device(found: Any, number: int) -> pycuda_driver.Device:
    try:
        found.init()
        count: int = found.Device.count()
    except found.Error as e:
        raise _missing(f"no CUDA driver: {e}") from e
    if number >= count:
        raise _missing(f"{count} GPUs, none of number {number}")
    device: pycuda_driver.Device = found.Device(number)
    return device


def _missing(got: str) -> EngineMissing:
    return EngineMissing(
        "engine-missing", "cuda", got=got, want="PyCUDA, its driver and a GPU", help=_MEND
    )
