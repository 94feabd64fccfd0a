"""Judge a memory plan without running it: whose bytes are where, at every line.

After regalloc2's checker: replay the program over memory in which every byte range remembers the
value that owns it and whether that value was written, and demand that each use finds its own.
Shares nothing with any planner, nor with the program interpreter.  Sizes are those of one binding
of the dims.  Both ways of a branch are replayed, and no, one and two rounds of a loop, since what
the second round needs must survive the first; of a counted loop, its first rounds and the last.  A
result that takes the bytes of an operand is judged by ``in_place``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from didyma.oracle.in_place import Overwrites
from didyma.oracle.kernels import reads_before_it_writes
from didyma.oracle.memory import Place
from didyma.oracle.replay_memory import LENT, PlanError, ReplayMemory, listed
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Line, Program
from didyma.refimpl.verify.symbols import given

__all__ = ["PlanError", "check", "replay"]

MOST_ROUNDS = 16  # of a loop of known length that are replayed: the first, and the last


def check(p: Program, env: Mapping[str, int]) -> list[PlanError]:
    """Everything wrong with a program's plan under a binding, in order; empty when it is sound.

    Symbols that are bound at run time have the value that ``env`` gives them; else the program is
    replayed with the highest of their ranges, and with the lowest.
    """
    return list(dict.fromkeys(e for r in _replays(p, env, Overwrites()) for e in r.errors))


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
    """Replay a whole program under a binding of all its symbols."""
    r = _Replay(p, env, overwrites or Overwrites())
    r.block(p.lines)
    return r


class _Replay(ReplayMemory):
    """One replay of the lines of a program."""

    def __init__(self, p: Program, env: Mapping[str, int], overwrites: Overwrites) -> None:
        super().__init__(p, env)
        self.kernels = p.kernel
        self.functions = p.function
        self.outputs = p.outputs
        self.called: dict[tuple[str, tuple[int, ...]], list[ReplayMemory]] = {}
        self.olds: dict[str, frozenset[str]] = {}  # of each kernel launched
        self.overwrites = overwrites

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
                self.bad("overlap", f"%{out} is written over {listed(views)} in one step")
            self.overwrite(
                k, out, of, dict(zip(line.args, (b.name for b in k.params), strict=True))
            )
        for out in outs:
            self.write(out, line.stream)

    def overwrite(self, k: PrimFunc, out: str, of: str, params: Mapping[str, str]) -> None:
        """Judge a result that takes the bytes of an operand; ``params`` by the values given."""
        if params.get(out) not in k.outputs or params.get(of, "") in ("", *k.outputs):
            self.bad("in-place", f"%{out} is no result of a launch with the operand %{of}")
        elif why := self.overwrites.why_not(k, params[out], params[of], self.s.env):
            self.bad("in-place", f"%{out} has the bytes of %{of}, but {why}")

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
        """Replay the function at the sizes it has here, once for each; and what it does here."""
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
            self.called[key] = _replays(f, env, self.overwrites)
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
            if self.s.extents[at.extent].kind not in LENT:
                returned.append((value, at))
        for k, e in self.s.extents.items():
            if e.alive and e.kind == "heap" and k not in kept:
                who = [v for v, at in self.s.at.items() if at.extent == k and at.owner == v]
                self.bad("leak", f"{listed(who)} is never freed")

    # ---- control flow

    def block(self, lines: Sequence[Line]) -> None:
        """Replay lines; the arenas that begin in them end with them.

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
        """Replay rounds, each followed by what ends a loop; all ends are joined."""
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
            self.bad("branches", f"{listed(owned)} is gone or elsewhere {where}")

    def while_(self, line: ir.While) -> None:
        def test() -> None:
            self.block(line.test)
            self.read(line.cond)

        self.loop([partial(self.block, line.body)] * 2, test)
        self.step += _count(line.body)

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
        self.step = step + _count(line.body)
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


def _count(lines: Sequence[Line]) -> int:
    """Lines, and those in their blocks."""
    return sum(1 for _ in walk(lines))
