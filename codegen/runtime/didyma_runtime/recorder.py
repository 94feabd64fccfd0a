"""An engine that runs a program and records what it is asked for.

Addresses are written as an offset from an input, a result or an allocation, each by its number, or
from nothing, as those of constants are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import currentframe
from types import FrameType
from typing import Any, NamedTuple

from .dtypes import PACKED, Array, nbytes_of
from .host import Buffer, Host, Kernels

NOWHERE, INPUT, OUTPUT, MEMORY = range(4)  # what an address counts from


class Place(NamedTuple):
    """``offset`` bytes from the start of an input, a result or an allocation."""

    base: int
    number: int
    offset: int


class Launched(NamedTuple):
    """A launch: its machine code, its record, and its arguments, sizes last.

    ``frame`` are the numbers of the module's lines from which it came, outermost first.
    """

    kernel: str
    entry: int
    record: bytes
    places: tuple[Place, ...]
    sizes: tuple[int, ...]
    frames: tuple[int, ...]


class Taken(NamedTuple):
    """An allocation of bytes."""

    number: int
    nbytes: int


class Given(NamedTuple):
    """An allocation that ends, or an input that nobody reads any more."""

    base: int
    number: int


class Copied(NamedTuple):
    """Bytes that are copied."""

    to: Place
    source: Place
    nbytes: int


Step = Launched | Taken | Given | Copied


class Placed(Buffer):
    """Bytes of which it is known where they are; ``owner`` is true for all of an allocation."""

    __slots__ = ("owner", "place")

    def __init__(self, buffer: Buffer, place: Place, owner: bool) -> None:
        super().__init__(buffer.address, buffer.nbytes, buffer.base, buffer.offset)
        self.place, self.owner = place, owner


class Recorder:
    """Engine and kernels of one call, as a module's ``run`` uses them.

    ``sound`` is false once something was done that ``steps`` do not tell.
    """

    def __init__(
        self, engine: Host, kernels: Kernels, given: Sequence[Array], file: str, most: int
    ) -> None:
        self._engine, self._kernels, self._file, self._most = engine, kernels, file, most
        self._inputs = {id(a): i for i, a in enumerate(given)}
        self.sound = len(self._inputs) == len(given)
        self.steps: list[Step] = []
        self.results: list[Array] = []  # that were downloaded
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        """Return what else the engine has, of which nothing is recorded."""
        self.sound = False
        return getattr(self._engine, name)

    def _step(self, step: Step) -> None:
        self.sound = self.sound and len(self.steps) < self._most
        self.steps.append(step)

    def allocate(self, nbytes: int) -> Placed:
        """As ``Host.allocate``."""
        return self._allocated(self._engine.allocate(nbytes), nbytes)

    def stack(self, nbytes: int) -> Placed:
        """As ``Host.stack``."""
        return self._allocated(self._engine.stack(nbytes), nbytes)

    def _allocated(self, buffer: Buffer, nbytes: int) -> Placed:
        number, self._taken = self._taken, self._taken + 1
        self._step(Taken(number, nbytes))
        return Placed(buffer, Place(MEMORY, number, 0), owner=True)

    def free(self, buffer: Buffer) -> None:
        """As ``Host.free``."""
        self._given(buffer)
        self._engine.free(buffer)

    def unstack(self, buffer: Buffer) -> None:
        """As ``Host.unstack``."""
        self._given(buffer)
        self._engine.unstack(buffer)

    def _given(self, buffer: Buffer) -> None:
        if isinstance(buffer, Placed) and buffer.owner:
            self._step(Given(buffer.place.base, buffer.place.number))

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """As ``Host.view``."""
        made, place = self._engine.view(buffer, offset, nbytes), self._place(buffer)
        return Placed(made, place._replace(offset=place.offset + offset), owner=False)

    def upload(self, array: Array) -> Buffer:
        """As ``Host.upload``."""
        number = self._inputs.get(id(array), -1)
        self.sound = self.sound and number >= 0 and array.dtype.name not in PACKED
        return Placed(self._engine.upload(array), Place(INPUT, number, 0), owner=True)

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """As ``Host.download``."""
        array = self._engine.download(buffer, dtype, shape)
        nbytes = nbytes_of(dtype, shape)
        self.sound = self.sound and array.dtype.name not in PACKED
        self._step(Copied(Place(OUTPUT, len(self.results), 0), self._place(buffer), nbytes))
        self.results.append(array)
        return array

    def copy(self, target: Buffer, source: Buffer) -> None:
        """As ``Host.copy``."""
        self._engine.copy(target, source)
        self._step(Copied(self._place(target), self._place(source), source.nbytes))

    def wait(self, stream: int, on: int) -> None:
        """As ``Host.wait``, which leaves nothing to record."""

    def join(self) -> None:
        """As ``Host.join``, which leaves nothing to record."""

    def launch(
        self, kernel: str, buffers: Sequence[Buffer], sizes: Mapping[str, int], stream: int = 0
    ) -> None:
        """As ``Kernels.launch``."""
        self._kernels.launch(kernel, buffers, sizes, stream)
        entry, record, values = self._kernels.launched(kernel, sizes)
        if record is not None:
            places = tuple(self._place(b) for b in buffers)
            frames = tuple(reversed(_lines(self._file, currentframe())))
            self._step(Launched(kernel, entry, record, places, values, frames))

    def _place(self, buffer: Buffer) -> Place:
        if isinstance(buffer, Placed):
            return buffer.place
        return Place(NOWHERE, 0, buffer.address)


def _lines(file: str, frame: FrameType | None) -> list[int]:
    found: list[int] = []
    while frame is not None:
        if frame.f_code.co_filename == file:
            found.append(frame.f_lineno)
        frame = frame.f_back
    return found
