"""The definition of the loop level: what each statement and expression means, one thread at a time.

A *thread* is one iteration of the loops around it that are parallel, vectorised or bound to an
axis.  It runs its statements in order and stops at a barrier until every thread of its block has
come to the same barrier; then all go on.  Blocks run one after another, and so do the threads of a
block, each to its next barrier.  ``scalar`` defines the operations; any NaN is as good as another.

``LoopFault`` is raised for an index outside its buffer, a load of what was never stored or is
dead, a barrier that some threads of a block miss, a dim outside its range, an assertion that fails
and a loop without end.  A race (two threads that nothing orders touch an element, one to store it)
makes results depend on the order of threads; this interpreter knows one order and does not notice.
``oracle.lanes`` does: it is the same language made fast, all threads at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import numpy as np

from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Arithmetic, Value
from didyma.refimpl.interp.scalar_ring import forget, value_of
from didyma.refimpl.ir import dims as sizes
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import Array

Routine: TypeAlias = Callable[[Sequence[Array], Sequence[Array], Mapping[str, Attr]], None]

# A thread stops at each barrier and yields the choices that led there: positions in blocks, sides
# of conditions, rounds of loops.  Threads with equal choices wait at the same barrier.
Arrival: TypeAlias = tuple[int, ...]
Steps: TypeAlias = Generator[Arrival, None, None]

MOST_ROUNDS = 1 << 24  # of one ``while``


@dataclass(frozen=True, slots=True)
class Contents:
    """What a buffer holds: its elements, which of them have been stored, and whether it is dead."""

    data: Array
    stored: Array
    shared: bool = False
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """What names mean to one thread in the function that it runs.

    ``block`` has the shared buffers of its block.  The n-th that one thread makes of a name is the
    n-th that any other makes; ``made`` counts them.
    """

    arithmetic: Arithmetic
    functions: Mapping[str, ir.PrimFunc]
    externals: Mapping[str, Routine]
    vars: dict[str, Value]
    memory: dict[str, Contents]
    block: dict[tuple[str, int], Contents] = field(default_factory=dict[tuple[str, int], Contents])
    made: Counter[str] = field(default_factory=Counter[str])

    def fork(self, var: ir.Var, i: int) -> Thread:
        """Return the thread of one iteration, which begins with the names that this one has."""
        names = {**self.vars, var.name: np.int64(i)}
        return replace(self, vars=names, memory=dict(self.memory), made=Counter(self.made))

    def make(self, b: ir.Buffer, shared: bool) -> Contents:
        """Make a buffer whose elements are yet to be stored: the block's, or this thread's own."""
        shape = [sizes.evaluate(d, {}) for d in b.shape]
        data = np.zeros(shape, self.arithmetic.held(b.dtype))
        m = Contents(data, np.zeros(shape, bool), shared)
        if shared:
            self.made[b.name] += 1
            m = self.block.setdefault((b.name, self.made[b.name]), m)
        self.memory[b.name] = m
        return m

    def free(self, name: str) -> None:
        """Make a buffer dead for what this thread does from here on."""
        m = self.memory[name]
        self.memory[name] = replace(m, stored=np.zeros(m.data.shape, bool), dead=True)


def run(
    f: ir.PrimFunc,
    buffers: Mapping[str, Array],
    dims: Mapping[str, int],
    externals: Mapping[str, Routine] | None = None,
    arithmetic: Arithmetic = scalar,
) -> None:
    """Run a function in place on one array for each parameter; raise LoopFault if it faults.

    ``externals`` are the routines that ``ExternalCall`` names: each gets output arrays, input
    arrays and attributes.  With ``scalar_ring`` as the ``arithmetic``, arrays of floats are records
    of their values and payloads.
    """
    params = {p.name: Contents(a := buffers[p.name], np.ones(a.shape, bool)) for p in f.params}
    names = {name: np.int64(size) for name, size in dims.items()}
    thread = Thread(arithmetic, f.function, externals or {}, names, params)
    with np.errstate(all="ignore"):
        deque(execute(thread, f.body), maxlen=0)


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
        case ir.For(var, extent, body, _, axis):
            threads = (execute(t.fork(var, i), body) for i in range(int(evaluate(t, extent, s))))
            if axis.startswith("blockIdx"):
                for block in threads:  # to its end: at a barrier all of its threads are there
                    t.block.clear()
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
            if evaluate(t, cond, s):
                yield from _by(0, execute(t, then))
            elif other is not None:
                yield from _by(1, execute(t, other))
        case ir.Let(var, value, body):
            t.vars[var.name] = evaluate(t, value, s)
            yield from execute(t, body)
        case ir.Store(name, index, value):
            _store(t, name, _element(t, name, index, s), evaluate(t, value, s), s)
        case ir.Atomic(op, name, index, value):
            at, new = _element(t, name, index, s), evaluate(t, value, s)
            combine = t.arithmetic.binary_fn(op, value.dtype)
            _store(t, name, at, combine(_load(t, name, at, s), new), s)
        case ir.Barrier():
            yield ()
        case ir.Assert(cond, message):
            if not evaluate(t, cond, s):
                raise stmt_fault("assert", s, message)
        case ir.Allocate(buffer, body):
            t.make(buffer, buffer.scope is ir.Scope.SHARED)
            yield from execute(t, body)
        case ir.PlacementAllocate(buffer, over, body):
            old = t.memory[over]
            if (need := t.make(buffer, old.shared).data.nbytes) > old.data.nbytes:
                detail = f"{buffer.name} needs {need} bytes, {over} has {old.data.nbytes}"
                raise stmt_fault("out-of-bounds", s, detail)
            if old.dead:
                raise stmt_fault("uninitialised", s, f"{over} is freed")
            t.free(over)
            yield from execute(t, body)
        case ir.Free(name):
            t.free(name)
        case ir.Call(name, args, values):
            f = t.functions[name]
            params = {p.name: t.memory[a] for p, a in zip(f.params, args, strict=True)}
            names = {d.name: evaluate(t, e, s) for d, e in zip(f.dims, values, strict=True)}
            for d in f.dims:
                if not d.lo <= names[d.name] <= d.hi:
                    detail = f"{d.name} outside [{d.lo}, {d.hi}]"
                    raise stmt_fault("dim-out-of-range", s, detail)
            yield from execute(replace(t, vars=names, memory=params), f.body)
        case ir.ExternalCall(name, outputs, inputs, attrs):
            for n in inputs:
                for at in np.ndindex(t.memory[n].data.shape):
                    _load(t, n, at, s)
            results, operands = (
                [value_of(t.memory[n].data) for n in ns] for ns in (outputs, inputs)
            )
            t.externals[name](results, operands, dict(attrs))
            for n in outputs:
                forget(t.memory[n].data)
                t.memory[n].stored[...] = True
        case _:
            assert_never(s)


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


def evaluate(t: Thread, e: ir.Expr, s: ir.Stmt) -> Value:
    """Return the value of an expression of statement ``s``: a NumPy scalar of its dtype."""
    match e:
        case ir.Const(value, dtype):
            return t.arithmetic.constant(value, dtype)
        case ir.Var(name):
            return t.vars[name]
        case ir.Cast(arg, dtype):
            return t.arithmetic.cast_fn(arg.dtype, dtype)(evaluate(t, arg, s))
        case ir.Binary(op, a, b):
            return t.arithmetic.binary_fn(op, a.dtype)(evaluate(t, a, s), evaluate(t, b, s))
        case ir.Compare(op, a, b):
            return t.arithmetic.compare_fn(op, a.dtype)(evaluate(t, a, s), evaluate(t, b, s))
        case ir.Unary(op, arg):
            return t.arithmetic.unary_fn(op, arg.dtype)(evaluate(t, arg, s))
        case ir.Intrinsic(name, args):
            f = t.arithmetic.intrinsic_fn(name, args[0].dtype)
            return f(*(evaluate(t, a, s) for a in args))
        case ir.Select(cond, then, other):
            return evaluate(t, then if evaluate(t, cond, s) else other, s)
        case ir.Load(name, index):
            return _load(t, name, _element(t, name, index, s), s)
        case ir.LetExpr(var, value, body):
            t.vars[var.name] = evaluate(t, value, s)
            return evaluate(t, body, s)
        case _:
            assert_never(e)


def _element(t: Thread, name: str, index: Sequence[ir.Expr], s: ir.Stmt) -> tuple[int, ...]:
    at = tuple(int(evaluate(t, i, s)) for i in index)
    for axis, (i, size) in enumerate(zip(at, t.memory[name].data.shape, strict=True)):
        if not 0 <= i < size:
            detail = f"{name}, axis {axis}: index {i} outside [0, {size})"
            raise stmt_fault("out-of-bounds", s, detail)
    return at


def _load(t: Thread, name: str, at: tuple[int, ...], s: ir.Stmt) -> Value:
    if not t.memory[name].stored[at]:
        raise stmt_fault("uninitialised", s, f"{name}, element {at} was never stored")
    element: Value = t.memory[name].data[at]
    return element.copy() if element.dtype.names else element  # which is a view of the array


def _store(t: Thread, name: str, at: tuple[int, ...], value: Value, s: ir.Stmt) -> None:
    if t.memory[name].dead:
        raise stmt_fault("uninitialised", s, f"{name} is freed")
    t.memory[name].data[at] = value
    t.memory[name].stored[at] = True
