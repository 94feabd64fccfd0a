"""Plan the memory of a program: of its variants, the one whose plan has the lowest peak.

A program may be planned as it stands, or without copies and launches that only move bytes; and
either with a result in the bytes of an operand that dies, or not.  Less work or a result in place
may lengthen lives, so each variant is planned, except where a lower bound of its peak already says
that it loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.memory.allocate import OVER, allocated
from didyma.codegen.memory.elide import elided
from didyma.codegen.memory.fewer import no_higher
from didyma.codegen.memory.inplace import in_place
from didyma.codegen.memory.peak import peak
from didyma.codegen.memory.planners import Planner
from didyma.codegen.memory.values import PlannedValues, bound, values_of
from didyma.codegen.memory.views import Mover, moves_as_views
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.lines import Block
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.verify.sharing import Sharing


def plan(
    bare: Program,
    planner: Planner,
    capacity: int | None = None,
    movers: Mapping[str, Mover] | None = None,
    target: Target = PORTABLE,
    *,
    eager: bool = False,
) -> Program:
    """Give memory to a program and its functions; no device may need more than ``capacity`` bytes.

    ``movers`` are the kernels that only move bytes.  Arenas that the target has room for are on the
    stack.  An ``eager`` plan saves copies and takes over bytes whatever that does to its peak.
    DidymaError ``over-capacity`` if a device needs more, with the line at which that cannot
    be helped.
    """
    for i, f in enumerate(bare.functions):
        done = _planned(bare.function[f.name], planner, capacity, movers, target, eager)
        done = replace(done, kernels=(), functions=())
        bare = replace(bare, functions=(*bare.functions[:i], done, *bare.functions[i + 1 :]))
    return _planned(bare, planner, capacity, movers, target, eager)


def _planned(
    bare: Program,
    planner: Planner,
    capacity: int | None,
    movers: Mapping[str, Mover] | None,
    target: Target,
    eager: bool,
) -> Program:
    if planner.name == "none":
        return allocated(values_of(bare), planner, capacity, target.stack)
    if eager:
        return allocated(_shortest(bare, movers, target), planner, capacity, target.stack)
    costs = _Costs(samples(bare), planner.whole is not None)
    variants = Variants(planner, capacity, costs.samples, target.stack, costs.shares)
    less = elided(moves_as_views(bare, movers, costs) if movers else bare, costs, target)
    best = variants.best(bare) if less is bare else variants.better(bare, less, costs(bare))
    if best.refused is not None:
        raise best.refused
    return best.program


def _shortest(bare: Program, movers: Mapping[str, Mover] | None, target: Target) -> PlannedValues:
    """Return what to plan of a program without all the copies, launches and bytes it can spare."""

    def nothing(_: Program) -> tuple[int, ...]:
        return ()

    less = elided(moves_as_views(bare, movers, nothing) if movers else bare, nothing, target)
    values = values_of(less)
    return values_of(in_place(less, values.lives, values.alone))


def samples(p: Program) -> tuple[Mapping[str, int], ...]:
    """Return the bindings of dims at which plans are compared: both ends, and one between."""
    if not p.dims:
        return ({},)
    return (
        {v.name: v.lo for v in p.dims},
        {v.name: v.hi for v in p.dims},
        {v.name: round(((v.lo + 1) * (v.hi + 1)) ** 0.5) - 1 for v in p.dims},
    )


class _Costs:
    """Lower bounds of the peaks of forms of one program, with results in place, by their lines.

    The planner reuses ``whole`` buffers, or places them in arenas.
    """

    def __init__(self, samples: tuple[Mapping[str, int], ...], whole: bool) -> None:
        self.samples, self.whole = samples, whole
        self.shares: dict[str, Sharing] = {}
        self.by_lines: dict[Block, tuple[int, ...]] = {}

    def __call__(self, p: Program) -> tuple[int, ...]:
        if p.lines not in self.by_lines:
            values = values_of(p)
            reused = values_of(in_place(p, values.lives, values.alone, self.shares))
            self.by_lines[p.lines] = tuple(bound(reused, self.whole, env) for env in self.samples)
        return self.by_lines[p.lines]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A planned program; or, where the planner cannot keep the capacity, the error to raise."""

    program: Program
    refused: DidymaError | None = None

    def peaks(self, samples: Sequence[Mapping[str, int]]) -> list[int]:
        """Return the peaks of the plan, in bytes."""
        return [peak(self.program, env) for env in samples]


@dataclass(frozen=True, slots=True)
class Variants:
    """Plans variants of a program by one planner, and compares their peaks at the samples."""

    planner: Planner
    capacity: int | None
    samples: tuple[Mapping[str, int], ...]
    stack: int  # bytes of an arena that may be on it
    shares: dict[str, Sharing] = field(default_factory=dict[str, Sharing])  # by kernel

    def better(self, bare: Program, less: Program, least: Sequence[int]) -> _Planned:
        """Plan a program, or the one with fewer lines where its peak is no higher.

        No plan of the first has lower peaks than ``least``.
        """
        best = replace(self, capacity=None).best(less)
        peaks = best.peaks(self.samples)
        if not no_higher(peaks, least):
            other = self.best(bare)
            if other.refused is None and not no_higher(peaks, other.peaks(self.samples)):
                return other
        return best if self.capacity is None else self.best(less)

    def best(self, bare: Program) -> _Planned:
        """Plan a program, with results in place where that lowers its peak."""
        plain = values_of(bare)
        reused = in_place(bare, plain.lives, plain.alone, self.shares)
        if reused is bare:
            return self.one(plain)
        other = values_of(reused)
        if bare.dims and self.capacity is None:
            return self._symbolic(plain, other)
        first = self.one(plain)
        if first.refused is not None:
            return self.one(other)
        most = first.peaks(self.samples)
        if not bare.dims and self.bounds(other) >= most:
            return first
        second = self.one(other)
        if second.refused is not None:
            return first
        peaks = second.peaks(self.samples)
        return second if no_higher(peaks, most) and peaks != most else first

    def _symbolic(self, plain: PlannedValues, other: PlannedValues) -> _Planned:
        """Plan one of two variants where bounds decide between them: such plans take long."""
        least = self.bounds(plain)
        if self.bounds(other) == least:
            return self.one(plain)
        second = self.one(other)
        peaks = second.peaks(self.samples)
        if no_higher(peaks, least):
            return second
        first = self.one(plain)
        return second if no_higher(peaks, first.peaks(self.samples)) else first

    def bounds(self, values: PlannedValues) -> list[int]:
        """Return lower bounds of the peaks of any plan."""
        whole = self.planner.whole is not None
        return [bound(values, whole, env) for env in self.samples]

    def one(self, values: PlannedValues) -> _Planned:
        """Plan one variant."""
        try:
            return _Planned(allocated(values, self.planner, self.capacity, self.stack))
        except DidymaError as e:
            if e.code != OVER:
                raise
            return _Planned(values.bare, refused=e)
