"""Several devices: an engine with memory of its own for each, and guards that say which one works.

What a program does to memory of another device than the one of the guard around it is refused, but
for copies.  Reading a buffer and giving it back need no guard: a buffer knows its device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from .dtypes import Array
from .host import Kernels
from .refused import Refused

OWN = ""  # the program's own device


class Owned:
    """A buffer of the engine of one device."""

    __slots__ = ("buffer", "device")

    def __init__(self, device: str, buffer: Any) -> None:
        self.device, self.buffer = device, buffer

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        found: int = self.buffer.nbytes
        return found


class Devices:
    """The launch interface on several devices; ``engines`` has an engine for each, by its name.

    New memory and launches are those of the device that ``on`` names, else of the program's own.
    Each thread has guards of its own.
    """

    def __init__(self, engines: Mapping[str, Any]) -> None:
        self.engines = engines
        self.name: str = engines[OWN].name
        self._local = threading.local()

    @property
    def here(self) -> str:
        """The device that works, by the innermost guard."""
        found: str = getattr(self._local, "here", OWN)
        return found

    @contextmanager
    def on(self, device: str) -> Generator[None]:
        """Let a device work inside a ``with`` statement; the one before works after it."""
        if device not in self.engines:
            raise Refused(
                "device-unsupported", device, got=f"a value on {device}",
                want=f"one of {', '.join(name or 'its own' for name in self.engines)}",
            )  # fmt: skip
        before, self._local.here = self.here, device
        try:
            with self.ready(device):
                yield
        finally:
            self._local.here = before

    def ready(self, device: str) -> AbstractContextManager[None]:
        """Return what makes a device ready for the calls of a thread, such as a GPU's context."""
        made: Callable[[], AbstractContextManager[None]] | None
        made = getattr(self.engines[device], "current", None)
        return nullcontext() if made is None else made()

    def current(self) -> AbstractContextManager[None]:
        """Return what makes the program's own device ready for the calls of a thread."""
        return self.ready(OWN)

    def _own(self, made: Any) -> Owned:
        return Owned(self.here, made)

    def _of(self, buffer: Owned) -> Any:
        return self.engines[buffer.device]

    def load(self, text: Any) -> DeviceKernels:
        """Compile kernel text for each device."""
        loaded = list[Any]()
        for device, engine in self.engines.items():
            with self.ready(device):
                loaded.append(engine.load(text))
        return self.kernels(loaded)

    def kernels(self, loaded: Sequence[Any]) -> DeviceKernels:
        """Return kernels that each device has loaded, in the order of the engines."""
        return DeviceKernels(self, dict(zip(self.engines, loaded, strict=False)))

    def allocate(self, nbytes: int) -> Owned:
        """Return bytes of the device that works."""
        return self._own(self.engines[self.here].allocate(nbytes))

    def stack(self, nbytes: int) -> Owned:
        """Return a few bytes of the device that works, as its engine's ``stack``."""
        return self._own(self.engines[self.here].stack(nbytes))

    def upload(self, array: Array) -> Owned:
        """Return an array's bytes on the device that works."""
        return self._own(self.engines[self.here].upload(array))

    def free(self, buffer: Owned) -> None:
        """Give bytes back to their device."""
        self._of(buffer).free(buffer.buffer)

    def unstack(self, buffer: Owned) -> None:
        """Give bytes of ``stack`` back to their device."""
        self._of(buffer).unstack(buffer.buffer)

    def view(self, buffer: Owned, offset: int, nbytes: int) -> Owned:
        """Return a part of bytes, on their device."""
        return Owned(buffer.device, self._of(buffer).view(buffer.buffer, offset, nbytes))

    def download(self, buffer: Owned, dtype: str, shape: Sequence[int]) -> Array:
        """Return the first bytes as an array of the host."""
        with self.ready(buffer.device):
            found: Array = self._of(buffer).download(buffer.buffer, dtype, shape)
        return found

    def copy(self, target: Owned, source: Owned) -> None:
        """Copy all bytes of a buffer over the start of one that may be on another device.

        Between devices of two kinds they go through an array of the host.
        """
        to, of = self._of(target), self._of(source)
        if target.device == source.device:
            with self.ready(target.device):
                to.copy(target.buffer, source.buffer)
            return
        with self.ready(source.device):
            of.join()
        if type(to) is not type(of):
            self._through_host(target, source)
            return
        with self.ready(target.device):
            if hasattr(of, "bring"):
                to.bring(target.buffer, source.buffer, of)
            else:
                to.copy(target.buffer, source.buffer)

    def _through_host(self, target: Owned, source: Owned) -> None:
        raw, to = self.download(source, "u8", (source.nbytes,)), self._of(target)
        with self.ready(target.device):
            brought = to.upload(raw)
            to.copy(target.buffer, brought)
            to.join()  # before the bytes that were brought are anyone's
            to.free(brought)

    def wait(self, stream: int, on: int) -> None:
        """Let a stream of each device wait for another."""
        for device, engine in self.engines.items():
            with self.ready(device):
                engine.wait(stream, on)

    def join(self) -> None:
        """Let all streams of each device wait for one another."""
        for device, engine in self.engines.items():
            with self.ready(device):
                engine.join()


class DeviceKernels:
    """Kernels that each device has loaded, by its name."""

    def __init__(self, devices: Devices, loaded: Mapping[str, Any]) -> None:
        self._devices, self._loaded = devices, loaded

    @property
    def replays(self) -> bool:
        """Whether there are kernels that tapes can run: those of all devices are of the host."""
        loaded = self._loaded.values()
        return bool(loaded) and all(isinstance(k, Kernels) and k.replays for k in loaded)

    def of(self, device: str) -> Any:
        """Return the kernels that a device has loaded."""
        return self._loaded[device]

    @property
    def table(self) -> Any:
        """How kernels are launched, by their names."""
        return self._loaded[OWN].table

    def launch(
        self, kernel: str, buffers: Sequence[Owned], sizes: Mapping[str, int], *more: Any
    ) -> None:
        """Run a kernel on the device that works, whose buffers these are; else ``wrong-device``."""
        given = self._given(kernel, buffers)
        self._loaded[self._devices.here].launch(kernel, given, sizes, *more)

    def timed(
        self, kernel: str, buffers: Sequence[Owned], sizes: Mapping[str, int], *more: Any
    ) -> float:
        """Run a kernel as ``launch`` does, and return the seconds that it took."""
        given = self._given(kernel, buffers)
        took: float = self._loaded[self._devices.here].timed(kernel, given, sizes, *more)
        return took

    def read(self, buffer: Owned, nbytes: int) -> Array:
        """Return the first bytes of a buffer, as they lie there."""
        with self._devices.ready(buffer.device):
            found: Array = self._loaded[buffer.device].read(buffer.buffer, nbytes)
        return found

    def _given(self, kernel: str, buffers: Sequence[Owned]) -> list[Any]:
        here = self._devices.here
        for b in buffers:
            if b.device != here:
                raise Refused(
                    "wrong-device", f"kernel {kernel}", got=f"a buffer on {b.device or 'its own'}",
                    want=f"buffers of {here or 'its own'}, the device that works",
                    help="a copy brings a value to another device",
                )  # fmt: skip
        return [b.buffer for b in buffers]


def placed(engine: Any, arrays: Sequence[Array], devices: Sequence[str]) -> list[Any]:
    """Upload arrays, each to a device of its own."""
    found = list[Any]()
    for array, device in zip(arrays, devices, strict=True):
        with engine.on(device):
            found.append(engine.upload(array))
    return found
