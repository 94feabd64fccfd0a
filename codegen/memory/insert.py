"""Put a plan's allocations into a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.memory.planners import Buffer, Plan
from refimpl.ir.program import Allocate, Free, Line, PlacementAllocate, Program, Reuse


def insert(bare: Program, buffers: Sequence[Buffer], plan: Plan) -> Program:
    """Write an allocation before each buffer's first line and a free after its last.

    A buffer whose bytes another takes over is not freed: the last of such a chain is.  What is
    returned stays.
    """
    last = len(bare.lines) - 1
    before: dict[int, list[Line]] = {}
    after: dict[int, list[Line]] = {}
    types = bare.type
    passed_on = set(plan.over.values())
    for b in buffers:
        line: Line = Allocate(b.name)
        over = plan.over.get(b.name)
        if over is not None:
            same = types[over] == b.type
            line = Reuse(b.name, over) if same else PlacementAllocate(b.name, over)
        before.setdefault(b.live.start, []).append(line)
        if b.live.end < last and b.name not in passed_on:
            if plan.hold:
                before.setdefault(last, []).append(Free(b.name))
            else:
                after.setdefault(b.live.end, []).append(Free(b.name))
    lines: list[Line] = []
    for i, line in enumerate(bare.lines):
        lines += (*before.get(i, ()), line, *after.get(i, ()))
    return replace(bare, lines=tuple(lines))
