"""The memory of the interpreter of programs: bytes that remember which value owns them.

A fresh allocation, a freed one and one taken over hold poison, and a value may be touched only
while it owns its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.faults import ProgramFault, ProgramFaultKind
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.program import ALIGNMENT, Arena, Line, Strided
from didyma.refimpl.ir.text.program import show_instruction
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import ring

POISON = 0xFF  # fills floats: a NaN of each
OTHER_POISON = 0xA5  # fills the others: an integer nobody expects, and no bool


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes, and who owns which of them; several values may own disjoint ranges."""

    data: Array
    payloads: Array | None  # in the ring: a float's stands at the float's first byte
    lent: bool = False  # the caller's: never freed or reused, nor written but as an output
    arena: bool = False
    output: bool = False
    device: str = ""
    owners: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def holders(self, lo: int, hi: int) -> list[str]:
        """Owners of any byte of a range."""
        return [v for v, (a, b) in self.owners.items() if a < hi and lo < b]

    def take(self, value: str, lo: int, hi: int) -> None:
        """Make ``value`` the owner of a range, and nobody else of any byte in it."""
        self.owners = {v: (a, b) for v, (a, b) in self.owners.items() if b <= lo or hi <= a}
        self.owners[value] = (lo, hi)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value lies; ``owner`` is the value itself, or the one it is a view of."""

    allocation: Allocation
    lo: int
    hi: int
    owner: str


@dataclass(frozen=True, slots=True)
class Held:
    """A value in place: its elements and, of floats in the ring, their payloads."""

    values: Array
    payloads: Array | None = None

    def copy(self) -> Held:
        """Return a copy."""
        return Held(self.values.copy(), None if self.payloads is None else self.payloads.copy())

    def seen(self, shape: tuple[int, ...]) -> Array:
        """Return the elements, in place, in another shape; or records of them and their payloads.

        Records are read-only where the elements are; if they are changed, ``put`` them back.
        """
        if self.payloads is None:
            return self.values.reshape(shape)
        records = np.asarray(scalar_ring.joined(self.values, self.payloads)).reshape(shape)
        records.flags.writeable = self.values.flags.writeable
        return records

    def put(self, seen: Array) -> None:
        """Set the value to elements or records, which have as many elements."""
        values = scalar_ring.value_of(seen)
        self.values[...] = values.reshape(self.values.shape)
        if self.payloads is not None:
            self.payloads[...] = scalar_ring.payload_of(seen).reshape(self.values.shape)

    def forget(self) -> None:
        """Make the payloads UNKNOWN."""
        if self.payloads is not None:
            self.payloads[...] = ring.UNKNOWN


class ProgramMemory:
    """The allocations of a run, and the place of every value defined so far.

    ``env`` holds the symbols bound so far, and ``line`` is the line that runs, which faults name.
    With ``poisons`` bytes that change hands are filled with poison; those of a fresh allocation
    always are.  With ``in_ring`` floats have payloads, at the same places as the floats.  ``use``
    counts what is allocated and freed.
    """

    def __init__(
        self,
        types: dict[str, TensorType],
        env: dict[str, int],
        line: Line,
        *,
        poisons: bool,
        use: MemoryUse,
        in_ring: bool = False,
    ) -> None:
        self.in_ring = in_ring
        self.use = use
        self.types = types
        self.env = env
        self.line = line
        self.poisons = poisons
        self.spots: dict[str, Spot] = {}
        self.arenas: dict[str, Allocation] = {}
        self.carried: set[str] = set()
        self.strided: dict[str, Strided] = {}

    def fault(self, kind: ProgramFaultKind, detail: str) -> ProgramFault:
        """Return a fault of the line that runs."""
        return ProgramFault(kind, show_instruction(self.line), detail)

    def size(self, d: dims.Dim) -> int:
        """Value of a size now."""
        return dims.evaluate(d, self.env)

    def nbytes(self, value: str) -> int:
        """Bytes of a value of its type, now."""
        return self.size(self.types[value].nbytes)

    def lend(
        self, name: str, data: Array, payloads: Array | None = None, output: bool = False
    ) -> None:
        """Define a value whose bytes, and payloads, are the caller's."""
        device = self.types[name].device
        allocation = Allocation(data, payloads, lent=True, output=output, device=device)
        allocation.owners[name] = (0, data.size)
        self.spots[name] = Spot(allocation, 0, data.size, name)

    # ---- places

    def spot(self, value: str) -> Spot:
        """Place of a defined value, which need no longer own it."""
        if value not in self.spots:
            raise self.fault("unallocated", f"{value} has no bytes yet")
        return self.spots[value]

    def owned(self, value: str) -> Spot:
        """Place of a value that owns its bytes, or shows those of one that does."""
        spot = self.spot(value)
        if spot.owner not in spot.allocation.owners:
            taken = spot.allocation.holders(spot.lo, spot.hi)
            now = f"now of {', '.join(taken)}" if taken else "now free"
            via = "" if spot.owner == value else f", a view of {spot.owner},"
            raise self.fault(
                "ownership", f"{value}{via} does not own bytes {spot.lo}..{spot.hi}, {now}"
            )
        return spot

    def mine(self, value: str) -> Spot:
        """Place of a value that itself owns bytes of the program's."""
        spot = self.owned(value)
        if spot.allocation.lent:
            raise self.fault("read-only", f"{value} is the caller's")
        if spot.owner != value:
            raise self.fault("ownership", f"{value} is a view of {spot.owner}")
        return spot

    def define(self, value: str, spot: Spot) -> None:
        """Say where a new value lies."""
        if value in self.spots:
            raise self.fault("double-allocation", f"{value} has bytes already")
        if self.types[value].device != spot.allocation.device:
            raise self.fault("device", f"{value} has bytes of another device")
        self.spots[value] = spot

    def array(self, value: str, *, write: bool) -> Array:
        """Return a value as a kernel sees it, in place; read-only unless it may be written."""
        spot, t = self.owned(value), self.types[value].memory
        if write and spot.allocation.lent and not spot.allocation.output:
            raise self.fault("read-only", f"{value} is the caller's")
        shape = tuple(self.size(d) for d in t.shape)
        data = spot.allocation.data[spot.lo : spot.hi]
        if self.nbytes(value) != data.size:
            raise self.fault("stale", f"{value} was made with {data.size} bytes for {t}")
        array = data.view(t.dtype.numpy).reshape(shape)
        if not write:
            array.flags.writeable = False
        return array

    def held(self, value: str, *, write: bool) -> Held:
        """Return a value in place, as of ``array``, with its payloads if it has any."""
        values, payloads = self.array(value, write=write), self.payloads(value)
        dtype = self.types[value].memory.dtype
        if payloads is None or not dtype.is_float:
            return Held(values)
        return Held(values, payloads[:: dtype.nbytes].reshape(values.shape))

    def payloads(self, value: str) -> Array | None:
        """Return the payloads of a value's bytes, if there are any."""
        spot = self.owned(value)
        payloads = spot.allocation.payloads
        return None if payloads is None else payloads[spot.lo : spot.hi]

    def demand_apart(self, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        """Raise the fault of a line that reads bytes that it writes, or writes bytes twice."""
        written = [self.owned(v) for v in outputs]
        touched = [*written, *(self.owned(v) for v in inputs)]
        for i, a in enumerate(written):
            for b in touched[i + 1 :]:
                if a.owner == b.owner and a.lo < b.hi and b.lo < a.hi:
                    raise self.fault("ownership", f"{a.owner} is written under two names")

    def demand_together(self, values: Sequence[str]) -> None:
        """Raise the fault of work that touches the memory of two devices."""
        found = {self.spot(v).allocation.device: v for v in values}
        if len(found) > 1:
            raise self.fault("device", f"{' and '.join(found.values())} are on two devices")

    # ---- giving and taking bytes

    def allocate(self, value: str) -> None:
        """Fresh bytes."""
        size = self.nbytes(value)
        self.use.take(size)
        data, device = np.empty(size, np.uint8), self.types[value].device
        allocation = Allocation(data, self._fresh_payloads(size), device=device)
        spot = Spot(allocation, 0, size, value)
        self.define(value, spot)
        allocation.take(value, 0, size)
        fill(spot, self.types[value].dtype)

    def arena(self, s: Arena) -> None:
        """Fresh bytes to place values in."""
        if s.name in self.arenas:
            raise self.fault("double-allocation", f"{s.name} is there already")
        data = np.full(self.size(s.nbytes), POISON, np.uint8)
        self.use.take(data.size, stack=s.stack)
        payloads = self._fresh_payloads(data.size)
        self.arenas[s.name] = Allocation(data, payloads, arena=True, device=s.device)

    def _fresh_payloads(self, size: int) -> Array | None:
        return np.full(size, scalar_ring.POISON) if self.in_ring else None

    def place(self, value: str, arena: str, lo: int) -> None:
        """Bytes of an arena that nobody owns."""
        if arena not in self.arenas:
            raise self.fault("unallocated", f"there is no arena {arena}")
        spot = self._within(self.arenas[arena], value, lo)
        if spot.lo < spot.hi and (taken := spot.allocation.holders(spot.lo, spot.hi)):
            raise self.fault("ownership", f"bytes {lo}..{spot.hi} are of {', '.join(taken)}")
        self._hand_over(value, spot)

    def free(self, value: str) -> None:
        """Bytes back."""
        spot = self.mine(value)
        self._poison(spot, self.types[value].dtype)
        del spot.allocation.owners[value]
        if not spot.allocation.owners and not spot.allocation.arena:
            self.use.give(spot.allocation.data.size)

    def take_over(self, value: str, over: str, lo: int, *, whole: bool) -> None:
        """The allocation of a dead value, from a byte on."""
        old = self.spot(over)
        allocation = old.allocation
        if allocation.lent:
            raise self.fault("read-only", f"{over} is the caller's")
        if allocation.arena:
            raise self.fault("ownership", f"{over} lies in an arena")
        if not allocation.owners:
            raise self.fault("freed", f"the allocation of {over} went back")
        size = self.nbytes(value)
        if whole and size != old.hi - old.lo:
            raise self.fault(
                "capacity", f"{value} wants {size} bytes, {over} had {old.hi - old.lo}"
            )
        spot = self._within(allocation, value, lo)
        allocation.owners.pop(old.owner, None)  # by this line it is dead, views and all
        self._hand_over(value, spot)

    def _within(self, allocation: Allocation, value: str, lo: int) -> Spot:
        hi, size = lo + self.nbytes(value), allocation.data.size
        if lo < 0 or hi > size:
            raise self.fault("capacity", f"{value} wants bytes {lo}..{hi} of {size}")
        if lo % ALIGNMENT:
            raise self.fault("capacity", f"byte {lo} is no multiple of {ALIGNMENT}")
        return Spot(allocation, lo, hi, value)

    def _hand_over(self, value: str, spot: Spot) -> None:
        self.define(value, spot)
        spot.allocation.take(value, spot.lo, spot.hi)
        self._poison(spot, self.types[value].dtype)

    def _poison(self, spot: Spot, dtype: DType) -> None:
        if self.poisons:
            fill(spot, dtype)

    def view(self, value: str, of: str, offset: int) -> None:
        """Another name for some of a value's bytes."""
        spot = self.owned(of)
        lo = spot.lo + offset
        hi = lo + self.nbytes(value)
        if offset < 0 or hi > spot.hi:
            raise self.fault(
                "capacity", f"{value} wants bytes {lo}..{hi}, {of} has {spot.lo}..{spot.hi}"
            )
        self.define(value, Spot(spot.allocation, lo, hi, spot.owner))

    def stride(self, line: Strided) -> None:
        """Another name, by strides, for elements of a value."""
        self.owned(line.of)
        if line.value in self.strided or line.value in self.spots:
            raise self.fault("double-allocation", f"{line.value} has bytes already")
        self.strided[line.value] = line

    def shown(self, line: Strided) -> Array:
        """Return a copy of the elements that a strided value shows."""
        held = self.held(line.of, write=False)
        flat = np.ascontiguousarray(held.seen((-1,)))
        shape = dims.values(self.types[line.value].shape, self.env)
        steps = [self.size(s) * flat.itemsize for s in line.strides]
        at = self.size(line.offset) * flat.itemsize
        if 0 in shape:
            return np.empty(shape, flat.dtype)
        try:
            return np.ndarray(shape, flat.dtype, flat, at, steps).copy()
        except ValueError as e:
            raise self.fault("capacity", f"{line.value} leaves {line.of}: {e}") from e

    def inherit(self, output: str, source: str) -> Array:
        """Let an output have the bytes of an operand that dies, and return those."""
        spot = self.mine(source)
        if self.nbytes(output) != spot.hi - spot.lo:
            raise self.fault("capacity", f"{output} and {source} differ in size")
        self.define(output, Spot(spot.allocation, spot.lo, spot.hi, output))
        del spot.allocation.owners[source]
        spot.allocation.take(output, spot.lo, spot.hi)
        return spot.allocation.data[spot.lo : spot.hi]

    def carry(self, pairs: Sequence[tuple[str, str]], sizes: Mapping[str, int]) -> None:
        """Hand whole allocations on to values of new sizes, all at once."""
        spots = [(value, source, self.mine(source)) for value, source in pairs]
        for value, source, spot in spots:
            if spot.allocation.arena or spot.hi - spot.lo != spot.allocation.data.size:
                raise self.fault("ownership", f"{source} has no allocation of its own")
            if value in self.spots:
                self.free(value)
                del self.spots[value]
        self.env.update(sizes)
        for value, source, spot in spots:
            if self.nbytes(value) != spot.hi:
                raise self.fault("capacity", f"{value} and {source} differ in size")
            del spot.allocation.owners[source]
            self.define(value, Spot(spot.allocation, 0, spot.hi, value))
            spot.allocation.take(value, 0, spot.hi)
        self.carried.update(value for value, _ in pairs)

    # ---- blocks of lines

    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of the values, and of the arenas, that are defined now."""
        return frozenset(self.spots), frozenset(self.arenas)

    def end_block(self, before: tuple[frozenset[str], frozenset[str]]) -> None:
        """Forget what a block defined; ``before`` are the ``names`` at its beginning.

        Raises the fault of a value that is still alive, unless it was carried.
        """
        values, arenas = before
        for name in [n for n in self.spots if n not in values]:
            spot = self.spots[name]
            alive = spot.owner == name and name in spot.allocation.owners
            if alive and name in self.carried:
                continue
            if alive:
                raise self.fault("leak", f"{name} is alive at the end of a block that made it")
            del self.spots[name]
        for name in [n for n in self.arenas if n not in arenas]:
            self.use.give(self.arenas.pop(name).data.size)


def embedded(data: Array, dtype: DType) -> Array:
    """Return the payloads of bytes that hold elements of a dtype."""
    payloads = np.full(data.size, scalar_ring.POISON)
    if dtype.is_float:
        payloads[:: dtype.nbytes] = ring.embed(data.view(dtype.numpy))
    return payloads


def fill(spot: Spot, dtype: DType) -> None:
    """Fill a value's bytes with poison."""
    spot.allocation.data[spot.lo : spot.hi] = POISON if dtype.is_float else OTHER_POISON
    if spot.allocation.payloads is not None:
        spot.allocation.payloads[spot.lo : spot.hi] = scalar_ring.POISON
