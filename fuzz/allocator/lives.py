"""Judge how long a planner keeps buffers, and the least that it thinks a plan takes.

A buffer lives in its home, the innermost block that has all of its uses, from the first line there
that uses it, or has a use inside of it, to the last.  On several streams it may live longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir.lines import blocks, operands, walk
from didyma.refimpl.ir.program import Dispatch, Launch, Line, Program, Strided, View

Spot: TypeAlias = tuple[int, int]  # a block, and the index of a line in it
Steps: TypeAlias = tuple[int, int]  # the first and the last one of a line


def wrong(p: Program) -> Iterator[str]:
    """Yield buffers whose first or last step of use is told wrongly."""
    borrowed = {*p.inputs, *(name for name, _ in p.constants)}
    lives, seen, owner = Lives(p.lines, borrowed, p.outputs), _Seen(), _owners(p)
    seen.block(p.lines, ())
    uses = dict[str, list[tuple[Spot, ...]]]()
    for v, spots in seen.uses:
        uses.setdefault(owner.get(v, v), []).append(spots)
    for name in uses.keys() - borrowed - {*p.outputs}:
        paths = uses[name]
        levels = zip(*paths, strict=False)
        inside = [spots for spots in levels if len({block for block, _ in spots}) == 1]
        steps = [seen.steps[spot] for spot in inside[-1]]
        want = min(first for first, _ in steps), max(last for _, last in steps)
        if (found := (lives.of[name].live.start, lives.last_step(name))) != want:
            yield f"%{name} is used from step {want[0]} to {want[1]}, not {found}"


@dataclass(slots=True)
class _Seen:
    """The steps of each line, and each use of a value with the lines around it, its own last.

    A line with blocks has a step of its own before them, and one after each.
    """

    steps: dict[Spot, Steps] = field(default_factory=dict[Spot, Steps])
    uses: list[tuple[str, tuple[Spot, ...]]] = field(
        default_factory=list[tuple[str, tuple[Spot, ...]]]
    )
    at: int = 0
    count: int = 0  # of blocks

    def block(self, lines: Sequence[Line], around: tuple[Spot, ...]) -> None:
        """Number the lines of a block, and of the blocks inside of it."""
        number, self.count = self.count, self.count + 1
        for i, line in enumerate(lines):
            path, first = (*around, (number, i)), self.at
            self.uses += [(v, path) for v in operands(line)]
            self.at += 1
            for b in blocks(line):
                self.block(b, path)
                self.at += 1
            self.steps[number, i] = first, self.at - 1


def _owners(p: Program) -> Mapping[str, str]:
    """Return the value that first has the bytes of each value that shows or takes over others'."""
    of = dict[str, str]()
    for line in walk(p.lines):
        match line:
            case View(value, source) | Strided(value, source):
                of[value] = source
            case Launch(inplace=pairs) | Dispatch(inplace=pairs):
                of.update(pairs)
            case _:
                pass
    found = dict[str, str]()
    for v in of:
        first = v
        while first in of:
            first = of[first]
        found[v] = first
    return found
