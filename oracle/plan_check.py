"""Judge a memory plan without running it: whose bytes are where, at every line.

After regalloc2's checker: replay the program over memory in which every byte range remembers the
value that wrote it, and demand that each use finds its own.  Shares nothing with any planner, nor
with the program interpreter.  Sizes are those of one binding of the dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from refimpl.ir import dims
from refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)


@dataclass(frozen=True, slots=True)
class PlanError:
    """A broken promise of a plan; ``kind`` is one of
    ``lost-value``, ``out-of-bounds``, ``not-allocated``, ``double-free``, ``overlap``,
    ``read-only``.
    """

    step: int
    kind: str
    message: str


@dataclass(slots=True)
class _Extent:
    """The bytes of one allocation: who wrote which range, in order and without gaps."""

    size: int
    alive: bool = True
    ranges: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])

    def write(self, start: int, stop: int, who: str) -> None:
        kept: list[tuple[int, int, str]] = []
        for a, b, w in self.ranges:
            if a < start:
                kept.append((a, min(b, start), w))
            if b > stop:
                kept.append((max(a, stop), b, w))
        self.ranges = sorted(r for r in [*kept, (start, stop, who)] if r[0] < r[1])

    def owners(self, start: int, stop: int) -> set[str]:
        return {w for a, b, w in self.ranges if a < stop and b > start}


@dataclass(slots=True)
class _Place:
    extent: _Extent
    start: int
    stop: int
    content: str  # the value whose writing these bytes must show
    reads_only: bool = False


class _Replay:
    def __init__(self, p: Program, env: Mapping[str, int]) -> None:
        self.program = p
        self.types = p.type
        self.env = env
        self.at: dict[str, _Place] = {}
        self.errors: list[PlanError] = []
        self.step = 0
        for name in (*p.inputs, *(n for n, _ in p.constants)):
            size = self.size(name)
            extent = _Extent(size)
            extent.write(0, size, name)
            self.at[name] = _Place(extent, 0, size, name, reads_only=True)

    def size(self, value: str) -> int:
        return dims.evaluate(self.types[value].nbytes, self.env)

    def bad(self, kind: str, message: str) -> None:
        self.errors.append(PlanError(self.step, kind, message))

    def place(self, value: str, extent: _Extent, start: int) -> None:
        stop = start + self.size(value)
        if start < 0 or stop > extent.size:
            self.bad("out-of-bounds", f"%{value} ends at byte {stop} of {extent.size}")
        extent.write(start, stop, "")
        self.at[value] = _Place(extent, start, stop, value)

    def take_over(self, value: str, over: str, offset: int) -> None:
        old = self.at.pop(over, None)
        if old is None or not old.extent.alive:
            self.bad("not-allocated", f"%{value} takes over %{over}, which has no bytes")
            return
        if old.reads_only:
            self.bad("read-only", f"%{value} takes over %{over}, which is the caller's")
        self.place(value, old.extent, offset)

    def read(self, value: str) -> None:
        at = self.at.get(value)
        if at is None or not at.extent.alive:
            self.bad("not-allocated", f"%{value} is read but has no bytes")
            return
        covered = at.extent.owners(at.start, at.stop)
        if at.start < at.stop and covered != {at.content}:
            found = ", ".join(f"%{w}" if w else "nothing" for w in sorted(covered)) or "nothing"
            self.bad("lost-value", f"%{value} is read, but its bytes hold {found}")

    def write(self, value: str) -> None:
        at = self.at.get(value)
        if at is None or not at.extent.alive:
            self.bad("not-allocated", f"%{value} is written but has no bytes")
            return
        if at.reads_only:
            self.bad("read-only", f"%{value} is written, but is the caller's")
        at.extent.write(at.start, at.stop, at.content)

    def call(self, outputs: Sequence[str], inputs: Sequence[str], updated: Sequence[str]) -> None:
        for value in (*inputs, *updated):
            self.read(value)
        for out in outputs:
            o = self.at.get(out)
            for other in (*inputs, *outputs):
                i = self.at.get(other)
                if o is None or i is None or other == out or o.extent is not i.extent:
                    continue
                if o.start < i.stop and i.start < o.stop:
                    self.bad("overlap", f"%{out} is written over %{other} in one step")
            self.write(out)

    def line(self, line: Line, written: set[str]) -> None:
        match line:
            case Allocate(value):
                self.place(value, _Extent(self.size(value)), 0)
            case Free(value):
                at = self.at.pop(value, None)
                if at is None or not at.extent.alive:
                    self.bad("double-free", f"%{value} is freed but has no bytes")
                elif at.reads_only:
                    self.bad("read-only", f"%{value} is freed, but is the caller's")
                else:
                    at.extent.alive = False
            case Reuse(value, over):
                self.take_over(value, over, 0)
            case PlacementAllocate(value, over, offset):
                self.take_over(value, over, dims.evaluate(offset, self.env))
            case View(value, of):
                at = self.at.get(of)
                if at is None:
                    self.bad("not-allocated", f"%{value} views %{of}, which has no bytes")
                elif self.size(value) != at.stop - at.start:
                    self.bad("out-of-bounds", f"%{value} is not as large as %{of}")
                else:
                    self.at[value] = _Place(at.extent, at.start, at.stop, at.content, at.reads_only)
            case Launch(kernel, args):
                k = self.program.kernel[kernel]
                names = [b.name for b in k.params]
                outs = [a for a, n in zip(args, names, strict=True) if n in k.outputs]
                ins = [a for a, n in zip(args, names, strict=True) if n not in k.outputs]
                updated = [o for o in outs if o in written]
                self.call(outs, ins, updated)
                written.update(outs)
            case Extern(_, outputs, inputs):
                self.call(outputs, inputs, ())
            case Copy(value, source):
                self.call((value,), (source,), ())
            case Assert():
                pass
            case Return(values):
                for value in values:
                    self.read(value)
            case _:
                assert_never(line)


def check(p: Program, env: Mapping[str, int]) -> list[PlanError]:
    """Everything wrong with a program's plan under a binding, in order; empty when it is sound."""
    replay = _Replay(p, env)
    written: set[str] = set()
    for step, line in enumerate(p.lines):
        replay.step = step
        replay.line(line, written)
    return replay.errors
