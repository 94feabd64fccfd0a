"""An engine that watches what a generated wrapper does with memory and streams.

It passes every call on to another engine, and demands what no engine need check: bytes are freed
once, are not used afterwards, and all are freed when the call has returned; work on bytes that two
streams share waits for what the other did (vector clocks: Fidge and Mattern, 1988).  It knows
engines by their launch interface alone, and nothing of plans: what a run takes of memory is for
the judge to compare with what the plan takes.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeAlias

from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir.types import Array, DType, nbytes_of

Clock: TypeAlias = dict[int, int]  # by stream: how much of its work is known to have ended
WRAPPER = "<wrapper>"  # what the wrapper's source was compiled as


class EngineMemoryFault(Exception):
    """A wrapper does with memory or streams what it must not."""


@dataclass(slots=True, weakref_slot=True)
class Allocated:
    """Bytes that an engine has handed out: at which line of the wrapper, and what used them.

    ``content`` are bytes that nobody may write.  ``uses`` map start, stop, stream and whether the
    use wrote to the tick of the stream at the last such use.
    """

    number: int
    nbytes: int
    line: int
    how: str
    alive: bool = True
    device: str = ""
    content: bytes | None = None
    uses: dict[tuple[int, int, int, bool], int] = field(
        default_factory=dict[tuple[int, int, int, bool], int]
    )


@dataclass(slots=True)
class WatchedBuffer:
    """A buffer of the engine that is watched, and which bytes of an allocation it shows."""

    buffer: Any
    of: Allocated
    start: int
    stop: int
    whole: bool = True

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.stop - self.start


class WatchedEngine:
    """Passes calls on to an engine, and raises EngineMemoryFault for what they do wrong.

    ``source`` is the text of the wrapper, whose lines messages quote.  With ``streams`` the order
    of work is judged too.  ``use`` is told what the run takes of memory.
    """

    def __init__(
        self,
        engine: Any,
        use: MemoryUse | None = None,
        source: str = "",
        *,
        streams: bool = False,
    ) -> None:
        self.engine = engine
        self.name: str = engine.name
        self.use = use or MemoryUse()
        self._lines = source.splitlines()
        self._held: dict[int, Allocated] = {}  # in the order in which they were handed out
        self._count = 0
        self._streams = streams
        self._here = ""  # the device that works, by the innermost guard
        self._clocks: dict[int, Clock] = {}
        self._host: Clock = {}  # the work that has ended before whatever the host does next

    # ---- the launch interface

    def current(self) -> AbstractContextManager[None]:
        """Return what lets a thread use the engine."""
        found: AbstractContextManager[None] = self.engine.current()
        return found

    @contextmanager
    def on(self, device: str) -> Generator[None]:
        """Let a device of the engine work inside a ``with`` statement."""
        before, self._here = self._here, device
        try:
            with self.engine.on(device):
                yield
        finally:
            self._here = before

    def allocate(self, nbytes: int) -> WatchedBuffer:
        """Allocate bytes, which count."""
        return self._counted(self.engine.allocate(nbytes), nbytes, "allocate")

    def stack(self, nbytes: int) -> WatchedBuffer:
        """Allocate bytes of the stack, which count."""
        return self._counted(self.engine.stack(nbytes), nbytes, "stack")

    def upload(self, array: Array) -> WatchedBuffer:
        """Upload an array, an input or a constant; its bytes do not count, and must stay."""
        values = scalar_ring.value_of(array)
        nbytes = nbytes_of(DType.of(values), values.shape)
        made = self._new(self.engine.upload(array), nbytes, "upload")
        made.of.content = self._content(made)
        return made

    def free(self, buffer: WatchedBuffer) -> None:
        """Free bytes that ``allocate`` or ``upload`` returned."""
        self._release(buffer, "free", ("allocate", "upload"))
        self.engine.free(buffer.buffer)

    def unstack(self, buffer: WatchedBuffer) -> None:
        """Free bytes that ``stack`` returned."""
        self._release(buffer, "unstack", ("stack",))
        self.engine.unstack(buffer.buffer)

    def view(self, buffer: WatchedBuffer, offset: int, nbytes: int) -> WatchedBuffer:
        """Return a view, which must lie in what it shows."""
        self._demand_alive(buffer, "viewed")
        start, stop = buffer.start + offset, buffer.start + offset + nbytes
        if not buffer.start <= start <= stop <= buffer.stop:
            raise self._fault(
                f"bytes {offset} to {offset + nbytes} of {buffer.nbytes} are viewed", buffer.of
            )
        made = self.engine.view(buffer.buffer, offset, nbytes)
        return WatchedBuffer(made, buffer.of, start, stop, whole=False)

    def download(self, buffer: WatchedBuffer, dtype: str, shape: Sequence[int]) -> Array:
        """Download an array, for which the host waits."""
        self.touch(((buffer, False),), 0, "downloaded")
        _advance(self._host, self._clocks.get(0, {}))
        found: Array = self.engine.download(buffer.buffer, dtype, shape)
        return found

    def copy(self, target: WatchedBuffer, source: WatchedBuffer) -> None:
        """Copy bytes on stream 0."""
        self.use.step("copy")
        self.touch(((source, False), (target, True)), 0, "copied")
        self.engine.copy(target.buffer, source.buffer)

    def wait(self, stream: int, on: int) -> None:
        """Let a stream wait for another."""
        _advance(self._clocks.setdefault(stream, {}), self._clocks.setdefault(on, {}))
        self.engine.wait(stream, on)

    def join(self) -> None:
        """Let all streams wait for one another."""
        for clock in self._clocks.values():
            _advance(self._host, clock)
        self.engine.join()

    def loaded(
        self, text: Any, kernels: Mapping[str, tuple[str, Sequence[bool]]]
    ) -> WatchedKernels:
        """Watch kernel text that the engine has loaded.

        ``kernels`` has by its name in the text a kernel's name in the program, and which of its
        buffers it writes.
        """
        return WatchedKernels(self, text, kernels)

    def lent(self, buffer: Any, nbytes: int) -> WatchedBuffer:
        """Watch a buffer of the engine that stays the caller's."""
        a = Allocated(0, nbytes, 0, "lend", device=getattr(buffer, "device", ""))
        return WatchedBuffer(buffer, a, 0, nbytes)

    def routine(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Watch a library routine, which is given the engine itself, and what it allocates.

        It says how many bytes each of its buffers has, by ``nbytes``.
        """

        def routine(
            engine: WatchedEngine,
            outputs: Sequence[WatchedBuffer],
            inputs: Sequence[WatchedBuffer],
            attrs: Mapping[str, Any],
        ) -> Any:
            touched = (*((b, False) for b in inputs), *((b, True) for b in outputs))
            engine.demand_here([b for b, _ in touched])
            engine.touch(touched, 0, "given to a routine")
            outs, ins = ([b.buffer for b in bs] for bs in (outputs, inputs))
            made: Any = run(engine.engine, outs, ins, attrs)
            if made is None:
                return None
            several = isinstance(made, (list, tuple))
            own: list[Any] = [*made] if several else [made]
            watched = [engine._counted(b, b.nbytes, "allocate") for b in own]
            return watched if several else watched[0]

        return routine

    # ---- judgements

    def demand_freed(self) -> None:
        """Raise the fault of bytes that were handed out and not freed, once a call has returned."""
        self._demand_none(list(self._held.values()))

    def demand_let_go(self) -> None:
        """Raise the fault of bytes that somebody still holds, once a call has raised an error.

        An engine frees bytes that nobody holds any more.
        """
        held = [weakref.ref(a) for a in self._held.values()]
        self._held.clear()
        self._demand_none([a for ref in held if (a := ref()) is not None])

    def _demand_none(self, held: Sequence[Allocated]) -> None:
        if held:
            total = sum(a.nbytes for a in held)
            more = f", and {len(held) - 1} more, {total} bytes in all" if len(held) > 1 else ""
            raise self._fault(f"{held[0].nbytes} bytes are never freed{more}", held[0])

    # ---- inside

    def _counted(self, made: Any, nbytes: int, how: str) -> WatchedBuffer:
        self.use.take(nbytes, stack=how == "stack")
        return self._new(made, nbytes, how)

    def _new(self, made: Any, nbytes: int, how: str) -> WatchedBuffer:
        self._count += 1
        a = Allocated(self._count, nbytes, self._line(), how, device=self._here)
        self._held[self._count] = a
        return WatchedBuffer(made, a, 0, nbytes)

    def _release(self, buffer: WatchedBuffer, how: str, made: Sequence[str]) -> None:
        self._demand_alive(buffer, "freed")
        a = buffer.of
        if not buffer.whole:
            raise self._fault("a view is freed", a)
        if a.how not in made:
            raise self._fault(f"bytes of {a.how} go back by {how}", a)
        self.touch(((buffer, True),), 0, "freed")
        if a.content is not None and self._content(buffer) != a.content:
            raise self._fault("an input or a constant was written", a)
        a.alive = False
        del self._held[a.number]
        if a.how != "upload":
            self.use.give(a.nbytes)

    def _content(self, buffer: WatchedBuffer) -> bytes:
        held: Array = self.engine.download(buffer.buffer, DType.U8, (buffer.nbytes,))
        return held.tobytes()

    def _demand_alive(self, buffer: WatchedBuffer, doing: str) -> None:
        if not buffer.of.alive:
            raise self._fault(f"freed bytes are {doing}", buffer.of)

    def demand_here(self, buffers: Sequence[WatchedBuffer]) -> None:
        """Demand that the device works whose memory is used."""
        for b in buffers:
            if b.of.device != self._here:
                there, here = (d or "the program's own" for d in (b.of.device, self._here))
                raise self._fault(f"bytes of device {there} are used by device {here}", b.of)

    def touch(self, buffers: Sequence[tuple[WatchedBuffer, bool]], stream: int, doing: str) -> None:
        """Demand that bytes are alive, and that what other streams did to them has ended."""
        for b, _ in buffers:
            self._demand_alive(b, doing)
        if not self._streams:
            return
        clock = self._clocks.setdefault(stream, {})
        _advance(clock, self._host)
        now = clock[stream] = clock.get(stream, 0) + 1
        for b, written in buffers:
            for (start, stop, other, wrote), tick in b.of.uses.items():
                apart = stop <= b.start or b.stop <= start or other == stream
                if not apart and (written or wrote) and clock.get(other, 0) < tick:
                    text = f"stream {stream} does not wait for stream {other}"
                    raise self._fault(f"bytes are {doing}, but {text}", b.of)
            b.of.uses[b.start, b.stop, stream, written] = now

    def _line(self) -> int:
        """Return the line of the wrapper that runs; 0 if none does."""
        frame: FrameType | None = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename != WRAPPER:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def _quoted(self, line: int) -> str:
        known = 0 < line <= len(self._lines)
        return f"line {line}: {self._lines[line - 1].strip()}" if known else "elsewhere"

    def _fault(self, text: str, a: Allocated) -> EngineMemoryFault:
        here = f" (at {self._quoted(self._line())})" if self._line() else ""
        return EngineMemoryFault(f"{text}{here}; allocated at {self._quoted(a.line)}")


@dataclass(slots=True)
class WatchedKernels:
    """Kernel text on an engine that is watched."""

    engine: WatchedEngine
    text: Any
    kernels: Mapping[str, tuple[str, Sequence[bool]]]

    def launch(
        self,
        kernel: str,
        buffers: Sequence[WatchedBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Launch a kernel, once what its buffers hold may be read and written."""
        name, writes = self.kernels[kernel]
        self.engine.use.step(name)
        self.engine.demand_here(buffers)
        self.engine.touch(tuple(zip(buffers, writes, strict=True)), stream, f"used by {kernel}")
        self.text.launch(kernel, [b.buffer for b in buffers], dims, stream, scalars)


def _advance(clock: Clock, by: Clock) -> None:
    """Let a clock know of all that another knows."""
    for stream, tick in by.items():
        clock[stream] = max(clock.get(stream, 0), tick)
