"""Calls: of functions, as frames that share the caller's buffers, and of library routines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from didyma.oracle.lanes.code import Code, Eval
from didyma.oracle.lanes.exprs import compile_expr
from didyma.oracle.lanes.races import Mask, Origin
from didyma.oracle.lanes.site import Body, Frame, Run, Site
from didyma.oracle.lanes.stores import external_buffer, whole
from didyma.refimpl.interp.allocated import allocated
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.interp.scalar_ring import forget, value_of
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.loop import Call, ExternalAllocate, ExternalCall
from didyma.refimpl.ir.types import Array


def call(site: Site, s: Call, body: Body) -> Run:
    """Compile a call: the body in a frame of its own, for the lanes that are here."""
    f, memory = site.launch.functions[s.callee], site.frame.memory
    given = zip(f.params, s.args, strict=True)
    frame = Frame(f.name, memory={p.name: memory[a] for p, a in given})
    env, clock = frame.env, site.launch.clock
    values: list[tuple[str, Eval]] = []
    for d, e in zip(f.dims, s.dims, strict=True):
        value = compile_expr(site, e)
        frame.bind(d.name, value)
        values.append((d.name, _within(s, d, value)))
    for v, e in zip(f.scalars, s.scalars, strict=True):
        value = compile_expr(site, e)
        frame.bind(v.name, value)
        values.append((v.name, value.run))
    run_body = body(replace(site, frame=frame))

    def run(mask: Mask) -> None:
        for name, get in values:
            env[name] = get(mask)
        clock[0] += 1
        run_body(mask)

    return run


def external(site: Site, s: ExternalCall) -> Run:
    """Compile an external call, which sees whole arrays and so stands outside lane loops."""
    outputs, take = [whole(site, n) for n in s.outputs], _called(site, s)

    def run(mask: Mask) -> None:
        del mask
        for b in outputs:
            b.init = None
        take([value_of(b.data.reshape(b.shape)) for b in outputs])
        for b in outputs:
            forget(b.data)

    return run


def allocating(site: Site, s: ExternalAllocate, body: Body) -> Run:
    """Compile an external call that makes buffers, and what runs with them."""
    take, launch = _called(site, s), site.launch
    made = [external_buffer(launch, b) for b in s.buffers]
    site.frame.memory.update((b.name, b) for b in made)
    run_body = body(site)

    def run(mask: Mask) -> None:
        for b, a in zip(made, allocated(s, take(()), launch.dims), strict=True):
            value_of(b.grid)[...] = a
            forget(b.grid)
        run_body(mask)
        for b in made:
            if b.log is not None:
                b.log.settle()

    return run


def _called(
    site: Site, s: ExternalCall | ExternalAllocate
) -> Callable[[Sequence[Array]], Sequence[Array] | None]:
    """Return what calls a routine on the arrays that it writes."""
    if site.depth:
        raise ValueError(f"{s.name}: an external call inside a parallel loop")
    routine, attrs = site.launch.externals[s.name], dict(s.attrs)
    inputs = [whole(site, n) for n in s.inputs]
    origin = Origin(s)

    def run(outputs: Sequence[Array]) -> Sequence[Array] | None:
        for b in inputs:
            b.check_init(np.arange(b.numel), None, origin)
        return routine(outputs, [value_of(b.data.reshape(b.shape)) for b in inputs], attrs)

    return run


def _within(s: Call, d: DimVar, value: Code) -> Eval:
    """Return how to get the value of a callee's dim, checked to be in its range."""
    get, interval = value.run, value.interval
    if interval is not None and d.lo <= interval[0] and interval[1] <= d.hi:
        return get

    def run(mask: Mask) -> Value:
        size = get(mask)
        bad = np.asarray((size < d.lo) | (size > d.hi))
        if (bad if mask is None else bad & mask).any():
            raise stmt_fault("dim-out-of-range", s, f"{d.name} outside [{d.lo}, {d.hi}]")
        return size

    return run
