"""Judge a memory plan without running it: whose bytes are where, at every line.

After regalloc2's checker: replay the program over memory in which every byte range remembers the
value that owns it and whether that value was written, and demand that each use finds its own.
Shares nothing with any planner, nor with the program interpreter.  Sizes are those of one binding
of the dims.  Both ways of a branch are replayed, and no, one and two rounds of a loop, since what
the second round needs must survive the first; of a counted loop, its first rounds and the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from didyma.oracle.kernels import reads_before_it_writes
from didyma.oracle.lines import bound, count, streams
from didyma.oracle.memory import NOBODY, Extent, Kind, Place, State
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.program import ALIGNMENT, Line, Program
from didyma.refimpl.verify.symbols import given

_LENT = ("caller", "output")  # bytes of the caller's
MOST_ROUNDS = 16  # of a loop of known length that are replayed: the first, and the last


@dataclass(frozen=True, slots=True)
class PlanError:
    """A broken promise of a plan.

    ``step`` counts lines in the order of the text; ``kind`` is one of ``lost-value``,
    ``unwritten``, ``out-of-bounds``, ``misaligned``, ``not-allocated``, ``double-allocation``,
    ``double-free``, ``not-owner``, ``overlap``, ``read-only``, ``device``, ``leak``, ``escape``,
    ``branches``, ``race``.
    """

    step: int
    kind: str
    message: str


def check(p: Program, env: Mapping[str, int]) -> list[PlanError]:
    """Everything wrong with a program's plan under a binding, in order; empty when it is sound.

    Symbols that are bound at run time have the value that ``env`` gives them; else the program is
    replayed with the highest of their ranges, and with the lowest.
    """
    return list(dict.fromkeys(e for r in replays(p, env) for e in r.errors))


def replays(p: Program, env: Mapping[str, int]) -> list[_Replay]:
    """_Replay a program at the highest and the lowest values of what is bound at run time."""
    late = [v for v in p.dims if v.name not in env and v.name in bound(p.lines)]
    highest, lowest = {v.name: v.hi for v in late}, {v.name: v.lo for v in late}
    return [replay(p, {**env, **end}) for end in ((highest, lowest) if late else (highest,))]


def replay(p: Program, env: Mapping[str, int]) -> _Replay:
    """_Replay a whole program under a binding of all its symbols."""
    r = _Replay(p, env)
    r.block(p.lines)
    return r


class _Replay:
    """One replay; ``errors`` in the order found, ``peak`` the most bytes allocated at once."""

    def __init__(self, p: Program, env: Mapping[str, int]) -> None:
        self.types = p.type
        self.kernels = p.kernel
        self.functions = p.function
        self.outputs = p.outputs
        self.called: dict[tuple[str, tuple[int, ...]], list[_Replay]] = {}
        self.olds: dict[str, frozenset[str]] = {}  # of each kernel launched
        self.errors: dict[PlanError, None] = {}
        self.step = -1
        self.peak = 0
        self.count = 0
        self.streams = {s for line in p.lines for s in streams(line)}  # of several, all
        self.s = State(dict(env))
        for name in (*p.inputs, *(n for n, _ in p.constants)):
            k = self.extent(self.size(name), "caller", self.types[name].device)
            self.put(name, k, 0)
            self.s.extents[k].set(0, self.size(name), name, True)
        for name in p.outputs:
            self.put(name, self.extent(self.size(name), "output", self.types[name].device), 0)

    # ---- facts

    def size(self, value: str) -> int:
        return dims.evaluate(self.types[value].nbytes, self.s.env)

    def bad(self, kind: str, message: str) -> None:
        self.errors[PlanError(self.step, kind, message)] = None

    def extent(self, size: int, kind: Kind, device: str) -> int:
        self.count += 1
        self.s.extents[self.count] = Extent(size, kind, device)
        if kind not in _LENT:
            self.peak = max(self.peak, self.now())
        return self.count

    def now(self) -> int:
        """Bytes allocated."""
        return sum(
            -(-e.size // ALIGNMENT) * ALIGNMENT
            for e in self.s.extents.values()
            if e.alive and e.kind not in _LENT
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
        if e.kind in _LENT:
            self.bad("read-only", f"%{value} is {doing}, but is the caller's")
            return None
        if at.owner != value:
            self.bad("not-owner", f"%{value} is {doing}, but is a view of %{at.owner}")
            return None
        return found

    def take_over(self, value: str, over: str, offset: int | None) -> None:
        found = self.own(over, f"taken over by %{value}")
        if found is None:
            return
        at, e = found
        e.set(at.start, at.stop, NOBODY, False)
        del self.s.at[over]
        self.put(value, at.extent, at.start if offset is None else offset)

    def free(self, value: str) -> None:
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
            self.bad("lost-value", f"%{value} is freed, but its bytes are of {_list(others)}")
        if e.kind == "arena":
            e.set(at.start, at.stop, NOBODY, False)
        else:
            e.alive = False
        del self.s.at[value]

    def view(self, value: str, of: str, offset: int) -> None:
        found = self.live(of, f"viewed by %{value}")
        if found is None:
            return
        at, e = found
        others = {o for o, _ in e.holders(at.start, at.stop)} - {at.owner}
        if others and at.start < at.stop:
            self.bad("lost-value", f"%{of} is viewed, but its bytes are of {_list(others)}")
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
        found = self.live(value, "read")
        if found is None:
            return
        at, e = found
        self.touch(value, e, at, stream, False)
        if at.start >= at.stop:
            return
        holders = set(e.holders(at.start, at.stop))
        if others := {o for o, _ in holders} - {at.owner}:
            self.bad("lost-value", f"%{value} is read, but its bytes are of {_list(others)}")
        elif (at.owner, False) in holders:
            self.bad("unwritten", f"%{value} is read, but was not written")

    def write(self, value: str, stream: int = 0) -> None:
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
            self.bad("lost-value", f"%{value} is written to bytes of {_list(others)}")
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

    def launch(self, line: ir.Launch) -> None:
        k = self.kernels[line.kernel]
        pairs = list(zip((b.name for b in k.params), line.args, strict=True))
        outs = [a for n, a in pairs if n in k.outputs]
        ins = [a for n, a in pairs if n not in k.outputs]
        self.s.tick(line.stream)
        for value in ins:
            self.read(value, line.stream)
        if k.name not in self.olds:
            self.olds[k.name] = reads_before_it_writes(k)
        for n, a in pairs:
            if n in self.olds[k.name]:
                self.read(a, line.stream)
        self.apart(outs, ins)
        for out, of in line.inplace:
            if ins.count(of) > 1:
                self.bad("overlap", f"%{out} is written over %{of}, which is read twice")
            if of in self.s.at and self.size(out) != self.size(of):
                self.bad("out-of-bounds", f"%{out} is not as large as %{of}")
            self.take_over(out, of, None)
            views = [v for v in ins if v in self.s.at and self.s.at[v].owner == of]
            if views:
                self.bad("overlap", f"%{out} is written over {_list(views)} in one step")
        for out in outs:
            self.write(out, line.stream)

    def extern(self, line: ir.Extern) -> None:
        self.s.tick(0)
        for value in line.inputs:
            self.read(value)
        for value in line.allocates:
            self.put(value, self.extent(self.size(value), "heap", self.types[value].device), 0)
        self.apart(line.outputs, line.inputs)
        for value in line.outputs:
            self.write(value)

    def call(self, line: ir.Call) -> None:
        """_Replay the function at the sizes it has here, once for each; and what it does here."""
        self.s.meet({0})
        self.s.tick(0)
        for value in line.inputs:
            self.read(value)
        self.apart(line.outputs, line.inputs)
        for value in line.outputs:
            self.write(value)
        self.s.meet({0})
        f = self.functions[line.callee]
        env = {v.name: self.s.env[v.name] for v in given(f)}
        key = (f.name, tuple(env.values()))
        if key not in self.called:
            self.called[key] = replays(f, env)
        for r in self.called[key]:
            self.peak = max(self.peak, self.now() + r.peak)
            for e in r.errors:
                self.bad(e.kind, f"in @{f.name}, line {e.step}: {e.message}")

    def carry(self, line: ir.Carry) -> None:
        """Free the old, then hand the new ones on, under the symbols' new values."""
        new = {n: dims.evaluate(d, self.s.env) for n, d in line.dims}
        taken: list[tuple[str, Place]] = []
        for value, of in line.values:
            found = self.own(of, f"carried into %{value}")
            if found is None:
                continue
            if found[1].kind == "arena":
                self.bad("escape", f"%{of} is carried on, but is an arena's")
            self.read(of)
            taken.append((value, found[0]))
            del self.s.at[of]
        for value, _ in line.values:
            if value in self.s.at:
                self.free(value)
        self.s.env.update(new)
        for value, at in taken:
            self.s.made.discard(value)
            self.put(value, at.extent, at.start)
            if self.size(value) != at.stop - at.start:
                self.bad("out-of-bounds", f"%{value} is carried with another size")
            self.s.extents[at.extent].set(at.start, at.stop, value, True)

    def give_back(self, values: Sequence[str]) -> None:
        """Return values: each has bytes that no other has; no allocation of its own may be left."""
        self.s.meet({0})  # a return waits for all streams
        kept: set[int] = set()
        returned: list[tuple[str, Place]] = []
        for value in (*values, *self.outputs):
            self.read(value)
        for value in values:
            at = self.s.at.get(value)
            if at is None:
                continue
            for other, o in returned:
                if o.extent == at.extent and max(o.start, at.start) < min(o.stop, at.stop):
                    self.bad("overlap", f"%{value} is returned with bytes of %{other}")
            kept.add(at.extent)
            if self.s.extents[at.extent].kind not in _LENT:
                returned.append((value, at))
        for k, e in self.s.extents.items():
            if e.alive and e.kind == "heap" and k not in kept:
                who = [v for v, at in self.s.at.items() if at.extent == k and at.owner == v]
                self.bad("leak", f"{_list(who)} is never freed")

    # ---- control flow

    def block(self, lines: Sequence[Line]) -> None:
        """_Replay lines; the arenas that begin in them end with them.

        Where a block inside a line begins or ends, every stream has waited for every other.
        """
        before = set(self.s.arenas)
        inside = self.step >= 0
        if inside:
            self.s.meet(self.streams)
        for line in lines:
            self.step += 1
            self.line(line)
        if inside:
            self.s.meet(self.streams)
        for name in self.s.arenas.keys() - before:
            k = self.s.arenas.pop(name)
            self.s.extents[k].alive = False
            for value in [v for v, at in self.s.at.items() if at.extent == k]:
                del self.s.at[value]

    def branches(self, then: Sequence[Line], other: Sequence[Line]) -> None:
        there = self.s.fork()
        outside = set(there.at)
        self.block(then)
        here, self.s = self.s, there
        self.block(other)
        lost = here.join(self.s)
        self.s = here
        self.joined(lost, outside, "on one way through a branch")

    def loop(self, rounds: Sequence[Callable[[], None]], after: Callable[[], None]) -> None:
        """_Replay rounds, each followed by what ends a loop; all ends are joined."""
        step, made = self.step, set(self.s.made)  # each round makes its own values again
        after()
        end, outside = self.s.fork(), set(self.s.at)
        for r in rounds:
            self.s.made = set(made)
            r()
            self.step = step
            self.s.made = set(made)
            after()
            self.joined(end.join(self.s.fork()), outside, "after one round of a loop")
        self.s = end

    def joined(self, lost: set[str], outside: set[str], where: str) -> None:
        owned = sorted(lost & outside)
        if owned:
            self.bad("branches", f"{_list(owned)} is gone or elsewhere {where}")

    def while_(self, line: ir.While) -> None:
        def test() -> None:
            self.block(line.test)
            self.read(line.cond)

        self.loop([partial(self.block, line.body)] * 2, test)
        self.step += count(line.body)

    def repeat(self, line: ir.Repeat) -> None:
        n = dims.evaluate(line.extent, self.s.env)
        self.s.meet(self.streams)  # also where there is no round
        step = self.step
        made = set(self.s.made)
        rows = self.rows(line) if n > MOST_ROUNDS else set[str]()
        for i in (*range(min(n, MOST_ROUNDS)), *(n - 1,) * (n > MOST_ROUNDS)):
            self.s.env[line.index] = i
            self.step = step
            self.s.made = set(made)
            self.block(line.body)
        self.step = step + count(line.body)
        for value in rows:
            self.write(value)

    def rows(self, line: ir.Repeat) -> set[str]:
        """Unwritten values of which each round writes a part: rounds left out do so as well."""
        found: set[str] = set()
        for x in line.body:
            if isinstance(x, ir.View) and line.index in dims.free(x.offset):
                at = self.s.at.get(x.of)
                if at is not None and (at.owner, False) in self.s.extents[at.extent].holders(
                    at.start, at.stop
                ):
                    found.add(x.of)
        return found

    def line(self, line: Line) -> None:
        match line:
            case ir.Allocate(value):
                self.put(value, self.extent(self.size(value), "heap", self.types[value].device), 0)
            case ir.Free(value):
                self.free(value)
            case ir.Reuse(value, over):
                if over in self.s.at and self.size(value) != self.size(over):
                    self.bad("out-of-bounds", f"%{value} is not as large as %{over}")
                self.take_over(value, over, None)
            case ir.PlacementAllocate(value, over, offset):
                self.take_over(value, over, dims.evaluate(offset, self.s.env))
            case ir.Arena(name, nbytes, device, _):
                size = dims.evaluate(nbytes, self.s.env)
                self.s.arenas[name] = self.extent(size, "arena", device)
            case ir.Place(value, arena, offset):
                if arena in self.s.arenas:
                    self.put(value, self.s.arenas[arena], dims.evaluate(offset, self.s.env))
                else:
                    self.bad("not-allocated", f"%{value} is placed in {arena}, which is not there")
            case ir.View(value, of, offset):
                self.view(value, of, dims.evaluate(offset, self.s.env))
            case ir.Launch():
                self.launch(line)
            case ir.Wait(stream, on):
                clock = self.s.clocks.setdefault(stream, {})
                for k, tick in self.s.clocks.get(on, {}).items():
                    clock[k] = max(clock.get(k, 0), tick)
            case ir.Extern():
                self.extern(line)
            case ir.Call():
                self.call(line)
            case ir.Copy(value, source):
                self.s.tick(0)
                self.read(source)
                self.apart((value,), (source,))
                self.write(value)
            case ir.Bind(_, value):
                self.read(value)
            case ir.Carry():
                self.carry(line)
            case ir.If(cond, then, other):
                self.read(cond)
                self.branches(then, other)
            case ir.While():
                self.while_(line)
            case ir.Repeat():
                self.repeat(line)
            case ir.Assert():
                pass
            case ir.Return(values):
                self.give_back(values)
            case _:
                assert_never(line)


def _list(values: Sequence[str] | set[str]) -> str:
    names = sorted(values)
    return ", ".join(f"%{v}" if v.isidentifier() else v or "nobody" for v in names)
