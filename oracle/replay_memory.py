"""The memory of a program that is replayed, with the errors found: who owns which bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didyma.oracle.memory import NOBODY, Allocation, AllocationKind, Location, MemoryState
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import ALIGNMENT, Dispatch, Launch, Line, Program, Strided, Wait

LENT = ("caller", "output")  # kinds of allocations that belong to the caller


@dataclass(frozen=True, slots=True)
class PlanError:
    """An error of a memory plan.

    ``step`` counts lines in the order of the text; ``kind`` is one of ``lost-value``,
    ``unwritten``, ``out-of-bounds``, ``misaligned``, ``not-allocated``, ``double-allocation``,
    ``double-free``, ``not-owner``, ``overlap``, ``read-only``, ``device``, ``leak``, ``escape``,
    ``branches``, ``race``, ``in-place``.
    """

    step: int
    kind: str
    message: str


class ReplayMemory:
    """The bytes that values have at one point of a replay, and the errors so far.

    ``errors`` are in the order found; ``peak`` is the most bytes allocated at once.
    """

    def __init__(self, p: Program, env: Mapping[str, int]) -> None:
        self.types = p.type
        self.errors: dict[PlanError, None] = {}
        self.step = -1
        self.peak = 0
        self.count = 0
        self.streams = {s for line in walk(p.lines) for s in _streams(line)}  # of several, all
        self.strided: set[str] = set()
        self.constants = {name for name, _ in p.constants}
        self.state = MemoryState(dict(env))
        for name in (*p.inputs, *(n for n, _ in p.constants)):
            k = self.allocate_for(name, "caller")
            self.state.allocations[k].set(0, self.size(name), name, True)
        for name in p.outputs:
            self.allocate_for(name, "output")

    # ---- facts

    def size(self, value: str) -> int:
        """Return the bytes of a value."""
        return dims.evaluate(self.types[value].nbytes, self.state.env)

    def report(self, kind: str, message: str) -> None:
        """Record an error at the line being replayed."""
        self.errors[PlanError(self.step, kind, message)] = None

    def allocate(self, size: int, kind: AllocationKind, device: str) -> int:
        """Allocate bytes; return the number of the allocation."""
        self.count += 1
        self.state.allocations[self.count] = Allocation(size, kind, device)
        if kind not in LENT:
            self.peak = max(self.peak, self.allocated_bytes())
        return self.count

    def allocate_for(self, value: str, kind: AllocationKind) -> int:
        """Give a value an allocation of its own; return the number of the allocation."""
        k = self.allocate(self.size(value), kind, self.types[value].device)
        self.place(value, k, 0)
        return k

    def allocated_bytes(self) -> int:
        """Return the bytes that the program has allocated now, rounded up to the alignment."""
        return sum(
            -(-e.size // ALIGNMENT) * ALIGNMENT
            for e in self.state.allocations.values()
            if e.alive and e.kind not in LENT
        )

    def require_live(self, value: str, doing: str) -> tuple[Location, Allocation] | None:
        """Return the bytes of a value; report an error and return None if it has none."""
        at = self.state.at.get(value)
        if at is None or not self.state.allocations[at.allocation].alive:
            self.report("not-allocated", f"%{value} is {doing}, but has no bytes")
            return None
        return at, self.state.allocations[at.allocation]

    # ---- giving and taking bytes

    def place(self, value: str, k: int, start: int) -> None:
        """Give a value the bytes of an allocation from ``start`` on."""
        e = self.state.allocations[k]
        stop = start + self.size(value)
        if value in self.state.defined or value in self.state.at:
            self.report("double-allocation", f"%{value} gets bytes again")
        if start < 0 or stop > e.size:
            self.report("out-of-bounds", f"%{value} has bytes {start} to {stop} of {e.size}")
        if start % ALIGNMENT:
            self.report("misaligned", f"%{value} is at byte {start}")
        if self.types[value].device != e.device:
            here, there = self.types[value].device or "own", e.device or "own"
            self.report("device", f"%{value} of device {here} has bytes of device {there}")
        self.state.defined.add(value)
        e.set(start, stop, value, False)
        self.state.at[value] = Location(k, start, stop, value)

    def require_owner(self, value: str, doing: str) -> tuple[Location, Allocation] | None:
        """Return the bytes of a value that owns them; report an error and return None if not."""
        found = self.require_live(value, doing)
        if found is None:
            return None
        at, e = found
        if e.kind in LENT:
            self.report("read-only", f"%{value} is {doing}, but is the caller's")
            return None
        if at.owner != value:
            self.report("not-owner", f"%{value} is {doing}, but is a view of %{at.owner}")
            return None
        return found

    def take_over(self, value: str, over: str, offset: int | None) -> None:
        """Give a value the bytes of another, which has none from then on."""
        found = self.require_owner(over, f"taken over by %{value}")
        if found is None:
            return
        at, e = found
        e.set(at.start, at.stop, NOBODY, False)
        del self.state.at[over]
        self.place(value, at.allocation, at.start if offset is None else offset)

    def free(self, value: str) -> None:
        """Free the bytes of a value."""
        at = self.state.at.get(value)
        if at is None or not self.state.allocations[at.allocation].alive:
            self.report("double-free", f"%{value} is freed but has no bytes")
            return
        found = self.require_owner(value, "freed")
        if found is None:
            return
        at, e = found
        if e.kind == "heap":  # an arena stays: whoever gets the bytes next must wait
            self.touch(value, e, at, 0, True)
        others = {o for o, _ in e.holders(at.start, at.stop)} - {value}
        if others and at.start < at.stop:
            self.report("lost-value", f"%{value} is freed, but its bytes are of {listed(others)}")
        if e.kind == "arena":
            e.set(at.start, at.stop, NOBODY, False)
        else:
            e.alive = False
        del self.state.at[value]

    def view(self, value: str, of: str, offset: int) -> None:
        """Make a value a view of bytes of another."""
        found = self.require_live(of, f"viewed by %{value}")
        if found is None:
            return
        at, e = found
        others = {o for o, _ in e.holders(at.start, at.stop)} - {at.owner}
        if others and at.start < at.stop:
            self.report("lost-value", f"%{of} is viewed, but its bytes are of {listed(others)}")
        start = at.start + offset
        stop = start + self.size(value)
        if offset < 0 or stop > at.stop:
            self.report("out-of-bounds", f"%{value} ends {stop - at.stop} bytes after %{of}")
        if self.types[value].device != e.device:
            self.report("device", f"%{value} and %{of} are of two devices")
        if value in self.state.defined:
            self.report("double-allocation", f"%{value} is made again")
        self.state.defined.add(value)
        self.state.at[value] = Location(at.allocation, start, stop, at.owner)

    def stride(self, line: Strided) -> None:
        """Make a value show elements of another: of its bytes, those from first to last."""
        found = self.require_live(line.of, f"shown by %{line.value}")
        if found is None:
            return
        at, e = found
        t, env = self.types[line.value], self.state.env
        size = t.dtype.nbytes
        counts = [dims.evaluate(n, env) for n in t.shape]
        reach = [(n - 1) * dims.evaluate(s, env) for n, s in zip(counts, line.strides, strict=True)]
        first = at.start + size * (dims.evaluate(line.offset, env) + sum(r for r in reach if r < 0))
        last = first + size * (sum(map(abs, reach)) + 1)
        if 0 in counts:
            first = last = at.start
        if first < at.start or last > at.stop:
            self.report("out-of-bounds", f"%{line.value} shows bytes beside %{line.of}")
        if line.value in self.state.defined:
            self.report("double-allocation", f"%{line.value} is made again")
        if t.device != e.device:
            self.report("device", f"%{line.value} and %{line.of} are of two devices")
        self.strided.add(line.value)
        self.state.defined.add(line.value)
        self.state.at[line.value] = Location(at.allocation, first, last, at.owner)

    # ---- using them

    def touch(self, value: str, e: Allocation, at: Location, stream: int, written: bool) -> None:
        """Record an access, which must wait for conflicting accesses on other streams."""
        if not self.streams or at.start >= at.stop:
            return
        clock = self.state.clocks.setdefault(stream, {})
        for a, b, other, tick, wrote in e.log:
            apart = b <= at.start or a >= at.stop or other == stream
            if not apart and (written or wrote) and clock.get(other, 0) < tick:
                self.report("race", f"%{value} on stream {stream} does not wait for stream {other}")
        e.log.append((at.start, at.stop, stream, clock.get(stream, 0), written))

    def read(self, value: str, stream: int = 0) -> None:
        """Read a value; its bytes must be its own, and written."""
        found = self.require_live(value, "read")
        if found is None:
            return
        at, e = found
        self.touch(value, e, at, stream, False)
        if at.start >= at.stop:
            return
        holders = set(e.holders(at.start, at.stop))
        if others := {o for o, _ in holders} - {at.owner}:
            self.report("lost-value", f"%{value} is read, but its bytes are of {listed(others)}")
        elif (at.owner, False) in holders:
            self.report("unwritten", f"%{value} is read, but was not written")

    def write(self, value: str, stream: int = 0) -> None:
        """Write a value; its bytes must be its own."""
        found = self.require_live(value, "written")
        if found is None:
            return
        at, e = found
        self.touch(value, e, at, stream, True)
        if e.kind == "caller":
            self.report("read-only", f"%{value} is written, but is the caller's")
        if at.start >= at.stop:
            return
        if others := {o for o, _ in e.holders(at.start, at.stop)} - {at.owner}:
            self.report("lost-value", f"%{value} is written to bytes of {listed(others)}")
        e.set(at.start, at.stop, at.owner, True)

    def require_together(self, values: Sequence[str]) -> None:
        """Report work on the memory of two devices."""
        at = (self.state.at.get(v) for v in values)
        devices = {self.state.allocations[a.allocation].device or "own" for a in at if a}
        if len(devices) > 1:
            self.report("device", f"{listed(values)} are on {' and '.join(sorted(devices))}")

    def require_disjoint(self, outputs: Sequence[str], inputs: Sequence[str]) -> None:
        """Report outputs that share bytes with other values of the same line."""
        for k, out in enumerate(outputs):
            o = self.state.at.get(out)
            for other in (*inputs, *outputs[:k]):
                i = self.state.at.get(other)
                if o is None or i is None or o.allocation != i.allocation:
                    continue
                if max(o.start, i.start) < min(o.stop, i.stop):
                    self.report("overlap", f"%{out} is written over %{other} in one step")


def listed(values: Sequence[str] | set[str]) -> str:
    """Return the names of values, sorted."""
    names = sorted(values)
    return ", ".join(f"%{v}" if v.isidentifier() else v or "nobody" for v in names)


def _streams(line: Line) -> set[int]:
    """Streams beside the first, and with one of them the first."""
    match line:
        case Wait(stream, on):
            return {0, stream, on}
        case Launch() | Dispatch() if line.stream:
            return {0, line.stream}
        case _:
            return set()
