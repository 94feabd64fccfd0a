"""The memory of a replayed program: whose bytes are where, and who has touched them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didyma.oracle.memory import NOBODY, Extent, Kind, Place, State
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import ALIGNMENT, Launch, Line, Program, Wait

LENT = ("caller", "output")  # bytes of the caller's


@dataclass(frozen=True, slots=True)
class PlanError:
    """A broken promise of a plan.

    ``step`` counts lines in the order of the text; ``kind`` is one of ``lost-value``,
    ``unwritten``, ``out-of-bounds``, ``misaligned``, ``not-allocated``, ``double-allocation``,
    ``double-free``, ``not-owner``, ``overlap``, ``read-only``, ``device``, ``leak``, ``escape``,
    ``branches``, ``race``, ``in-place``.
    """

    step: int
    kind: str
    message: str


class ReplayMemory:
    """What values have bytes, whose they are, and what was wrong so far.

    ``errors`` are in the order found; ``peak`` is the most bytes allocated at once.
    """

    def __init__(self, p: Program, env: Mapping[str, int]) -> None:
        self.types = p.type
        self.errors: dict[PlanError, None] = {}
        self.step = -1
        self.peak = 0
        self.count = 0
        self.streams = {s for line in walk(p.lines) for s in _streams(line)}  # of several, all
        self.s = State(dict(env))
        for name in (*p.inputs, *(n for n, _ in p.constants)):
            k = self.extent(self.size(name), "caller", self.types[name].device)
            self.put(name, k, 0)
            self.s.extents[k].set(0, self.size(name), name, True)
        for name in p.outputs:
            self.put(name, self.extent(self.size(name), "output", self.types[name].device), 0)

    # ---- facts

    def size(self, value: str) -> int:
        """Bytes of a value."""
        return dims.evaluate(self.types[value].nbytes, self.s.env)

    def bad(self, kind: str, message: str) -> None:
        """Note an error at the line being replayed."""
        self.errors[PlanError(self.step, kind, message)] = None

    def extent(self, size: int, kind: Kind, device: str) -> int:
        """Allocate bytes; return the number of the allocation."""
        self.count += 1
        self.s.extents[self.count] = Extent(size, kind, device)
        if kind not in LENT:
            self.peak = max(self.peak, self.now())
        return self.count

    def now(self) -> int:
        """Bytes allocated."""
        return sum(
            -(-e.size // ALIGNMENT) * ALIGNMENT
            for e in self.s.extents.values()
            if e.alive and e.kind not in LENT
        )

    def live(self, value: str, doing: str) -> tuple[Place, Extent] | None:
        """Place of a value that has bytes; tells if it has none."""
        at = self.s.at.get(value)
        if at is None or not self.s.extents[at.extent].alive:
            self.bad("not-allocated", f"%{value} is {doing}, but has no bytes")
            return None
        return at, self.s.extents[at.extent]

    # ---- giving and taking bytes

    def put(self, value: str, k: int, start: int) -> None:
        """Let a value have bytes of an allocation from ``start`` on."""
        e = self.s.extents[k]
        stop = start + self.size(value)
        if value in self.s.made or value in self.s.at:
            self.bad("double-allocation", f"%{value} gets bytes again")
        if start < 0 or stop > e.size:
            self.bad("out-of-bounds", f"%{value} has bytes {start} to {stop} of {e.size}")
        if start % ALIGNMENT:
            self.bad("misaligned", f"%{value} is at byte {start}")
        if self.types[value].device != e.device:
            here, there = self.types[value].device or "own", e.device or "own"
            self.bad("device", f"%{value} of device {here} has bytes of device {there}")
        self.s.made.add(value)
        e.set(start, stop, value, False)
        self.s.at[value] = Place(k, start, stop, value)

    def own(self, value: str, doing: str) -> tuple[Place, Extent] | None:
        """Place of a value that may part with its bytes."""
        found = self.live(value, doing)
        if found is None:
            return None
        at, e = found
        if e.kind in LENT:
            self.bad("read-only", f"%{value} is {doing}, but is the caller's")
            return None
        if at.owner != value:
            self.bad("not-owner", f"%{value} is {doing}, but is a view of %{at.owner}")
            return None
        return found

    def take_over(self, value: str, over: str, offset: int | None) -> None:
        """Let a value have the bytes of another, which is gone then."""
        found = self.own(over, f"taken over by %{value}")
        if found is None:
            return
        at, e = found
        e.set(at.start, at.stop, NOBODY, False)
        del self.s.at[over]
        self.put(value, at.extent, at.start if offset is None else offset)

    def free(self, value: str) -> None:
        """Free the bytes of a value."""
        at = self.s.at.get(value)
        if at is None or not self.s.extents[at.extent].alive:
            self.bad("double-free", f"%{value} is freed but has no bytes")
            return
        found = self.own(value, "freed")
        if found is None:
            return
        at, e = found
        if e.kind == "heap":  # an arena stays; whoever has the bytes next must wait
            self.touch(value, e, at, 0, True)
        others = {o for o, _ in e.holders(at.start, at.stop)} - {value}
        if others and at.start < at.stop:
            self.bad("lost-value", f"%{value} is freed, but its bytes are of {listed(others)}")
        if e.kind == "arena":
            e.set(at.start, at.stop, NOBODY, False)
        else:
            e.alive = False
        del self.s.at[value]

    def view(self, value: str, of: str, offset: int) -> None:
        """Let a value show bytes of another."""
        found = self.live(of, f"viewed by %{value}")
        if found is None:
            return
        at, e = found
        others = {o for o, _ in e.holders(at.start, at.stop)} - {at.owner}
        if others and at.start < at.stop:
            self.bad("lost-value", f"%{of} is viewed, but its bytes are of {listed(others)}")
        start = at.start + offset
        stop = start + self.size(value)
        if offset < 0 or stop > at.stop:
            self.bad("out-of-bounds", f"%{value} ends {stop - at.stop} bytes after %{of}")
        if self.types[value].device != e.device:
            self.bad("device", f"%{value} and %{of} are of two devices")
        if value in self.s.made:
            self.bad("double-allocation", f"%{value} is made again")
        self.s.made.add(value)
        self.s.at[value] = Place(at.extent, start, stop, at.owner)

    # ---- using them

    def touch(self, value: str, e: Extent, at: Place, stream: int, written: bool) -> None:
        """Note an access; it must come after whatever touched the bytes on other streams."""
        if not self.streams or at.start >= at.stop:
            return
        clock = self.s.clocks.setdefault(stream, {})
        for a, b, other, tick, wrote in e.log:
            apart = b <= at.start or a >= at.stop or other == stream
            if not apart and (written or wrote) and clock.get(other, 0) < tick:
                self.bad("race", f"%{value} on stream {stream} does not wait for stream {other}")
        e.log.append((at.start, at.stop, stream, clock.get(stream, 0), written))

    def read(self, value: str, stream: int = 0) -> None:
        """Read a value, whose bytes must be its own and written."""
        found = self.live(value, "read")
        if found is None:
            return
        at, e = found
        self.touch(value, e, at, stream, False)
        if at.start >= at.stop:
            return
        holders = set(e.holders(at.start, at.stop))
        if others := {o for o, _ in holders} - {at.owner}:
            self.bad("lost-value", f"%{value} is read, but its bytes are of {listed(others)}")
        elif (at.owner, False) in holders:
            self.bad("unwritten", f"%{value} is read, but was not written")

    def write(self, value: str, stream: int = 0) -> None:
        """Write a value, whose bytes must be its own."""
        found = self.live(value, "written")
        if found is None:
            return
        at, e = found
        self.touch(value, e, at, stream, True)
        if e.kind == "caller":
            self.bad("read-only", f"%{value} is written, but is the caller's")
        if at.start >= at.stop:
            return
        if others := {o for o, _ in e.holders(at.start, at.stop)} - {at.owner}:
            self.bad("lost-value", f"%{value} is written to bytes of {listed(others)}")
        e.set(at.start, at.stop, at.owner, True)

    def apart(self, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        """What is written shares no byte with what else the same line touches."""
        for k, out in enumerate(outputs):
            o = self.s.at.get(out)
            for other in (*inputs, *outputs[:k]):
                i = self.s.at.get(other)
                if o is None or i is None or o.extent != i.extent:
                    continue
                if max(o.start, i.start) < min(o.stop, i.stop):
                    self.bad("overlap", f"%{out} is written over %{other} in one step")


def listed(values: Sequence[str] | set[str]) -> str:
    """Values by name, in order."""
    names = sorted(values)
    return ", ".join(f"%{v}" if v.isidentifier() else v or "nobody" for v in names)


def _streams(line: Line) -> set[int]:
    """Streams beside the first, and with one of them the first."""
    match line:
        case Wait(stream, on):
            return {0, stream, on}
        case Launch(_, _, stream) if stream:
            return {0, stream}
        case _:
            return set()
