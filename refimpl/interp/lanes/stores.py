"""Statements that touch memory: stores, atomics, allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.lanes.buffers import Dense, Local
from didyma.refimpl.interp.lanes.code import Code
from didyma.refimpl.interp.lanes.exprs import ExprCompiler, NeedsMemory
from didyma.refimpl.interp.lanes.races import Log, Mask
from didyma.refimpl.interp.lanes.windows import Window, window
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir import dims as sizes
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    AtomicOp,
    Buffer,
    Call,
    ExternalCall,
    For,
    Free,
    LoopKind,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Stmt,
    Store,
)
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmt_children

Run: TypeAlias = Callable[[Mask], None]

LANE_KINDS = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.BOUND)


def lane_depth(s: Stmt, functions: Mapping[str, PrimFunc]) -> int:
    """Deepest nesting of lane loops."""
    below = max((lane_depth(b, functions) for b in stmt_children(s)), default=0)
    match s:
        case For():
            return below + (s.kind in LANE_KINDS)
        case Call(callee):
            return lane_depth(functions[callee].body, functions)
        case _:
            return below


def writes(s: Stmt, functions: Mapping[str, PrimFunc]) -> Iterator[str]:
    """Name of the buffer of every store, atomic, free and the like, once for each."""
    match s:
        case Store() | Atomic() | Free():
            yield s.buffer
        case PlacementAllocate():
            yield s.over
        case ExternalCall(_, outputs):
            yield from outputs
        case Call(callee, args):
            f = functions[callee]
            given = dict(zip((p.name for p in f.params), args, strict=True))
            yield from (given[name] for name in writes(f.body, functions) if name in given)
        case _:
            pass
    for below in stmt_children(s):
        yield from writes(below, functions)


class StoreCompiler(ExprCompiler):
    """Makes closures of statements that touch memory."""

    def __init__(self, f: PrimFunc, dims: Mapping[str, int]) -> None:
        self.functions = f.function
        super().__init__(dims, lane_depth(f.body, self.functions))
        self.dims = dims
        self.writers = Counter(writes(f.body, self.functions))
        self.blocks: int = 0  # enclosing loops over blockIdx
        self.sized: bool = True  # whether the sizes of all enclosing lane loops are known

    def parameter(self, b: Buffer, array: Array, dims: Mapping[str, int]) -> None:
        """Put a caller's array in place of a parameter."""
        want = tuple(sizes.evaluate(d, dims) for d in b.shape)
        if array.shape != want or array.dtype != b.dtype.numpy:
            raise ValueError(f"{b.name}: {array.dtype}{array.shape}, declared {b.dtype}{want}")
        written = self.writers[b.name]
        if written and not array.flags.c_contiguous:
            raise ValueError(f"{b.name}: a written array must be C-contiguous")
        buffer = Dense(b.name, array)
        buffer.writers = written
        if written and self.total:
            buffer.log = Log(b.name, array.size)
        self.frame.memory[b.name] = buffer

    def settle(self, scope: Scope | None) -> None:
        """Check the accesses recorded so far, of all the function's buffers or the shared ones.

        Those of its callees are checked where they end.
        """
        for m in self.frame.memory.values():
            if isinstance(m, Dense) and m.log is not None and (scope is None or m.shared):
                m.log.settle()

    def ready(self, s: Stmt) -> Run:
        """Make a statement ready."""
        raise NotImplementedError(s)

    def store(self, s: Store) -> Run:
        """Store: bounds, initialisation and races are checked by the buffer."""
        value = self.expr(s.value)
        self.stmt = s
        buffer, get = self.frame.memory[s.buffer], value.run
        if isinstance(buffer, Local):
            return self._store_local(s, buffer, value)
        lanes, seen = self.lanes, self._store_window(s, buffer)
        at = (
            self.address(buffer, s.index).run
            if seen is None
            else self.address_later(buffer, s.index)
        )

        def run(mask: Mask) -> None:
            buffer.store(at(mask), get(mask), lanes, mask, s)

        if seen is None:
            return run
        grid = buffer.grid

        def slice_if_alone(mask: Mask) -> None:
            # Lanes that keep to their own elements cannot race, if no other statement looks.
            target = None if buffer.loaded else seen.target(grid, mask)
            if target is None:
                run(mask)
            else:
                target[...] = get(mask)

        return slice_if_alone

    def _store_window(self, s: Store, buffer: Dense) -> Window | None:
        parameter = buffer.init is None and buffer.writers == 1
        if self.mask is not None or not parameter or not self.sized:
            return None
        seen = window(s.index, buffer.shape, self.total, self.frame.lane_vars, self.expr)
        axes = frozenset(a for a in range(self.depth) if self.lanes.shape[a] != 1)
        return seen if seen is not None and seen.still and axes <= seen.axes else None

    def _store_local(self, s: Store, buffer: Local, value: Code) -> Run:
        at, get = self.row(buffer, s.index), value.run
        row = int(at.value) if at.known else None
        offset = at.run

        def run(mask: Mask) -> None:
            buffer.store(int(offset(mask)) if row is None else row, get(mask), mask)

        return run

    def atomic(self, s: Atomic) -> Run:
        """Atomic update: lanes in order, one after another."""
        value = self.expr(s.value)
        self.stmt = s
        buffer, get, lanes = self.frame.memory[s.buffer], value.run, self.lanes
        if isinstance(buffer, Local):
            raise NeedsMemory(buffer)
        offset = self.address(buffer, s.index).run

        def run(mask: Mask) -> None:
            to, values = buffer.update(offset(mask), get(mask), lanes, mask, s)
            _combine(s.op, buffer.data, to, values)

        return run

    def allocate(self, s: Allocate) -> Run:
        """Allocate: registers where each lane keeps to its own, else memory."""
        b = s.buffer
        shape = tuple(sizes.evaluate(d, self.dims) for d in b.shape)
        if b.scope == Scope.LOCAL:
            frame = self.frame
            state = self.depth, self.mask, self.blocks, self.sized, self.lanes.shape
            local = Local(b.name, shape, self.depth)
            frame.memory[b.name] = local
            try:
                return _renewing(local, self.ready(s.body))
            except NeedsMemory as needs:
                if needs.buffer is not local:
                    raise
            self.frame = frame
            self.depth, self.mask, self.blocks, self.sized, self.lanes.shape = state
        return self._allocate_dense(b, shape, s.body)

    def _allocate_dense(self, b: Buffer, shape: tuple[int, ...], inner: Stmt) -> Run:
        prefix = self.blocks if b.scope == Scope.SHARED else self.depth
        buffer = Dense(b.name, np.zeros(shape, b.dtype.numpy), prefix)
        buffer.init = np.zeros(0, bool)
        buffer.shared = b.scope == Scope.SHARED
        buffer.base = buffer.copies(self.lanes) if self.sized and prefix else None
        self.frame.memory[b.name] = buffer
        body, lanes, tracked = self.ready(inner), self.lanes, self.total > 0

        def run(mask: Mask) -> None:
            copies = int(np.prod(lanes.shape[:prefix]))
            buffer.renew(b.dtype, copies, tracked)
            body(mask)
            if buffer.log is not None:
                buffer.log.settle()

        return run

    def place(self, s: PlacementAllocate) -> Run:
        """Placement: ``over`` is dead from here on, and its bytes must be enough."""
        b, over = s.buffer, self.whole(s.over)
        shape = tuple(sizes.evaluate(d, self.dims) for d in b.shape)
        buffer = Dense(b.name, np.zeros(shape, b.dtype.numpy), over.prefix)
        buffer.init, buffer.shared = np.zeros(0, bool), over.shared
        if self.sized and over.prefix:
            buffer.base = buffer.copies(self.lanes)
        self.frame.memory[b.name] = buffer
        body, lanes = self.ready(s.body), self.lanes
        need, have = buffer.grid.nbytes, over.grid.nbytes

        def run(mask: Mask) -> None:
            if need > have:
                detail = f"{b.name} needs {need} bytes, {s.over} has {have}"
                raise stmt_fault("out-of-bounds", s, detail)
            if over.dead:
                raise stmt_fault("uninitialised", s, f"{s.over} is freed")
            buffer.renew(b.dtype, int(np.prod(lanes.shape[: over.prefix])), False)
            if over.log is not None:  # who used these bytes before is still to be compared
                buffer.stride = over.stride
                buffer.log = over.log.in_bytes(over.layout).passed_on(b.name, buffer.layout)
            over.kill()
            body(mask)
            if buffer.log is not None:
                buffer.log.settle()

        return run

    def free(self, name: str) -> Run:
        """Free: from here on the buffer holds nothing."""
        buffer = self.whole(name)

        def run(mask: Mask) -> None:
            del mask
            buffer.kill()

        return run

    def whole(self, name: str) -> Dense:
        """Return a buffer that must be memory, and may be read in ways not seen here."""
        buffer = self.frame.memory[name]
        if isinstance(buffer, Local):
            raise NeedsMemory(buffer)
        buffer.loaded = True
        return buffer


def _renewing(local: Local, body: Run) -> Run:
    def run(mask: Mask) -> None:
        local.renew()
        body(mask)

    return run


_UFUNCS: dict[AtomicOp, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _combine(op: AtomicOp, data: Array, at: Value, values: Value) -> None:
    """Fold values into their places, lane after lane."""
    to = np.asarray(at).reshape(-1)
    values = np.broadcast_to(values, np.shape(at)).reshape(-1)
    before = data[to]
    _UFUNCS[op].at(data, to, values)
    if op in ("min", "max") and data.dtype.kind == "f":
        _sign_zeros(data, to, before, values, op == "min")


def _sign_zeros(data: Array, to: Array, before: Array, values: Array, negative: bool) -> None:
    """Give zeros among the results the sign that -0 < +0 asks for, which NumPy leaves open."""
    zero = data[to] == 0
    if zero.any():
        hit = np.zeros(to.shape, bool)
        for v in (before, values):
            hit |= (v == 0) & (np.signbit(v) == negative)
        data[to[zero]] = 0.0 if negative else -0.0
        data[to[zero & hit]] = -0.0 if negative else 0.0
