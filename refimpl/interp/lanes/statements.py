"""The interpreter of loop programs: every parallel loop is an axis of NumPy lanes.

Loops that are parallel, vectorised or bound to a grid or thread axis run as array axes, statement
by statement; serial loops run in Python.  That order hides what a missing barrier would do, so the
checks matter as much as the values: bounds, initialisation, races and barrier divergence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.lanes.calls import CallCompiler
from didyma.refimpl.interp.lanes.code import Code, known
from didyma.refimpl.interp.lanes.exprs import both, but
from didyma.refimpl.interp.lanes.races import Mask
from didyma.refimpl.interp.lanes.stores import LANE_KINDS, Run
from didyma.refimpl.interp.lanes.windows import LaneVar
from didyma.refimpl.interp.loop import MOST_ROUNDS, Routine
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    Barrier,
    Block,
    Call,
    ExternalCall,
    For,
    Free,
    If,
    Let,
    LoopKind,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Stmt,
    Store,
    While,
)
from didyma.refimpl.ir.types import Array

__all__ = ["run"]


def run(
    f: PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
) -> None:
    """Run a function in place on C-contiguous arrays, one for each parameter.

    ``externals`` are the routines that ``ExternalCall`` names: each gets output arrays, input
    arrays and attributes.  Raises LoopFault, of one of the kinds of ``LoopFaultKind``; ValueError
    for arrays of another type than declared.
    """
    with np.errstate(all="ignore"):
        compiler = StmtCompiler(f, dims, externals or {})
        for b in f.params:
            compiler.parameter(b, buffers[b.name], dims)
        body = compiler.ready(f.body)
        body(None)
        compiler.settle(None)


class StmtCompiler(CallCompiler):
    """Makes closures of statements; one object serves one run of one function."""

    def ready(self, s: Stmt) -> Run:
        """Make a statement ready."""
        self.stmt = s
        self.seen.clear()
        match s:
            case Block(body):
                return _sequence([self.ready(b) for b in body])
            case For():
                return self.lane_loop(s) if s.kind in LANE_KINDS else self.serial_loop(s)
            case Store():
                return self.store(s)
            case If():
                return self.branch(s)
            case While():
                return self.rounds(s)
            case Let():
                return self.bound(s)
            case Allocate():
                return self.allocate(s)
            case PlacementAllocate():
                return self.place(s)
            case Free(name):
                return self.free(name)
            case Atomic():
                return self.atomic(s)
            case Barrier():
                return self.barrier(s)
            case Assert():
                return self.check(s)
            case ExternalCall():
                return self.routine(s)
            case Call():
                return self.call(s)
            case _:
                assert_never(s)

    def bound(self, s: Let) -> Run:
        """Let: the value once, then the body."""
        value = self.expr(s.value)
        if not self.bind(s.var.name, value):
            return self.ready(s.body)
        body, env, name, get = self.ready(s.body), self.frame.env, s.var.name, value.run
        clock = self.clock

        def run(mask: Mask) -> None:
            env[name] = get(mask)
            clock[0] += 1
            body(mask)

        return run

    def branch(self, s: If) -> Run:
        """Each side with the lanes that take it."""
        cond, outer = self.expr(s.cond), self.mask
        if cond.known and cond.uniform:
            chosen = s.then if cond.value else s.other
            return _nothing if chosen is None else self.ready(chosen)
        if cond.known and outer is not False:
            assert not isinstance(outer, bool)
            return _sequence(
                [
                    self._static_side(s.then, both(outer, cond.value)),
                    self._static_side(s.other, but(outer, cond.value)),
                ]
            )
        self.mask = False
        then = self.ready(s.then)
        other = None if s.other is None else self.ready(s.other)
        self.mask = outer
        choose = cond.run

        def run(mask: Mask) -> None:
            chosen = choose(mask)
            if chosen.ndim == 0:
                if chosen:
                    then(mask)
                elif other is not None:
                    other(mask)
                return
            yes = both(mask, chosen)
            if yes.any():
                then(None if yes.all() else yes)
            if other is not None:
                no = but(mask, chosen)
                if no.any():
                    other(None if no.all() else no)

        return run

    def _static_side(self, s: Stmt | None, mask: Array) -> Run:
        if s is None or not mask.any():
            return _nothing
        outer = self.mask
        inner: Mask = None if mask.all() else mask
        self.mask = inner
        body = self.ready(s)
        self.mask = outer

        def run(now: Mask) -> None:
            del now
            body(inner)

        return run

    def serial_loop(self, s: For) -> Run:
        """One iteration after another; lanes whose extent is reached sit out."""
        extent, name, env, outer = self.expr(s.extent), s.var.name, self.frame.env, self.mask
        n = int(extent.value.max()) if extent.known else None
        if n is not None and n <= 0:
            return _nothing
        if n == 1 and extent.uniform:
            self.bind(name, known(np.int64(0), (0, 0)))
            return self.ready(s.body)
        top = extent.interval[1] if extent.interval is not None else n
        self.bind(name, Code(_unset, True, False, None if top is None else (0, max(top - 1, 0))))
        if not extent.uniform:
            self.mask = False
        body = self.ready(s.body)
        self.mask = outer
        count = extent.run
        clock = self.clock
        steps = [np.int64(k) for k in range(n)] if n is not None else None

        def uniform(mask: Mask) -> None:
            for k in steps if steps is not None else np.arange(count(mask), dtype=np.int64):
                env[name] = k
                clock[0] += 1
                body(mask)

        def ragged(mask: Mask) -> None:
            ends = count(mask)
            for k in range(int(ends.max())):
                active = both(mask, ends > k)
                if not active.any():
                    return
                env[name] = np.int64(k)
                clock[0] += 1
                body(None if active.all() else active)

        return uniform if extent.uniform else ragged

    def rounds(self, s: While) -> Run:
        """Round after round; a lane whose condition fails has done its last."""
        cond, outer = self.expr(s.cond), self.mask
        if cond.known and not cond.value.any():
            return _nothing
        if not cond.uniform:
            self.mask = False
        body = self.ready(s.body)
        self.mask = outer
        choose, clock = cond.run, self.clock
        most = 0 if cond.known else MOST_ROUNDS

        def run(mask: Mask) -> None:
            active = mask
            for _ in range(most):
                chosen = choose(active)
                if chosen.ndim == 0:
                    if not chosen:
                        return
                else:
                    active = both(active, chosen)
                    if not active.any():
                        return
                    active = None if active.all() else active
                clock[0] += 1
                body(active)
            raise stmt_fault("endless", s, f"more than {MOST_ROUNDS} rounds")

        return run

    def lane_loop(self, s: For) -> Run:
        """All iterations at once, along a new axis."""
        self._check_axis(s)
        extent, axis, outer = self.expr(s.extent), self.depth, self.mask
        if not extent.known:
            return self._sized_late(s, extent)
        size = int(extent.value.max())
        if size <= 0:
            return _nothing
        var = _iota(size, axis, self.total)
        self.frame.vars[s.var.name] = known(var, (0, size - 1))
        self.frame.lane_vars[s.var.name] = LaneVar(axis, size)
        limit = None if extent.uniform else var < extent.value
        if limit is not None and outer is not False:
            assert not isinstance(outer, bool)
            self.mask = limit = both(outer, limit)
        self.lanes.resize(axis, size)
        body = self._enter(s)
        self.lanes.resize(axis, 1)
        self.mask = outer
        return self._spread(s, axis, body, size, limit)

    def _check_axis(self, s: For) -> None:
        if s.axis.startswith("blockIdx") and self.blocks != self.depth:
            raise ValueError(f"{s.axis}: grid loops must be outermost")

    def _enter(self, s: For) -> Run:
        grid = s.axis.startswith("blockIdx")
        self.depth += 1
        self.blocks += grid
        body = self.ready(s.body)
        self.depth -= 1
        self.blocks -= grid
        return body

    def _spread(self, s: For, axis: int, body: Run, size: int, limit: Mask) -> Run:
        lanes, ordered = self.lanes, s.kind != LoopKind.BOUND or axis == 0

        def run(mask: Mask) -> None:
            active = mask if limit is None else both(mask, limit)
            if active is not None and not active.any():
                return
            lanes.resize(axis, size)
            if ordered:  # bound loops are threads: their start and end wait for nobody
                lanes.order(axis)
            body(active)
            if ordered:
                lanes.order(axis)
            lanes.resize(axis, 1)
            if axis == 0:
                self.settle(None)

        return run

    def _sized_late(self, s: For, extent: Code) -> Run:
        """Lane loop whose extent is known only while running."""
        axis, outer, name, sized = self.depth, self.mask, s.var.name, self.sized
        env = self.frame.env
        top = extent.interval
        within = None if top is None else (0, max(top[1] - 1, 0))
        self.bind(name, Code(_unset, False, False, within))
        self.mask, self.sized = False, False
        body = self._enter(s)
        self.mask, self.sized = outer, sized

        def run(mask: Mask) -> None:
            ends = extent.run(mask)
            size = int(ends.max())
            if size > 0:
                self.clock[0] += 1
                env[name] = var = _iota(size, axis, self.total)
                limit = None if ends.ndim == 0 else var < ends
                self._spread(s, axis, body, size, limit)(mask)

        return run

    def barrier(self, s: Barrier) -> Run:
        """Order the lanes of each block; all of a block's lanes must be there, or none."""
        level, lanes = self.blocks, self.lanes

        def run(mask: Mask) -> None:
            if mask is None:
                lanes.order(level)
                self.settle(Scope.SHARED)
                return
            head = lanes.shape[:level]
            active = np.broadcast_to(mask, lanes.shape).reshape(*head, -1)
            arrived = active.all(axis=-1)
            if (active.any(axis=-1) & ~arrived).any():
                detail = f"{int(active.sum())} of {active.size} threads arrive"
                raise stmt_fault("barrier-divergence", s, detail)
            lanes.order(
                level, arrived.reshape(head + (1,) * (len(lanes.shape) - level)).astype(int)
            )

        return run

    def check(self, s: Assert) -> Run:
        """Assert."""
        cond = self.expr(s.cond).run

        def run(mask: Mask) -> None:
            good = cond(mask)
            if not good.all() and (mask is None or good.ndim == 0 or (mask & ~good).any()):
                raise stmt_fault("assert", s, s.message)

        return run


def _unset(mask: Mask) -> Value:
    raise AssertionError(f"a variable outside its loop, under {mask}")


def _nothing(mask: Mask) -> None:
    del mask


def _iota(size: int, axis: int, depth: int) -> Array:
    return np.arange(size, dtype=np.int64).reshape(
        (1,) * axis + (size,) + (1,) * (depth - axis - 1)
    )


def _sequence(steps: list[Run]) -> Run:
    if len(steps) == 1:
        return steps[0]

    def run(mask: Mask) -> None:
        for step in steps:
            step(mask)

    return run
