"""Insert the allocations and frees of a plan into a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.memory.liveness import Lives
from didyma.codegen.memory.planners import ReusePlan
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.lines import rewrite, walk
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.program import (
    Allocate,
    Dispatch,
    Free,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Reuse,
    Wait,
)


@dataclass
class Insertion:
    """Collects the lines to insert before and after lines of a program, by block and index."""

    program: Program
    lives: Lives
    before: dict[tuple[int, int], list[Line]] = field(
        default_factory=dict[tuple[int, int], list[Line]]
    )
    after: dict[tuple[int, int], list[Line]] = field(
        default_factory=dict[tuple[int, int], list[Line]]
    )
    start: list[Line] = field(default_factory=list[Line])
    symbols: list[DimVar] = field(default_factory=list[DimVar])

    def __post_init__(self) -> None:
        self._types = self.program.type
        self._heirs = heirs(self.program.lines, self.lives.root)
        self.names = Names((*self._types, *(v.name for v in self.program.dims)))

    def whole(self, names: Sequence[str], plan: ReusePlan) -> None:
        """Write the allocations of a plan for some buffers of one block.

        Of a chain of buffers that take over one another's bytes only the last is freed, and a value
        that is returned is not.
        """
        passed_on = set(plan.over.values())
        for name in names:
            line: Line = Allocate(name)
            over = plan.over.get(name)
            if over is not None:
                heir = self._heirs.get(over, over)
                same = self._types[heir] == self._types[name]
                line = Reuse(name, heir) if same else PlacementAllocate(name, heir)
            life = self.lives.of[name]
            self.before.setdefault((life.block, life.first), []).append(line)
            if name not in passed_on:
                self.free(name, plan.hold)

    def allocate(self, name: str) -> None:
        """Insert the allocation of one buffer."""
        life = self.lives.of[name]
        self.before.setdefault((life.block, life.first), []).append(Allocate(name))

    def place(self, name: str, arena: str, offset: Dim) -> None:
        """Insert the placement of a buffer in an arena."""
        life = self.lives.of[name]
        self.before.setdefault((life.block, life.first), []).append(Place(name, arena, offset))
        self.free(name, stays=True)

    def free(self, name: str, hold: bool = False, stays: bool = False) -> None:
        """Insert the free of a buffer after its last use, or with ``hold`` at the end of its block.

        A buffer that owns its allocation is freed on stream 0, after waits for all other streams
        that work on it; one that lies in an arena (``stays``) needs no waits.
        """
        life = self.lives.of[name]
        last = len(self.program.lines) - 1
        if life.block == 0 and life.last == last:
            return
        waits = [Wait(0, s) for s in self.lives.streams(name) if s and not stays]
        lines: list[Line] = [*waits, Free(self._heirs.get(name, name))]
        if not hold:
            self.after.setdefault((life.block, life.last), []).extend(lines)
        elif life.block == 0:
            self.before.setdefault((0, last), []).extend(lines)
        else:
            end = len(self.lives.spans[life.block]) - 1
            self.after.setdefault((life.block, end), []).extend(lines)

    def run(self) -> Program:
        """Return the program with the inserted lines."""
        lines = rewrite(self.program.lines, self._around)
        dims = (*self.program.dims, *self.symbols)
        return replace(self.program, dims=dims, lines=(*self.start, *lines))

    def _around(self, line: Line, block: int, index: int) -> Sequence[Line]:
        at = (block, index)
        return (*self.before.get(at, ()), line, *self.after.get(at, ()))


def heirs(lines: Sequence[Line], root: Mapping[str, str]) -> dict[str, str]:
    """Return, for each value whose bytes in-place launches pass on, the last value to have them."""
    launches = (x for x in walk(lines) if isinstance(x, Launch | Dispatch))
    return {root[new]: new for x in launches for new, _ in x.inplace}
