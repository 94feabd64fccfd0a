"""The engine: kernels as loops over lanes by gcc, clang or Zig, blocks shared among threads."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from importlib.resources import files
from pathlib import Path
from time import perf_counter

from didyma.codegen.emit import prelude
from didyma.codegen.runtime.compiler import HELP, CCompiler, each_found
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.fast.units import Unit, units
from didyma.codegen.runtime.geometry import (
    Geometries,
    check_buffers,
    signature,
    words,
)
from didyma.codegen.runtime.host import (
    Host,
    HostBuffer,
    HostLoaded,
    fresh,
    written,
)
from didyma.codegen.runtime.native import Native
from didyma.refimpl.cores import cores
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir.kernel import KernelText

WORTH = 100e-6  # seconds of one thread from which on others help
TURNS = 8  # that each thread takes of a launch, at least
WORDS = 6  # of Work__ of blocks.c, behind which the arguments stand
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def compiler(which: str | None = None, cache: Path | None = None) -> CCompiler:
    """Return a compiler by its name, or the best of this machine; EngineMissing if it has none."""
    if which is not None:
        return CCompiler(which, cache)
    found = next(each_found(), None)
    if found is None:
        raise EngineMissing(
            "engine-missing",
            "host-fast",
            got="neither clang nor gcc nor Zig",
            want="an optimising C compiler",
            help=HELP,
        )
    return CCompiler(found, cache)


class HostFast(Host):
    """Engine ``host-fast``, for programs that run for long.

    Kernels are the same texts as on ``host`` and give the same bits, apart from those of NaN.
    ``which`` is ``clang``, ``gcc``, ``zig`` or a command; without, the first of these that is
    installed.  ``threads`` share the blocks of a launch: as many as there are cores, unless given.
    Kernels with atomic updates run on one, so that results repeat.  Objects are kept in ``cache``.
    Without ``checked``, memory is not filled when it is allocated or freed, and guard bytes are not
    looked at.
    """

    name = "host-fast"

    def __init__(
        self,
        which: str | None = None,
        threads: int | None = None,
        cache: Path | None = None,
        *,
        checked: bool = True,
    ) -> None:
        self._optimising = compiler(which, cache)
        super().__init__(self._optimising)
        self.threads = threads or cores()
        self.about = f"runs kernels on this CPU, compiled by {self._optimising.found.name}"
        self._checked = checked
        self.blocks = (files(prelude) / "blocks.c").read_text(encoding="utf-8")
        self._team = _Team(self.threads)

    def load(self, text: KernelText) -> FastLoaded:
        """Compile kernel text; DidymaError as on ``host``."""
        made = list(units(text, self.prelude, self.blocks, self.driver))
        with ThreadPoolExecutor(self.threads) as pool:
            natives = list(pool.map(self._compiled, made))
        return FastLoaded(text, dict(zip(made, natives, strict=True)), self._team, self)

    def _compiled(self, u: Unit) -> Native:
        name = u.signature.name
        return self._optimising.compile(u.source, name, [f"launch_{name}__"])

    def fibers(self, text: KernelText, u: Unit, native: Native) -> HostLoaded:
        """Return a kernel that runs as fibers, on one thread."""
        assert u.part is not None
        one = KernelText(text.source, (u.signature,), text.origins, text.intrinsics)
        return HostLoaded(one, {u.signature.name: u.part}, native, self._stage)

    def allocate(self, nbytes: int) -> HostBuffer:
        """Return fresh bytes, poisoned between guard bytes where this engine checks."""
        return super().allocate(nbytes) if self._checked else fresh(nbytes)

    def free(self, buffer: HostBuffer) -> None:
        """Release an allocation; KernelFault ``guard`` where this engine checks."""
        if self._checked:
            super().free(buffer)
        else:
            buffer.live = False

    def looked_at(self, loaded: FastLoaded, kernel: str, buffers: Sequence[HostBuffer]) -> None:
        """Raise KernelFault ``guard`` where this engine checks and a kernel wrote guard bytes."""
        if self._checked and (faults := written(signature(loaded.text, kernel), buffers)):
            raise KernelFault(faults)


class FastLoaded:
    """Compiled kernels; the code lives as long as this object."""

    def __init__(
        self, text: KernelText, made: Mapping[Unit, Native], team: _Team, engine: HostFast
    ) -> None:
        self.text = text
        self._engine = engine
        self._team = team
        self._natives = tuple(made.values())
        self._fibers: dict[str, HostLoaded] = {}
        self._kernels: dict[str, _FastKernel] = {}
        for u, native in made.items():
            name = u.signature.name
            if u.part is not None:
                self._fibers[name] = engine.fibers(text, u, native)
            else:
                self._kernels[name] = _FastKernel(u, native)

    def launch(
        self,
        kernel: str,
        buffers: Sequence[HostBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run a kernel; KernelFault as on ``host``."""
        if (fibers := self._fibers.get(kernel)) is not None:
            fibers.launch(kernel, buffers, dims, stream, scalars)
            return
        k = self._kernels.get(kernel)
        if k is None:
            k = self._kernels[signature(self.text, kernel).name]
        g = k.geometry(dims)
        check_buffers(k.unit.signature, g, [b.nbytes for b in buffers])
        assert all(b.root.live for b in buffers), "a buffer was freed"
        if g.empty:
            return
        args = [b.address for b in buffers]
        args += [d % 2**64 for d in g.dims]
        if scalars or k.unit.signature.scalars:
            args += words(k.unit.signature, scalars)
        self._team.run(k, args, g.grid, (self, *(b.array for b in buffers)))
        self._engine.looked_at(self, kernel, buffers)

    def close(self) -> None:
        """Free the code; nothing can be launched afterwards."""
        self._kernels.clear()
        for native in self._natives:
            native.close()


class _FastKernel:
    """A unit, its entry, and how long one thread would run it, by the number of blocks."""

    def __init__(self, u: Unit, native: Native) -> None:
        self.unit = u
        self.entry = _ENTRY(native.addresses[f"launch_{u.signature.name}__"])
        self.geometry = Geometries(u.signature)
        self.seconds: dict[int, float] = {}


class _Team:
    """Threads that share the blocks of a launch; blocks are independent, so results repeat."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(
        self, k: _FastKernel, args: Sequence[int], grid: tuple[int, int, int], kept: object
    ) -> None:
        """Run a grid to its end, also where an interrupt comes meanwhile.

        ``kept`` owns what the grid's addresses lead to.
        """
        blocks = math.prod(grid)
        helpers = min(self._threads, blocks) - 1 if k.unit.parallel else 0
        if k.seconds.get(blocks, 0.0) < WORTH:
            helpers = 0
        grain = max(1, blocks // ((helpers + 1) * TURNS)) if helpers else blocks
        x, y, z = grid
        work = array("Q", (0, blocks, 0, grain, x | y << 32, z, *args))
        at, _ = work.buffer_info()
        work[0] = at + WORDS * work.itemsize
        begin = perf_counter()
        if helpers:
            given: list[Future[None]] = []
            try:
                self._give(given, partial(_help, k.entry, at, (kept, work)), helpers)
                k.entry(at)
            finally:
                _end(given)
        else:
            k.entry(at)
        k.seconds[blocks] = (perf_counter() - begin) * (helpers + 1)

    def _give(self, given: list[Future[None]], work: Callable[[], None], helpers: int) -> None:
        with self._lock:
            if self._pool is None or self._process != os.getpid():  # threads do not survive a fork
                self._pool = ThreadPoolExecutor(self._threads - 1, "didyma")
                self._process = os.getpid()
            given.extend(self._pool.submit(work) for _ in range(helpers))


def _help(entry: Callable[[int], None], at: int, kept: object) -> None:
    """Run blocks; what they use lives at least as long."""
    entry(at)
    del kept


def _end(given: Sequence[Future[None]]) -> None:
    """Wait for those that have begun; an interrupt while it waits is raised afterwards."""
    interrupt: KeyboardInterrupt | None = None
    begun = [f for f in given if not f.cancel()]
    while not all(f.done() for f in begun):
        try:
            wait(begun)
        except KeyboardInterrupt as e:
            interrupt = e
    if interrupt is not None:
        raise interrupt
    for f in begun:
        f.result()
