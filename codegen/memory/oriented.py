"""Arenas for sizes that are known when the program starts, but not before.

Who lies on whom is decided now (``didyma.codegen.memory.symbolic``), where that is, when the
program starts: each offset is a symbol that a ``Carry`` without values sets, so that the program,
the interpreter and the wrapper count it once, in whole numbers.  Of several orientations the one
with the least peak is taken, by arithmetic: with ``p`` the least of the peaks ``p0, p1, ...``,
``1 - Min(1, pk - p)`` is 1 where ``pk`` is it, and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from didyma.codegen.memory.arena.problem import problem
from didyma.codegen.memory.arena.registry import solve
from didyma.codegen.memory.planners import LiveBuffer, Planner
from didyma.codegen.memory.symbolic import SymbolicBuffer
from didyma.codegen.memory.symbolic import plan as search
from didyma.codegen.memory.symbolic.arcs import Orientation
from didyma.codegen.memory.symbolic.stack import Order, Stack
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.program import ALIGNMENT, Carry, Line

FEW = 16  # buffers up to which the planner's own placement at some sizes is turned into an order
ORIENTATIONS = 4
MOVES = 12_000  # of search, in all: fewer for each where there are more buffers
MANY = 400  # buffers beyond which there is no search


@dataclass
class Layout:
    """Where buffers lie: lines that say so, the symbols they set, and an offset of each buffer.

    ``most`` is a bound of ``nbytes`` for every size in range.
    """

    nbytes: Dim
    most: int
    offsets: Mapping[str, Dim]
    lines: list[Line] = field(default_factory=list[Line])
    symbols: list[DimVar] = field(default_factory=list[DimVar])


def layout(
    buffers: Sequence[LiveBuffer],
    declared: Sequence[DimVar],
    planner: Planner,
    fresh: Callable[[str], str],
) -> Layout:
    """Lay out buffers whose sizes are expressions over the declared dims.

    ``didyma`` searches for up to ``ORIENTATIONS`` orders where there are more than ``FEW`` buffers;
    else, and for other planners, the order is that of their placement at one choice of sizes.
    """
    ordered = sorted(
        buffers, key=lambda b: (b.live.start, b.live.end, dims.text(b.type.nbytes), b.name)
    )
    if planner.name == "didyma" and FEW < len(ordered) <= MANY:
        blocks = [
            SymbolicBuffer(b.name, b.type.nbytes, b.live.start, b.live.end + 1) for b in ordered
        ]
        found = search(blocks, declared, ALIGNMENT, ORIENTATIONS, MOVES // len(ordered))
        by_name = {b.name: b for b in ordered}
        ordered = [by_name[b.name] for b in found.buffers]
        orientations: Sequence[Orientation] = found.orientations
    else:
        orientations = [_placed(ordered, declared, planner)]
    return _Writer(ordered, declared, fresh).run(orientations)


def _placed(
    buffers: Sequence[LiveBuffer], declared: Sequence[DimVar], planner: Planner
) -> Orientation:
    """Turn the planner's placement at some sizes into an order: the best of a few."""
    stack = Stack.of([(b.live.start, b.live.end + 1) for b in buffers])
    some = [
        {v.name: v.lo + round((v.hi - v.lo) * share) for v in declared} for share in (0.05, 0.4, 1)
    ]
    rows = list({tuple(_aligned(b.type.nbytes, env) for b in buffers): None for env in some})
    best: tuple[float, Order] | None = None
    for row in rows:
        p = problem(
            [b.live.start for b in buffers],
            [b.live.end + 1 for b in buffers],
            row,
            names=[b.name for b in buffers],
            alignment=ALIGNMENT,
        )
        assert planner.arena is not None
        placed = solve(p, planner.arena, planner.seconds, brief=planner.seconds is None)
        offsets: list[int] = placed.offsets.tolist()
        order = tuple(sorted(range(len(buffers)), key=lambda i: (offsets[i], i)))
        worst = max(stack.peak(order, r) / max(1, *stack.load(r)) for r in rows)
        if best is None or worst < best[0]:
            best = worst, order
    assert best is not None
    return _reduced(best[1], stack)


def _aligned(size: Dim, env: Mapping[str, int]) -> int:
    return -(-dims.evaluate(size, env) // ALIGNMENT) * ALIGNMENT


def _reduced(order: Order, stack: Stack) -> Orientation:
    """Keep, of those below each buffer, the ones that are below no other of them."""
    place = {v: k for k, v in enumerate(order)}
    under = [0] * len(order)
    below: list[tuple[int, ...]] = [()] * len(order)
    covered = 0
    for i in order:
        direct = [j for j in stack.conflicts[i] if place[j] < place[i]]
        implied = 0
        for j in direct:
            implied |= under[j]
            under[i] |= under[j] | 1 << j
        below[i] = tuple(j for j in sorted(direct) if not implied >> j & 1)
        covered |= under[i]
    top = tuple(i for i in range(len(order)) if not covered >> i & 1)
    return Orientation(order, tuple(below), top)


class _Writer:
    """Writes orientations as lines; every symbol has a range that is proven."""

    def __init__(
        self, buffers: Sequence[LiveBuffer], declared: Sequence[DimVar], fresh: Callable[[str], str]
    ) -> None:
        self.buffers = buffers
        self.ranges = {v.name: (v.lo, v.hi) for v in declared}
        self.fresh = fresh
        self.lines: list[Line] = []
        self.symbols: list[DimVar] = []
        self.sizes: dict[Dim, tuple[Dim, int]] = {}

    def run(self, orientations: Sequence[Orientation]) -> Layout:
        sizes = [self.size(b.type.nbytes) for b in self.buffers]
        made = [self.orientation(o, sizes) for o in orientations]
        peak, most = made[0][0]
        offsets = made[0][1]
        if len(made) > 1:
            peak, most, offsets = self.dispatch(made)
        names = [b.name for b in self.buffers]
        found = dict(zip(names, (d for d, _ in offsets), strict=True))
        return Layout(peak, most, found, self.lines, self.symbols)

    def symbol(self, wanted: str, value: Dim, most: int) -> Dim:
        """Name a value that is known when the program starts."""
        if isinstance(value, int):
            return value
        name = self.fresh(wanted)
        self.symbols.append(DimVar(name, 0, most))
        self.lines.append(Carry((), ((name, value),)))
        return dims.symbol(name)

    def size(self, nbytes: Dim) -> tuple[Dim, int]:
        """Bytes that a buffer takes, and a bound of them."""
        if nbytes not in self.sizes:
            most = max(0, dims.bounds(nbytes, self.ranges)[1])
            most += -most % ALIGNMENT
            value = dims.align(nbytes, ALIGNMENT)
            self.sizes[nbytes] = self.symbol("room", value, most), most
        return self.sizes[nbytes]

    def orientation(
        self, o: Orientation, sizes: Sequence[tuple[Dim, int]]
    ) -> tuple[tuple[Dim, int], list[tuple[Dim, int]]]:
        """Peak and offsets of one orientation, with bounds."""
        at: dict[int, tuple[Dim, int]] = {}
        for i in o.order:
            at[i] = self.greatest("at", [(at[j], sizes[j]) for j in o.below[i]])
        peak = self.greatest("peak", [(at[j], sizes[j]) for j in o.top])
        return peak, [at[i] for i in range(len(self.buffers))]

    def greatest(
        self, name: str, ends: Sequence[tuple[tuple[Dim, int], tuple[Dim, int]]]
    ) -> tuple[Dim, int]:
        """The greatest of some ends, each an offset and a size."""
        if not ends:
            return 0, 0
        most = max(a + b for (_, a), (_, b) in ends)
        terms = [dims.add(a, b) for (a, _), (b, _) in ends]
        return self.symbol(name, dims.maximum(*terms), most), most

    def dispatch(
        self, made: Sequence[tuple[tuple[Dim, int], list[tuple[Dim, int]]]]
    ) -> tuple[Dim, int, list[tuple[Dim, int]]]:
        """Take the orientation of the least peak, the first of such."""
        most = min(m for (_, m), _ in made)
        peak = self.symbol("peak", dims.minimum(*(p for (p, _), _ in made)), most)
        left: Dim = 1
        chosen: list[Dim] = []
        for k, ((p, _), _) in enumerate(made):
            here = dims.sub(1, dims.minimum(1, dims.sub(p, peak)))
            last = k == len(made) - 1
            take = left if last else self.symbol("take", dims.mul(left, here), 1)
            chosen.append(take)
            left = dims.sub(left, take)
        offsets: list[tuple[Dim, int]] = []
        for column in zip(*(offsets for _, offsets in made), strict=True):
            same = len({d for d, _ in column}) == 1
            highest = max(m for _, m in column)
            value = (
                column[0][0]
                if same
                else dims.add(*(dims.mul(t, d) for t, (d, _) in zip(chosen, column, strict=True)))
            )
            offsets.append((value if same else self.symbol("at", value, highest), highest))
        return peak, most, offsets
