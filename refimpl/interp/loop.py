"""The definition of the loop level: what each statement and expression means, one thread at a time.

A *thread* is one iteration of the loops around it that are parallel, vectorised or bound to an
axis.  It runs its statements in order and stops at a barrier until every thread of its block, or
of its cluster of blocks, has come to the same barrier; then all go on.  Clusters run one after
another; the blocks of one run each to its next barrier of the cluster, and so do the threads of a
block, each to its next barrier.  ``loop_thread`` has the expressions, and ``scalar`` defines their
operations; any NaN is as good as another.

``LoopFault`` is raised for an index outside its buffer, a load of what was never stored or is
dead, a barrier that some threads of a block miss, a dim or a block's variable outside its range, an
access outside a block's regions, an assertion that fails and a loop without end.  A race (two
threads that nothing orders touch an element, one to store it) makes results depend on the order of
threads; this interpreter knows one order and does not notice.  ``oracle.lanes`` does: it is the
same language made fast, all threads at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.allocated import allocated
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.loop_chain import chained
from didyma.refimpl.interp.loop_memory import Box, Limits, memory_of
from didyma.refimpl.interp.loop_thread import Routine as Routine
from didyma.refimpl.interp.loop_thread import Thread, element, evaluate
from didyma.refimpl.interp.scalar import Arithmetic, Value
from didyma.refimpl.interp.scalar_ring import forget, value_of
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims import free as dims_of
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.vectors import lanes_of

# A thread stops at each barrier and yields the choices that led there: positions in blocks, sides
# of conditions, rounds of loops.  Threads with equal choices wait at the same barrier.
Arrival: TypeAlias = tuple[int, ...]
Steps: TypeAlias = Generator[Arrival, None, None]

_MEETING = -2  # the last choice on the way to a barrier of a cluster
MOST_ROUNDS = 1 << 24  # of one ``while``


def run(
    f: ir.PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
    arithmetic: Arithmetic = scalar,
    scalars: Mapping[str, float] | None = None,
) -> Value | None:
    """Run a function in place on one array for each parameter; raise LoopFault if it faults.

    Returns the number that the function returns, if it does.

    ``scalars`` are the values of scalar parameters, by name.
    ``externals`` are the routines that external calls name: each gets output arrays, input arrays
    and attributes; one that allocates gets no output arrays and returns them.  DidymaError
    ``extern-result`` where they are of another type.  With ``scalar_ring`` as the ``arithmetic``,
    arrays of floats are records of their values and payloads.
    """
    f, memory = memory_of(f, buffers, dims, arithmetic.held)
    names: dict[str, Value] = {name: np.int64(size) for name, size in dims.items()}
    names |= {v.name: arithmetic.constant((scalars or {})[v.name], v.dtype) for v in f.scalars}
    thread = Thread(arithmetic, f.function, externals or {}, names, memory)
    with np.errstate(all="ignore"):
        deque(execute(thread, f.body), maxlen=0)
    return thread.returned[0] if thread.returned else None


def execute(t: Thread, s: ir.Stmt) -> Steps:
    """Run a statement."""
    match s:
        case ir.Block(body):
            for position, b in enumerate(body):
                yield from _by(position, execute(t, b))
        case ir.For(var, extent, body, ir.LoopKind.SERIAL | ir.LoopKind.UNROLLED):
            for i in range(int(evaluate(t, extent, s))):
                t.vars[var.name] = np.int64(i)
                yield from _by(i, execute(t, body))
        case ir.For(_, extent, body, _, axis):
            end = int(evaluate(t, extent, s))
            threads = (execute(t.fork(s, i, end), body) for i in range(end))
            if axis == ir.RANK:  # blocks stop only where their cluster meets
                meet = ((a for a in block if a[-1:] == (_MEETING,)) for block in threads)
                yield from _side_by_side(meet)
            elif axis.startswith("blockIdx"):
                for block in threads:  # to its end: at a barrier all of its threads are there
                    t.memory.block.clear()
                    deque(block, maxlen=0)
            else:
                yield from _side_by_side(threads)
        case ir.While(cond, body):
            i = 0
            while evaluate(t, cond, s):
                if (i := i + 1) > MOST_ROUNDS:
                    raise stmt_fault("endless", s, f"more than {MOST_ROUNDS} rounds")
                yield from _by(i, execute(t, body))
        case ir.If(cond, then, other):
            holds = bool(evaluate(t, cond, s))
            if (chosen := then if holds else other) is not None:
                yield from _by(holds, execute(t, chosen))
        case ir.Fold(accs, axes, _, step, body):
            ends = [int(evaluate(t, a.extent, s)) for a in axes]
            t.bind((a.var for a in accs), [evaluate(t, a.start, s) for a in accs])
            inside = replace(t, fold=s)
            for position, at in enumerate(product(*map(range, ends))):
                t.bind((a.var for a in axes), map(np.int64, at))
                yield from _by(position, execute(inside, step))
            yield from _by(-1, execute(t, body))
        case ir.Yield(values):
            assert t.fold is not None, "a yield outside a fold"
            t.bind(t.fold.combine.operands, [evaluate(t, e, s) for e in values])
            results = [evaluate(t, e, s) for e in t.fold.combine.results]
            t.bind((a.var for a in t.fold.accs), results)
        case ir.BlockRealize():
            yield from _block(t, s)
        case ir.BufferRealize(buffer, starts, extents, body):
            t.memory.realize(buffer, [evaluate(t, e, s) for e in starts], extents)
            yield from execute(t, body)
        case ir.Compute(buffer, body=body):
            yield from execute(replace(t, producers={**t.producers, buffer.name: s}), body)
        case ir.ProducerRealize():
            yield from _produce(t, s)
        case ir.Let(var, value, body):
            t.vars[var.name] = evaluate(t, value, s)
            yield from execute(t, body)
        case ir.Store(name, index, value):
            by_lane = [t, *(replace(t, lane=lane) for lane in range(1, lanes_of(s)))]
            found = [(element(u, name, index, s), evaluate(u, value, s)) for u in by_lane]
            for at, new in found:
                t.memory.store(name, at, new, s)
        case ir.Atomic(op, name, index, value):
            at, new = element(t, name, index, s), evaluate(t, value, s)
            combine = t.arithmetic.binary_fn(op, value.dtype)
            t.memory.store(name, at, combine(t.memory.load(name, at, s), new), s)
        case ir.Barrier(scope):
            yield () if scope is ir.Scope.SHARED else (_MEETING,)
        case ir.Exchange(var, value, mask, body):
            t.given[t.number] = evaluate(t, value, s)
            yield (0,)  # all have given
            t.vars[var.name] = t.given[t.number ^ mask]
            yield (1,)  # all have taken
            yield from execute(t, body)
        case ir.Chain():
            t.given[t.number] = evaluate(t, s.value, s)
            yield (0,)  # all have given
            if not t.number:
                t.given[0] = chained(t, s)
            yield (1,)  # the first has what comes before
            t.vars[s.var.name] = t.given[0]
            yield (2,)  # all have taken
            yield from execute(t, s.body)
        case ir.Assert(cond, message):
            if not evaluate(t, cond, s):
                raise stmt_fault("assert", s, message)
        case ir.Evaluate(value):
            evaluate(t, value, s)
        case ir.Prefetch(name, index):
            element(t, name, index, s)
        case ir.AttrStmt(body=body):
            yield from execute(t, body)
        case ir.Allocate(buffer, body):
            t.memory.make(buffer)
            yield from execute(t, body)
        case ir.PlacementAllocate(buffer, over, body):
            t.memory.place(buffer, over, s)
            yield from execute(t, body)
        case ir.Free(name):
            t.memory.free(name)
        case ir.Call(name, args, values, numbers):
            f = t.functions[name]
            memory = t.memory.given(dict(zip((p.name for p in f.params), args, strict=True)))
            names = {d.name: evaluate(t, e, s) for d, e in zip(f.dims, values, strict=True)}
            if bad := [d for d in f.dims if not d.lo <= names[d.name] <= d.hi]:
                detail = f"{bad[0].name} outside [{bad[0].lo}, {bad[0].hi}]"
                raise stmt_fault("dim-out-of-range", s, detail)
            names |= {v.name: evaluate(t, e, s) for v, e in zip(f.scalars, numbers, strict=True)}
            yield from execute(replace(t, vars=names, memory=memory), f.body)
        case ir.Return(value):
            t.returned.append(evaluate(t, value, s))
        case ir.ExternalCall(name, outputs, inputs, attrs):
            known = t.memory.buffers
            results = [value_of(known[n].data) for n in outputs]
            t.externals[name](results, t.memory.values(inputs, s), dict(attrs))
            for n in outputs:
                forget(known[n].data)
                known[n].stored[...] = True
        case ir.ExternalAllocate(name, buffers, inputs, attrs, body):
            made = t.externals[name]((), t.memory.values(inputs, s), dict(attrs))
            sizes = {n: int(t.vars[n]) for b in buffers for n in dims_of(b.shape)}
            for buffer, a in zip(buffers, allocated(s, made, sizes), strict=True):
                t.memory.take(buffer, a)
            yield from execute(t, body)
        case _:
            assert_never(s)


def _block(t: Thread, s: ir.BlockRealize) -> Steps:
    """Run an iteration of a block, if it is one, within the block's regions."""
    if not evaluate(t, s.where, s):
        return
    own = {v.var.name: evaluate(t, v.value, s) for v in s.vars}
    inside = replace(t, vars={**t.vars, **own})
    for v in s.vars:
        end = evaluate(inside, v.extent, s)
        if not 0 <= own[v.var.name] < end:
            detail = f"{v.var.name} = {own[v.var.name]} outside [0, {end})"
            raise stmt_fault("dim-out-of-range", s, detail)
    reads, writes = (_boxes(inside, regions, s) for regions in (s.reads, s.writes))
    limits = Limits(frozenset(t.memory.buffers), reads, writes)
    inside = replace(inside, memory=t.memory.within(limits))
    first = all(own[v.var.name] == 0 for v in s.vars if v.kind is ir.IterKind.REDUCE)
    if s.init is not None and first:
        yield from _by(0, execute(inside, s.init))
    yield from _by(1, execute(inside, s.body))


def _produce(t: Thread, s: ir.ProducerRealize) -> Steps:
    """Compute a part of a producer, element by element, then run what uses it."""
    definition = t.producers[s.producer]
    origin = [int(evaluate(t, e, s)) for e in s.starts]
    t.memory.realize(definition.buffer, origin, s.extents)
    ranges = (range(o, o + n) for o, n in zip(origin, s.extents, strict=True))
    for position, at in enumerate(product(*ranges)):
        t.bind(definition.vars, map(np.int64, at))
        yield from _by(position, execute(t, definition.step))
    yield from _by(-1, execute(t, s.body))


def _boxes(t: Thread, regions: Iterable[ir.Region], s: ir.Stmt) -> dict[str, list[Box]]:
    found: dict[str, list[Box]] = {}
    for r in regions:
        ends = zip(r.starts, r.extents, strict=True)
        starts = [(int(evaluate(t, a, s)), int(evaluate(t, n, s))) for a, n in ends]
        found.setdefault(r.buffer, []).append(tuple(range(a, a + n) for a, n in starts))
    return found


def _by(choice: int, steps: Steps) -> Steps:
    """Run steps that a choice leads to."""
    for arrival in steps:
        yield (choice, *arrival)


def _side_by_side(threads: Iterable[Steps]) -> Steps:
    """Run every thread to its next barrier, until all have ended."""
    while True:
        reached = [(next(thread, None), thread) for thread in threads]
        arrivals = {arrival for arrival, _ in reached}
        threads = [thread for arrival, thread in reached if arrival is not None]
        if len(arrivals) > 1:
            detail = f"{len(threads)} of {len(reached)} threads arrive"
            raise stmt_fault("barrier-divergence", ir.Barrier(), detail)
        if not threads:
            return
        yield from (arrival for arrival in arrivals if arrival is not None)
