"""An engine that runs a program and records what it is asked for.

Addresses are written as an offset from an input, a result or an allocation, each by its number, or
from nothing, as those of constants are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import currentframe
from types import FrameType
from typing import Any, NamedTuple

from .dtypes import PACKED, Array, nbytes_of
from .host import Buffer, Host, Kernels
from .rows import lent

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


class Row(NamedTuple):
    """The memory of an input in elements: how many lie before its first, and how many there are."""

    before: int
    span: int


Step = Launched | Taken | Given | Copied


class Placed(Buffer):
    """Bytes of which it is known where they are; ``owner`` is true for all of an allocation."""

    __slots__ = ("owner", "place")

    def __init__(self, buffer: Buffer, place: Place, owner: bool) -> None:
        super().__init__(buffer.address, buffer.nbytes, buffer.base, buffer.offset)
        self.place, self.owner = place, owner


class Recording:
    """What the devices of one call were asked for, in order.

    ``sound`` is false once something was done that ``steps`` do not tell.
    """

    def __init__(self, given: Sequence[Array], most: int) -> None:
        self._inputs = {id(a): i for i, a in enumerate(given)}
        self.rows: dict[int, Row] = {}  # the memory of inputs that are read as they lie
        self.sound = len(self._inputs) == len(given)
        self.steps: list[Step] = []
        self.results: list[Array] = []  # that were downloaded
        self.taken = 0
        self._most = most

    def input(self, array: Array) -> int:
        """Return the number of the input that an array is, or whose memory it is; -1 of others."""
        of = lent(array)
        number = self._inputs.get(id(of[0] if of else array), -1)
        if of:
            self.rows[number] = Row(of[1], array.size)
        return number

    def step(self, step: Step) -> None:
        """Add a step."""
        self.sound = self.sound and len(self.steps) < self._most
        self.steps.append(step)


class Recorder:
    """Engine and kernels of a device for one call, as a module's ``run`` uses them."""

    replays = False  # what is recorded is not recorded again

    def __init__(self, engine: Host, kernels: Kernels, recording: Recording, file: str) -> None:
        self._engine, self._kernels, self._file = engine, kernels, file
        self.recording, self.name = recording, engine.name

    def __getattr__(self, name: str) -> Any:
        """Return what else the engine has, of which nothing is recorded."""
        found = getattr(self._engine, name)
        self.recording.sound = False
        return found

    def current(self) -> AbstractContextManager[None]:
        """As ``Host.current``, which leaves nothing to record."""
        return self._engine.current()

    def allocate(self, nbytes: int) -> Placed:
        """As ``Host.allocate``."""
        return self._allocated(self._engine.allocate(nbytes), nbytes)

    def stack(self, nbytes: int) -> Placed:
        """As ``Host.stack``."""
        return self._allocated(self._engine.stack(nbytes), nbytes)

    def _allocated(self, buffer: Buffer, nbytes: int) -> Placed:
        number = self.recording.taken
        self.recording.taken += 1
        self.recording.step(Taken(number, nbytes))
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
            self.recording.step(Given(buffer.place.base, buffer.place.number))

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """As ``Host.view``."""
        made, place = self._engine.view(buffer, offset, nbytes), self._place(buffer)
        return Placed(made, place._replace(offset=place.offset + offset), owner=False)

    def upload(self, array: Array) -> Buffer:
        """As ``Host.upload``."""
        number, known = self.recording.input(array), array.dtype.name not in PACKED
        self.recording.sound = self.recording.sound and number >= 0 and known
        return Placed(self._engine.upload(array), Place(INPUT, number, 0), owner=True)

    def download(self, buffer: Buffer, dtype: str, shape: Sequence[int]) -> Array:
        """As ``Host.download``."""
        array = self._engine.download(buffer, dtype, shape)
        nbytes, made = nbytes_of(dtype, shape), self.recording
        made.sound = made.sound and array.dtype.name not in PACKED
        made.step(Copied(Place(OUTPUT, len(made.results), 0), self._place(buffer), nbytes))
        made.results.append(array)
        return array

    def copy(self, target: Buffer, source: Buffer) -> None:
        """As ``Host.copy``."""
        self._engine.copy(target, source)
        self.recording.step(Copied(self._place(target), self._place(source), source.nbytes))

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
            self.recording.step(Launched(kernel, entry, record, places, values, frames))

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
