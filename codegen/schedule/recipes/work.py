"""What recipes ask about one loop nest before they schedule it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from didyma.codegen.lower.affine import Poly
from didyma.codegen.options import Options
from didyma.codegen.schedule import (
    beside,
    folds,
    groups,
    lines,
    matmul,
    meeting,
    online,
    row_threads,
    row_wide,
    rows,
    running,
    streamed,
    sweep,
    transpose,
)
from didyma.codegen.schedule.folds import FoldNest
from didyma.codegen.schedule.groups import Groups
from didyma.codegen.schedule.matmul import Product
from didyma.codegen.schedule.meeting import Meeting
from didyma.codegen.schedule.nest import Nest, NestFacts, nests
from didyma.codegen.schedule.online import Online, shelvable
from didyma.codegen.schedule.row_values import Values
from didyma.codegen.schedule.rows import RowNest
from didyma.codegen.schedule.running import Running
from didyma.codegen.schedule.sweep import Sweep
from didyma.codegen.schedule.transpose import Turned
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, is_constant
from didyma.refimpl.ir.loop import Atomic, Const, Expr, Fold, For, Load, PrimFunc, Store, Var
from didyma.refimpl.ir.walk import expr_children, exprs

HEAD = 1 << 10  # bytes of shared memory that a block takes beside rows
AT_ONCE = 8  # bytes of neighbouring rows that a thread loads at once
LANES = 16  # neighbours that a core runs together
NEAR = 4  # distance in elements between the reads of neighbouring threads


@dataclass(frozen=True)
class Work:
    """A nest to schedule: each answer about it is computed once.

    Building a kernel takes names from the facts, so that one work makes one kernel.
    """

    facts: NestFacts
    fold: FoldNest | None
    sweep: Sweep | None = None
    sums: tuple[str, ...] = ()  # what rows add to, beside what they store

    @staticmethod
    def of(p: PrimFunc, nest: Nest, options: Options) -> Work:
        """Collect the facts about a nest of an expanded function."""
        return Work(NestFacts.of(p, nest, options), folds.find(nest))

    @staticmethod
    def all_of(p: PrimFunc, options: Options) -> list[Work]:
        """Collect the facts about each nest of an expanded function.

        Rows that are folded along and across are one nest: without an index, of all loops.
        """
        found = nests(p.body)
        if (both := sweep.find(p, found, options)) is not None:
            return [Work(NestFacts.of(p, Nest((), (), p.body), options), None, both)]
        return [Work.of(p, nest, options) for nest in found]

    @property
    def apart(self) -> list[Work]:
        """The works of the nests of a sweep."""
        func, options = self.facts.func, self.facts.options
        return [Work.of(func, nest, options) for nest in nests(func.body)]

    @cached_property
    def swept(self) -> Work:
        """The work of the rows of a sweep that also fold across."""
        assert self.sweep is not None
        return Work(self.sweep.facts, None, sums=self.sweep.rows.sums)

    @property
    def serial(self) -> NestFacts:
        """The facts about the nest with loops in place of folds."""
        folds_ = any(isinstance(s, Fold) for s in self.facts.statements)
        return self.facts.serial() if folds_ else self.facts

    @cached_property
    def rows(self) -> RowNest | None:
        """The rows that the nest folds several times, or uses after a fold."""
        found = None if self.fold is not None else rows.find(self.facts.nest)
        return found if found is None else replace(found, sums=self.sums)

    @cached_property
    def row_shape(self) -> tuple[int, int]:
        """How many rows share a block, and the threads for each, by the model."""
        assert self.rows is not None
        length, count = self._expected(self.rows.length), self.facts.largest(self.rows.nest.numel)
        across, width, sizes = self.row_across, self.row_widths[0], self.row_sizes
        much = bool(self.row_values.shared)
        return row_threads.shape(length, count, across, self.facts.options, width, sizes, much=much)

    @cached_property
    def row_sizes(self) -> list[int]:
        """The bytes of what threads keep of an element of the rows, where that is most."""
        return max(rows.live(*self.row_kept(1)), key=sum, default=list[int]())

    def _expected(self, length: Expr) -> int:
        """Return how many elements of a row to expect."""
        is_open = not isinstance(length, Const)
        return row_threads.expected(self.facts.largest(length), is_open=is_open)

    @cached_property
    def row_across(self) -> bool:
        """Whether neighbouring rows, and not neighbours in a row, lie together in memory."""
        assert self.rows is not None
        return rows.across(self.facts, self.rows)

    @cached_property
    def row_widths(self) -> tuple[int, ...]:
        """How many neighbours in a row a thread may take at once, the best first."""
        assert self.rows is not None
        return (1,) if self.row_across else row_wide.widths(self.facts, self.rows)

    @cached_property
    def row_counts(self) -> tuple[int, ...]:
        """How many rows side by side a thread may have, the most first."""
        assert self.rows is not None
        return beside.counts(self.facts, self.rows) if self.row_across else (1,)

    @cached_property
    def row_each(self) -> int:
        """How many rows side by side a thread best has: those that one access of 8 bytes loads."""
        most = AT_ONCE // max(1, self.row_nbytes)
        return max(n for n in self.row_counts if n <= max(1, most))

    @cached_property
    def row_nbytes(self) -> int:
        """The bytes of an element of a row that several stages load."""
        return sum(x.dtype.nbytes for x, stages in self.row_loads.items() if len(stages) > 1)

    @cached_property
    def row_values(self) -> Values:
        """What several stages of the rows compute of an element."""
        assert self.rows is not None
        return Values.of(self.facts, self.rows)

    @cached_property
    def row_loads(self) -> Mapping[Load, tuple[int, ...]]:
        """What the stages of the rows load at one element, each with those stages."""
        assert self.rows is not None
        return rows.stage_loads(self.facts, self.rows)

    @cached_property
    def row_online(self) -> Online | None:
        """The two folds of the rows that can be done in one pass."""
        assert self.rows is not None
        return online.find(self.facts, self.rows)

    @cached_property
    def row_kept(self) -> Callable[[int], tuple[RowNest, Mapping[Load, tuple[int, ...]]]]:
        """By how many elements rows keep values of: these rows, and what their stages load."""
        return cache(self._row_kept)

    def _row_kept(self, elements: int) -> tuple[RowNest, Mapping[Load, tuple[int, ...]]]:
        assert self.rows is not None
        if not elements or not self.row_values.shared:
            return self.rows, self.row_loads
        found = self.row_values.kept(elements)
        return found, rows.stage_loads(self.facts, found)

    @cached_property
    def row_edges(self) -> Callable[[int], bool]:
        """By the elements of an access: whether rows begin or end within one."""
        assert self.rows is not None
        return cache(partial(row_wide.has_edges, self.facts, self.rows))

    @cached_property
    def row_shelvable(self) -> Callable[[int], list[Load]]:
        """By the elements of an access: what one pass over rows may leave on a shelf."""
        return cache(self._row_shelvable)

    def _row_shelvable(self, wide: int) -> list[Load]:
        assert self.rows is not None
        assert self.row_online is not None
        accesses = row_wide.of(self.facts, self.rows, wide)
        return shelvable(self.facts, self.rows, accesses, self.row_online)

    @cached_property
    def row_copies(self) -> Callable[[int, int, int], tuple[Load, ...]]:
        """By threads of a row, elements of an access, and those kept: what may be copied early."""
        return cache(self._row_copies)

    def _row_copies(self, lanes: int, wide: int, elements: int) -> tuple[Load, ...]:
        nest, loads = self.row_kept(elements)
        kept = rows.kept_loads(self.facts, nest, lanes, wide, loads)
        return streamed.copied(self.facts, nest, kept, wide)

    @cached_property
    def row_halves(self) -> bool:
        """Whether two blocks best have a multiprocessor, with a row each in shared memory.

        That is so for rows that take a block all its threads to hold, if they do at all, or whose
        exponentials are computed again.
        """
        assert self.rows is not None
        target, online, options = self.facts.target, self.row_online, self.facts.options
        count, length = (self.facts.largest(e) for e in (self.rows.nest.numel, self.rows.length))
        if online is None or self.rows.each is None or not isinstance(self.rows.length, Const):
            return False
        several = [x.dtype.nbytes for x, stages in self.row_loads.items() if len(stages) > 1]
        fits = sum(several) > 0 and length * sum(several) <= target.room // 2 - HEAD
        many = 8 * count >= 7 * target.processors > 0 < options.kernels.online
        if not fits or not many or 2 * self.row_shape[1] <= target.threads:
            return False
        alone, wide = row_threads.held_alone(self.row_sizes), self.row_widths[0]
        held = row_threads.suits(length, *self.row_shape, wide, options, alone)
        return bool(online.scale) or not held

    @cached_property
    def running(self) -> Running | None:
        """The running fold of the nest, which each of its elements takes a part of."""
        return None if self.fold is not None else running.find(self.facts)

    @cached_property
    def meeting(self) -> Meeting | None:
        """The fold of the nest whose terms have places, as those of a scatter have."""
        return meeting.find(self.facts)

    @cached_property
    def product(self) -> Product | None:
        """The matrix product that the fold is; None if it is none or not worth tiles."""
        return None if self.fold is None else matmul.find(self.facts, self.fold)

    @cached_property
    def turned(self) -> Turned | None:
        """The load of a nest without a fold that runs across the result's last axis."""
        return transpose.find(self.facts) if self.fold is None else None

    @cached_property
    def fold_rows(self) -> RowNest:
        """The terms of the fold as rows of which it is the only stage."""
        assert self.fold is not None
        return groups.as_row(self.fold)

    @cached_property
    def fold_widths(self) -> tuple[int, ...]:
        """How many terms of the fold a thread may take at once, the best first."""
        return row_wide.widths(self.facts, self.fold_rows)

    @cached_property
    def fold_shape(self) -> tuple[int, int]:
        """How many results share a block, and the threads for each, by the model."""
        assert self.fold is not None
        length, width = self._expected(self.fold.length), self.fold_widths[0]
        return row_threads.fold_shape(length, self.results, self.facts.options, width)

    @cached_property
    def fold_groups(self) -> Groups | None:
        """What a thread may load together of the terms of the fold; None if there is nothing."""
        assert self.fold is not None
        return groups.find(self.facts, self.fold, self.reads_along)

    @cached_property
    def lined(self) -> tuple[int, Work] | None:
        """How many lines of the parameters the fold best takes as one, and its work then."""
        if self.fold is None or self.reads_along or self.fold_groups is not None:
            return None
        found = lines.find(self.facts, self.fold)
        if found is None:
            return None
        return found.count, Work.of(found.func, found.nest, self.facts.options)

    @cached_property
    def length(self) -> int:
        """The largest number of terms of the fold."""
        assert self.fold is not None
        return self.facts.largest(self.fold.length)

    @cached_property
    def results(self) -> int:
        """The largest number of iterations of the parallel loops."""
        return self.facts.largest(self.facts.nest.numel)

    @cached_property
    def _reads(self) -> list[tuple[Poly, int]]:
        """The offsets that the step of the fold reads, in elements, and the bytes of them all."""
        assert self.fold is not None
        found = (
            (e, self.facts.offset(e.buffer, e.index))
            for e in exprs(self.fold.fold.step)
            if isinstance(e, Load) and e.buffer in self.facts.buffers
        )
        return [(p, self._elements(e.buffer, p) * e.dtype.nbytes) for e, p in found]

    @cached_property
    def reads_once(self) -> bool:
        """Whether every term of each result is an element of a buffer that no other term is."""
        assert self.fold is not None
        found = (e for e in exprs(self.fold.fold.step) if isinstance(e, Load))
        every = self.length * self.results
        return any(
            self._elements(e.buffer, self.facts.offset(e.buffer, e.index)) == every
            for e in found
            if e.buffer in self.facts.buffers
        )

    def _elements(self, buffer: str, offset: Poly) -> int:
        """Return how many elements the terms of all results read of a buffer, at most."""
        fold, facts = self.fold, self.facts
        assert fold is not None
        names = facts.affine.names(offset)
        sizes = zip(
            (*facts.nest.index, *fold.ks), (*facts.nest.extents, *fold.extents), strict=True
        )
        count = math.prod(facts.largest(n) for v, n in sizes if v.name in names)
        return min(count, facts.largest(ix.mul(*facts.shape(buffer))))

    @cached_property
    def reads_are_near(self) -> bool:
        """Whether neighbouring results read the same elements, or elements near each other."""
        return all(_is_near(p, v) for p, _ in self._reads for v in self._neighbours)

    @cached_property
    def _neighbours(self) -> tuple[Var, ...]:
        """The index that tells neighbouring results apart: the last of more than one value, if any.

        Axes that a fold keeps have one.
        """
        nest = self.facts.nest
        pairs = zip(nest.index, nest.extents, strict=True)
        return tuple(v for v, n in pairs if self.facts.largest(n) > 1)[-1:]

    @cached_property
    def lanes(self) -> Nest:
        """The nest with the loop last whose neighbours a core best runs together.

        These read the same elements, or neighbours in memory, and are more than a few.
        """
        nest = self.facts.nest
        order = list(range(len(nest.index)))
        if self._run(order) < LANES:
            turns = ([*order[:k], *order[k + 1 :], k] for k in reversed(order))
            order = next((o for o in turns if self._run(o) >= LANES), order)
        index, extents = (nest.index[k] for k in order), (nest.extents[k] for k in order)
        return Nest(tuple(index), tuple(extents), nest.body)

    def _run(self, order: Sequence[int]) -> int:
        """Return how many neighbours, in an order of the loops, read elements side by side."""
        nest = self.facts.nest
        loops = [(nest.index[k].name, self.facts.largest(nest.extents[k])) for k in order]
        steps, run = list[int](), 1
        for name, count in reversed(loops):
            found = [self._step(p, name) for p, _ in self._reads]
            if count > 1 and not steps:
                steps = [s for s in found if s in (0, 1)]
                if len(steps) < len(found) or 1 not in steps:
                    return 0
            elif count > 1 and found != [s * run for s in steps]:
                break
            run *= count
        return run

    def _step(self, offset: Poly, name: str) -> int | None:
        """Return how far apart neighbours in a loop read; None if that is not known."""
        step = coefficient(offset, name)
        if step == {}:
            return None if name in self.facts.affine.names(offset) else 0
        return step[()] if step is not None and is_constant(step) else None

    @cached_property
    def _along_and_across(self) -> tuple[int, int]:
        """The bytes that are neighbours of neighbouring terms, and those of results."""
        assert self.fold is not None
        axes = (self.fold.ks[-1:], self._neighbours)
        along, across = (
            sum(n for p, n in self._reads if any(_is_unit(p, v) for v in vs)) for vs in axes
        )
        return along, across

    @cached_property
    def reads_along(self) -> bool:
        """Whether neighbouring terms of the fold are neighbours in memory, where most is read."""
        along, across = self._along_and_across
        return along > 0 and along >= across

    @cached_property
    def reads_across(self) -> bool:
        """Whether neighbouring results read neighbours in memory."""
        return self._along_and_across[1] > 0

    @cached_property
    def kind(self) -> str:
        """The class of a kernel with one thread a result."""
        facts = self.facts
        if self.sweep is not None:
            return "sweep"
        stored = (i for s in facts.statements if isinstance(s, (Store, Atomic)) for i in s.index)
        if any(map(self._is_read, stored)):
            return "scatter"
        if self.loops:
            return "fold"
        return "gather" if any(map(self._is_read, self._loaded())) else "pointwise"

    @property
    def loops(self) -> bool:
        """Whether one thread alone has a loop to run."""
        inside = self.facts.statements
        return any(isinstance(s, For) or (isinstance(s, Fold) and s.axes) for s in inside)

    def _loaded(self) -> Iterator[Expr]:
        return (i for e in self.facts.inside if isinstance(e, Load) for i in e.index)

    def _is_read(self, e: Expr) -> bool:
        """Return whether an index depends on memory."""
        if isinstance(e, Var) and e.name in self.facts.affine.lets:
            return self._is_read(self.facts.affine.lets[e.name])
        return isinstance(e, Load) or any(map(self._is_read, expr_children(e)))


def _is_near(offset: Poly, var: Var) -> bool:
    step = coefficient(offset, var.name)
    return step is not None and is_constant(step) and abs(step.get((), 0)) <= NEAR


def _is_unit(offset: Poly, var: Var) -> bool:
    return coefficient(offset, var.name) == {(): 1}
