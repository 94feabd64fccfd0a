"""Judge a memory plan without running it, by replaying who owns which bytes at every line.

After regalloc2's checker: replay the program over memory in which every byte range remembers the
value that owns it and whether that value was written, and demand that each use of a value finds
bytes that it owns.  This shares no code with any planner, nor with the program interpreter.  Sizes
are those of one binding of the dims.  Both sides of a branch are replayed, and zero, one and two
rounds of a loop, since what the second round needs must survive the first; of a counted loop, the
first rounds and the last.  A result that takes the bytes of an operand is judged by ``in_place``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from didyma.oracle.in_place import Overwrites
from didyma.oracle.kernels import reads_before_it_writes
from didyma.oracle.memory import Location
from didyma.oracle.replay_memory import LENT, PlanError, ReplayMemory, listed
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import most_variants, settled, walk
from didyma.refimpl.ir.program import Line, Program
from didyma.refimpl.verify.symbols import caller_symbols

__all__ = ["PlanError", "check", "replay"]

MOST_ROUNDS = 16  # of a loop of known length that are replayed: the first, and the last


def check(p: Program, env: Mapping[str, int]) -> list[PlanError]:
    """Return the errors of a program's plan under a binding, in order; empty when it is sound.

    Symbols that are bound at run time have the value that ``env`` gives them; else the program is
    replayed with the highest of their ranges, and with the lowest.  Of a dispatch each variant is
    replayed.
    """
    overwrites = Overwrites()
    each = (settled(p, number) for number in range(most_variants(p)))
    replays = (r for q in each for r in _replays(q, env, overwrites))
    return list(dict.fromkeys(e for r in replays for e in r.errors))


def _replays(p: Program, env: Mapping[str, int], overwrites: Overwrites) -> list[ReplayMemory]:
    """Replay a program at the highest and the lowest values of what is bound at run time."""
    bound = {line.dim for line in walk(p.lines) if isinstance(line, ir.Bind)}
    late = [v for v in p.dims if v.name not in env and v.name in bound]
    highest, lowest = {v.name: v.hi for v in late}, {v.name: v.lo for v in late}
    ends = (highest, lowest) if late else (highest,)
    return [replay(p, {**env, **end}, overwrites) for end in ends]


def replay(
    p: Program, env: Mapping[str, int], overwrites: Overwrites | None = None
) -> ReplayMemory:
    """Replay a program under a binding of all its symbols; return the memory at the end."""
    r = _Replay(p, env, overwrites or Overwrites())
    r.block(p.lines)
    return r.memory


class _Replay:
    """One replay of the lines of a program."""

    def __init__(self, p: Program, env: Mapping[str, int], overwrites: Overwrites) -> None:
        self.memory = ReplayMemory(p, env)
        self.kernels = p.kernel
        self.functions = p.function
        self.outputs = p.outputs
        self.called: dict[tuple[str, tuple[int, ...]], list[ReplayMemory]] = {}
        self.reads_old_content: dict[str, frozenset[str]] = {}  # of each kernel launched
        self.overwrites = overwrites

    def launch(self, line: ir.Launch) -> None:
        m = self.memory
        k = self.kernels[line.kernel]
        pairs = list(zip((b.name for b in k.params), line.args, strict=True))
        outs = [a for n, a in pairs if n in k.outputs]
        ins = [a for n, a in pairs if n not in k.outputs]
        m.state.tick(line.stream)
        for value in ins:
            m.read(value, line.stream)
        if k.name not in self.reads_old_content:
            self.reads_old_content[k.name] = reads_before_it_writes(k)
        for n, a in pairs:
            if n in self.reads_old_content[k.name]:
                m.read(a, line.stream)
        m.require_disjoint(outs, ins)
        m.require_together((*outs, *ins))
        for out, of in line.inplace:
            if ins.count(of) > 1:
                m.report("overlap", f"%{out} is written over %{of}, which is read twice")
            if of in m.state.at and m.size(out) != m.size(of):
                m.report("out-of-bounds", f"%{out} is not as large as %{of}")
            m.take_over(out, of, None)
            views = [v for v in ins if v in m.state.at and m.state.at[v].owner == of]
            if views:
                m.report("overlap", f"%{out} is written over {listed(views)} in one step")
            self.overwrite(
                k, out, of, dict(zip(line.args, (b.name for b in k.params), strict=True))
            )
        for out in outs:
            m.write(out, line.stream)

    def overwrite(self, k: Kernel, out: str, of: str, params: Mapping[str, str]) -> None:
        """Judge a result that takes the bytes of an operand; ``params`` by the values given."""
        m = self.memory
        if params.get(out) not in k.outputs or params.get(of, "") in ("", *k.outputs):
            m.report("in-place", f"%{out} is no result of a launch with the operand %{of}")
        elif why := self.overwrites.why_not(k, params[out], params[of], m.state.env):
            m.report("in-place", f"%{out} has the bytes of %{of}, but {why}")

    def extern(self, line: ir.Extern) -> None:
        m = self.memory
        m.state.tick(0)
        for value in line.inputs:
            m.read(value)
        for value in line.allocates:
            m.allocate_for(value, "heap")
        m.require_disjoint(line.outputs, line.inputs)
        m.require_together((*line.outputs, *line.inputs))
        for value in line.outputs:
            m.write(value)

    def call(self, line: ir.Call) -> None:
        """Replay a call, and the function called: once for each binding of its symbols.

        Every stream waits for a call, also one whose first work comes after it.
        """
        m = self.memory
        m.state.synchronise(m.streams)
        m.state.tick(0)
        for value in line.inputs:
            m.read(value)
        m.require_disjoint(line.outputs, line.inputs)
        for value in line.outputs:
            m.write(value)
        m.state.synchronise(m.streams)
        f = self.functions[line.callee]
        env = {v.name: m.state.env[v.name] for v in caller_symbols(f)}
        key = (f.name, tuple(env.values()))
        if key not in self.called:
            self.called[key] = _replays(f, env, self.overwrites)
        for r in self.called[key]:
            m.peak = max(m.peak, m.allocated_bytes() + r.peak)
            for e in r.errors:
                m.report(e.kind, f"in @{f.name}, line {e.step}: {e.message}")

    def carry(self, line: ir.Carry) -> None:
        """Free the values carried so far, then hand on the new ones, at the symbols' new values."""
        m = self.memory
        new = {n: dims.evaluate(d, m.state.env) for n, d in line.dims}
        taken: list[tuple[str, Location]] = []
        for value, of in line.values:
            found = m.require_owner(of, f"carried into %{value}")
            if found is None:
                continue
            if found[1].kind == "arena":
                m.report("escape", f"%{of} is carried on, but is an arena's")
            m.read(of)
            taken.append((value, found[0]))
            del m.state.at[of]
        for value, _ in line.values:
            if value in m.state.at:
                m.free(value)
        m.state.env.update(new)
        for value, at in taken:
            m.state.defined.discard(value)
            m.place(value, at.allocation, at.start)
            if m.size(value) != at.stop - at.start:
                m.report("out-of-bounds", f"%{value} is carried with another size")
            m.state.allocations[at.allocation].set(at.start, at.stop, value, True)

    def return_values(self, values: Sequence[str]) -> None:
        """Return values, of which only strided ones may share bytes; no more may be left."""
        m = self.memory
        m.state.synchronise({0})  # a return waits for all streams
        kept: set[int] = set()
        returned: list[tuple[str, Location]] = []
        for value in (*values, *self.outputs):
            m.read(value)
        for value in values:
            at = m.state.at.get(value)
            if at is None:
                continue
            for other, o in returned:
                if other == value or value in m.strided:
                    continue
                if o.allocation == at.allocation and max(o.start, at.start) < min(o.stop, at.stop):
                    m.report("overlap", f"%{value} is returned with bytes of %{other}")
            kept.add(at.allocation)
            if at.owner in m.constants:
                m.report("read-only", f"%{value} is returned, but is a constant's")
            if value not in m.strided and m.state.allocations[at.allocation].kind not in LENT:
                returned.append((value, at))
        for k, e in m.state.allocations.items():
            if e.alive and e.kind == "heap" and k not in kept:
                who = [v for v, at in m.state.at.items() if at.allocation == k and at.owner == v]
                m.report("leak", f"{listed(who)} is never freed")

    # ---- control flow

    def block(self, lines: Sequence[Line]) -> None:
        """Replay lines; arenas that are made among them end with them.

        Where a block inside a line begins or ends, every stream has waited for every other.
        """
        m = self.memory
        before = set(m.state.arenas)
        inside = m.step >= 0
        if inside:
            m.state.synchronise(m.streams)
        for line in lines:
            m.step += 1
            self.line(line)
        if inside:
            m.state.synchronise(m.streams)
        for name in m.state.arenas.keys() - before:
            k = m.state.arenas.pop(name)
            m.state.allocations[k].alive = False
            for value in [v for v, at in m.state.at.items() if at.allocation == k]:
                del m.state.at[value]

    def branches(self, then: Sequence[Line], other: Sequence[Line]) -> None:
        m = self.memory
        there = m.state.fork()
        outside = set(there.at)
        self.block(then)
        here, m.state = m.state, there
        self.block(other)
        lost = here.join(m.state)
        m.state = here
        self.joined(lost, outside, "on one way through a branch")

    def loop(self, rounds: Sequence[Callable[[], None]], after: Callable[[], None]) -> None:
        """Replay rounds, each followed by what ends a loop; all ends are joined."""
        m = self.memory
        step, defined = m.step, set(m.state.defined)  # each round defines its own values again
        outside = set(m.state.at)  # without what the test makes, anew in each round
        after()
        end = m.state.fork()
        for r in rounds:
            m.state.defined = set(defined)
            r()
            m.step = step
            m.state.defined = set(defined)
            after()
            self.joined(end.join(m.state.fork()), outside, "after one round of a loop")
        m.state = end

    def joined(self, lost: set[str], outside: set[str], where: str) -> None:
        owned = sorted(lost & outside)
        if owned:
            self.memory.report("branches", f"{listed(owned)} is gone or elsewhere {where}")

    def while_(self, line: ir.While) -> None:
        m = self.memory

        def test() -> None:
            self.block(line.test)
            m.read(line.cond)

        self.loop([partial(self.block, line.body)] * 2, test)
        m.step += _count(line.body)

    def repeat(self, line: ir.Repeat) -> None:
        m = self.memory
        n = dims.evaluate(line.extent, m.state.env)
        m.state.synchronise(m.streams)  # also where there is no round
        step = m.step
        defined = set(m.state.defined)
        rows = self.rows(line) if n > MOST_ROUNDS else set[str]()
        for i in (*range(min(n, MOST_ROUNDS)), *(n - 1,) * (n > MOST_ROUNDS)):
            m.state.env[line.index] = i
            m.step = step
            m.state.defined = set(defined)
            self.block(line.body)
        m.step = step + _count(line.body)
        for value in rows:
            m.write(value)

    def rows(self, line: ir.Repeat) -> set[str]:
        """Return unwritten values of which each round, also a skipped one, writes a part."""
        m = self.memory
        found: set[str] = set()
        for x in line.body:
            if isinstance(x, ir.View) and line.index in dims.free(x.offset):
                at = m.state.at.get(x.of)
                if at is not None and (at.owner, False) in m.state.allocations[
                    at.allocation
                ].holders(at.start, at.stop):
                    found.add(x.of)
        return found

    def line(self, line: Line) -> None:
        m = self.memory
        match line:
            case ir.Allocate(value):
                m.allocate_for(value, "heap")
            case ir.Free(value):
                m.free(value)
            case ir.Reuse(value, over):
                if over in m.state.at and m.size(value) != m.size(over):
                    m.report("out-of-bounds", f"%{value} is not as large as %{over}")
                m.take_over(value, over, None)
            case ir.PlacementAllocate(value, over, offset):
                m.take_over(value, over, dims.evaluate(offset, m.state.env))
            case ir.Arena(name, nbytes, device, _):
                size = dims.evaluate(nbytes, m.state.env)
                m.state.arenas[name] = m.allocate(size, "arena", device)
            case ir.Place(value, arena, offset):
                if arena in m.state.arenas:
                    m.place(
                        value,
                        m.state.arenas[arena],
                        dims.evaluate(offset, m.state.env),
                    )
                else:
                    m.report("not-allocated", f"%{value} is placed in {arena}, which is not there")
            case ir.View(value, of, offset):
                m.view(value, of, dims.evaluate(offset, m.state.env))
            case ir.Strided():
                m.stride(line)
            case ir.Launch():
                self.launch(line)
            case ir.Dispatch():
                self.launch(line.launch(0))
            case ir.Wait(stream, on):
                clock = m.state.clocks.setdefault(stream, {})
                for k, tick in m.state.clocks.get(on, {}).items():
                    clock[k] = max(clock.get(k, 0), tick)
            case ir.Extern():
                self.extern(line)
            case ir.Call():
                self.call(line)
            case ir.Copy(value, source):
                m.state.tick(0)
                m.read(source)
                m.require_disjoint((value,), (source,))
                m.write(value)
            case ir.Bind(_, value):
                m.read(value)
            case ir.Carry():
                self.carry(line)
            case ir.If(cond, then, other):
                m.read(cond)
                self.branches(then, other)
            case ir.While():
                self.while_(line)
            case ir.Repeat():
                self.repeat(line)
            case ir.Assert():
                pass
            case ir.Return(values):
                self.return_values(values)
            case _:
                assert_never(line)


def _count(lines: Sequence[Line]) -> int:
    """Lines, and those in their blocks."""
    return sum(1 for _ in walk(lines))
