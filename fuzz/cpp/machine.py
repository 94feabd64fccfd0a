"""The memory of a device and its driver, as loaders in C++ see them: addresses are numbers.

Bytes are freed where no buffer is left that shows them.  Whatever is wrong raises Fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

FRESH = 0xA5  # what bytes hold before they are written
APART = 1 << 32  # from allocation to allocation, of which none is as large
FIRST = 1 << 40  # the address of the first


class Fault(Exception):
    """A loader does what C++, the driver or the program forbids."""


class Refusal(Exception):
    """A loader refuses its arguments, with a code."""


@dataclass(eq=False, slots=True)
class Allocation:
    """Bytes of the device."""

    at: int
    data: bytearray
    counts: bool


@dataclass(frozen=True, slots=True)
class Buffer:
    """An address in an allocation that lives as long as the buffer; a new one has neither."""

    owner: Allocation | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch: of which kernel, how many blocks and threads, and what it is given."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    words: tuple[int, ...]
    buffers: int
    maps: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Machine:
    """A device, and the ``files`` of the folder that a loader runs in.

    ``kernels`` run launches on the memory that their first words show, each to its end.  If
    ``steps`` are given, kernels and copies must be these, one after another.
    """

    kernels: Callable[[Launched, Sequence[memoryview]], None]
    buffers_of: Mapping[str, int]
    files: dict[str, bytes]
    steps: Sequence[str] | None = None
    done: int = 0
    required: tuple[int, int, bool] | None = None
    most: int = 0
    _now: int = 0
    _held: dict[int, Allocation] = field(default_factory=dict[int, Allocation])
    _numbers: count[int] = field(default_factory=count)

    def allocate(self, nbytes: int, *, counts: bool = True) -> Buffer:
        """Return a buffer of new bytes, which count unless they are the caller's or constants."""
        if not 0 <= nbytes < APART:
            raise Fault(f"{nbytes} bytes are allocated")
        at = FIRST + APART * next(self._numbers)
        made = self._held[at] = Allocation(at, bytearray([FRESH]) * nbytes, counts)
        self._now += counts * nbytes
        self.most = max(self.most, self._now)
        return Buffer(made, at)

    def free_all_but(self, shown: Iterable[Allocation]) -> None:
        """Free what no buffer shows."""
        left = {a.at for a in shown}
        for at in [at for at in self._held if at not in left]:
            gone = self._held.pop(at)
            self._now -= gone.counts * len(gone.data)

    def at(self, address: int) -> memoryview:
        """Return the bytes from an address to the end of the allocation that it lies in."""
        begin = address - (address - FIRST) % APART
        found = self._held.get(begin)
        if found is None or address - begin > len(found.data):
            raise Fault(f"address {address - FIRST} shows no bytes")
        return memoryview(found.data)[address - begin :]

    def part(self, address: int, nbytes: int) -> memoryview:
        """Return some bytes from an address on."""
        if not nbytes:
            return memoryview(bytearray())
        found = self.at(address)
        if not 0 <= nbytes <= len(found):
            raise Fault(f"{nbytes} bytes are used where {len(found)} are left")
        return found[:nbytes]

    def step(self, name: str) -> None:
        """Note a kernel or a copy that begins."""
        want = name if self.steps is None else [*self.steps, "the end"][self.done]
        if name != want:
            raise Fault(f"step {self.done + 1} is {name}, not {want}")
        self.done += 1

    def launch(self, x: Launched) -> None:
        """Run a kernel, unless its grid has no blocks."""
        if min(x.grid) <= 0:
            return
        many = self.buffers_of[x.kernel]
        if x.maps and x.buffers != many:
            raise Fault(f"{x.kernel} is given its maps behind {x.buffers} words, not {many}")
        self.step(x.kernel)
        self.kernels(x, [self.at(word) for word in x.words[:many]])

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        if path not in self.files:
            raise Refusal("unreadable-file")
        return self.files[path]
