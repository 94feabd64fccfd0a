"""Statements that touch memory: stores, atomics, allocations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from didyma.oracle.lanes.buffers import Dense, Local
from didyma.oracle.lanes.code import Code
from didyma.oracle.lanes.exprs import address_later, address_of, compile_expr, row_of
from didyma.oracle.lanes.races import Log, Mask, Origin
from didyma.oracle.lanes.rounds import in_order, terms
from didyma.oracle.lanes.site import Body, Launch, Run, Site
from didyma.oracle.lanes.windows import Window, window
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir import dims as sizes
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    AtomicOp,
    Binary,
    Buffer,
    Free,
    PlacementAllocate,
    Scope,
    Store,
)
from didyma.refimpl.ir.types import Array


def parameter(launch: Launch, b: Buffer, array: Array) -> Dense:
    """Return the memory of a parameter, which is the caller's array."""
    want = tuple(sizes.evaluate(d, launch.dims) for d in b.shape)
    if array.shape != want or array.dtype != launch.arithmetic.held(b.dtype):
        raise ValueError(f"{b.name}: {array.dtype}{array.shape}, declared {b.dtype}{want}")
    buffer = Dense(b.name, array)
    buffer.writers = launch.writers[b.name]
    if buffer.writers and not array.flags.c_contiguous:
        raise ValueError(f"{b.name}: a written array must be C-contiguous")
    if buffer.writers and launch.depth:
        buffer.log = Log(b.name, array.size)
    return buffer


def external_buffer(launch: Launch, b: Buffer) -> Dense:
    """Return the memory of a buffer that an external call fills when it runs."""
    shape = sizes.values(b.shape, launch.dims)
    buffer = parameter(launch, b, np.zeros(shape, launch.arithmetic.held(b.dtype)))
    buffer.loaded = True
    return buffer


def store(site: Site, s: Store) -> Run:
    """Compile a store: bounds, initialisation and races are checked by the buffer."""
    buffer = site.frame.memory[s.buffer]
    if isinstance(buffer, Local) and site.rounds:
        return _fold_in(site, s, buffer)
    value = compile_expr(site, s.value)
    get = value.run
    if isinstance(buffer, Local):
        return _store_local(site, s, buffer, value)
    lanes, origin, seen = site.launch.lanes, Origin(s), _store_window(site, s, buffer)
    if seen is None:
        at = address_of(site, buffer, s.index).run
    else:
        at = address_later(site, buffer, s.index)

    def run(mask: Mask) -> None:
        buffer.store(at(mask), get(mask), lanes, mask, origin)

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


def _store_window(site: Site, s: Store, buffer: Dense) -> Window | None:
    """Return the slice that a store fills if every lane stores an element of its own, once."""
    parameter_once = buffer.init is None and buffer.writers == 1
    if site.mask is not None or not parameter_once or not site.sized:
        return None
    launch = site.launch
    seen = window(
        s.index, buffer.shape, launch.depth, site.frame.lane_vars, partial(compile_expr, site)
    )
    axes = frozenset(a for a in range(site.depth) if launch.lanes.shape[a] != 1)
    return seen if seen is not None and seen.still and axes <= seen.axes else None


def _store_local(site: Site, s: Store, buffer: Local, value: Code) -> Run:
    at, get = row_of(site, buffer, s.index), value.run
    row = int(at.value) if at.known else None
    position = at.run

    def run(mask: Mask) -> None:
        buffer.store(int(position(mask)) if row is None else row, get(mask), mask)

    return run


def _fold_in(site: Site, s: Store, buffer: Local) -> Run:
    """Compile a store into the registers of lanes, each of which has one lane for each round."""
    arithmetic, lanes, depth = site.launch.arithmetic, site.launch.lanes, buffer.depth
    assert isinstance(s.value, Binary)
    op, dtype = s.value.op, s.value.dtype
    given = [compile_expr(site, e).run for e in terms(s)]
    fold = arithmetic.fold_fn(op, dtype) if len(given) == 1 else arithmetic.products_fn(dtype)
    position = row_of(site, buffer, s.index).run

    def run(mask: Mask) -> None:
        at = int(position(mask))
        before = buffer.load(at, mask, s)
        rows = [in_order(get(mask), lanes.shape, depth) for get in given]
        buffer.store(at, fold(before, *rows), mask)

    return run


def atomic(site: Site, s: Atomic) -> Run:
    """Compile an atomic update: lanes in order, one after another."""
    get, lanes, origin = compile_expr(site, s.value).run, site.launch.lanes, Origin(s)
    buffer = _memory(site, s.buffer)
    at = address_of(site, buffer, s.index).run

    def run(mask: Mask) -> None:
        to, values = buffer.update(at(mask), get(mask), lanes, mask, origin)
        _combine(s.op, buffer.data, to, values)

    return run


def allocate(site: Site, s: Allocate, body: Body) -> Run:
    """Compile an allocation: registers where each lane keeps to its own, else memory."""
    b, launch = s.buffer, site.launch
    shape = tuple(sizes.evaluate(d, launch.dims) for d in b.shape)
    if b.scope is Scope.LOCAL and (site.frame.function, b.name) not in launch.in_memory:
        local = Local(b.name, shape, site.depth)
        site.frame.memory[b.name] = local
        return _renewing(local, body(site))
    prefix = {Scope.SHARED: site.blocks, Scope.CLUSTER: site.clusters}.get(b.scope, site.depth)
    buffer = _made(site, b, shape, prefix)
    run_body, lanes, tracked = body(site), launch.lanes, launch.depth > 0

    def run(mask: Mask) -> None:
        copies = int(np.prod(lanes.shape[:prefix]))
        buffer.renew(copies, tracked)
        run_body(mask)
        if buffer.log is not None:
            buffer.log.settle()

    return run


def _renewing(local: Local, body: Run) -> Run:
    def run(mask: Mask) -> None:
        local.renew()
        body(mask)

    return run


def _made(site: Site, b: Buffer, shape: tuple[int, ...], prefix: int) -> Dense:
    """Make the memory of a buffer: a copy for each lane of the first ``prefix`` axes."""
    buffer = Dense(b.name, np.zeros(shape, site.launch.arithmetic.held(b.dtype)), prefix)
    buffer.init, buffer.scope = np.zeros(0, bool), b.scope
    buffer.writers = 1  # at least: a load that is compiled late must not take it for an input
    if site.sized and prefix:
        buffer.base = buffer.copies(site.launch.lanes)
    site.frame.memory[b.name] = buffer
    return buffer


def place(site: Site, s: PlacementAllocate, body: Body) -> Run:
    """Compile a placement: ``over`` is dead from here on, and its bytes must be enough."""
    b, over, lanes = s.buffer, whole(site, s.over), site.launch.lanes
    shape = tuple(sizes.evaluate(d, site.launch.dims) for d in b.shape)
    buffer = _made(site, b, shape, over.prefix)
    run_body = body(site)
    need, room = (x.grid.size * x.width for x in (buffer, over))

    def run(mask: Mask) -> None:
        if need > room:
            detail = f"{b.name} needs {need} bytes, {s.over} has {room}"
            raise stmt_fault("out-of-bounds", s, detail)
        if over.dead:
            raise stmt_fault("uninitialised", s, f"{s.over} is freed")
        buffer.renew(int(np.prod(lanes.shape[: over.prefix])), False)
        if over.log is not None:  # who used these bytes before is still to be compared
            buffer.stride = over.stride
            buffer.log = over.log.passed_on(over.layout, b.name, buffer.layout)
        over.kill()
        run_body(mask)
        if buffer.log is not None:
            buffer.log.settle()

    return run


def free(site: Site, s: Free) -> Run:
    """Compile a free: from here on the buffer is dead."""
    buffer = whole(site, s.buffer)

    def run(mask: Mask) -> None:
        del mask
        buffer.kill()

    return run


def whole(site: Site, name: str) -> Dense:
    """Return the memory of a buffer that may be read in ways that are not compiled."""
    buffer = _memory(site, name)
    buffer.loaded = True
    return buffer


def _memory(site: Site, name: str) -> Dense:
    buffer = site.frame.memory[name]
    assert isinstance(buffer, Dense), "``registers`` says which buffers must be memory"
    return buffer


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
    if data.dtype.names is None:
        _fold(op, data, to, values)
        return
    before = data[to]
    _fold(op, data["value"], to, values["value"])
    scalar_ring.fold(op, data["payload"], to, before, values, data["value"][to])


def _fold(op: AtomicOp, data: Array, to: Array, values: Array) -> None:
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
