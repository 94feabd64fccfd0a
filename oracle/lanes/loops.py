"""Loops on lanes: serial ones in Python, parallel ones along an axis of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from didyma.oracle.lanes.code import Code, known
from didyma.oracle.lanes.exprs import compile_expr
from didyma.oracle.lanes.races import Mask
from didyma.oracle.lanes.rounds import at_once
from didyma.oracle.lanes.site import Body, Run, Site, both
from didyma.oracle.lanes.windows import LaneVar
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.loop import MOST_ROUNDS
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import RANK, For, LoopKind, While
from didyma.refimpl.ir.types import Array


def nothing(mask: Mask) -> None:
    """Run no statement."""
    del mask


def _unset(mask: Mask) -> Value:
    raise AssertionError(f"a variable outside its loop, under {mask}")


def serial(site: Site, s: For, body: Body) -> Run:
    """Compile a serial loop; lanes whose extent is reached sit out."""
    if site.rounds or at_once(site, s):
        return parallel(replace(site, rounds=True), s, body)
    extent, name = compile_expr(site, s.extent), s.var.name
    n = int(extent.value.max()) if extent.known else None
    if n is not None and n <= 0:
        return nothing
    if n == 1 and extent.uniform:
        site.frame.bind(name, known(np.int64(0), (0, 0)))
        return body(site)
    top = extent.interval[1] if extent.interval is not None else n
    site.frame.bind(name, Code(_unset, True, False, None if top is None else (0, max(top - 1, 0))))
    if not extent.uniform:
        return _ragged(site, name, extent, body(site.where(False)))
    run_body, count = body(site), extent.run
    env, clock = site.frame.env, site.launch.clock
    steps = [np.int64(k) for k in range(n)] if n is not None else None

    def run(mask: Mask) -> None:
        for k in steps if steps is not None else np.arange(count(mask), dtype=np.int64):
            env[name] = k
            clock[0] += 1
            run_body(mask)

    return run


def _ragged(site: Site, name: str, extent: Code, body: Run) -> Run:
    """Run a serial loop whose lanes have different extents."""
    count, env, clock = extent.run, site.frame.env, site.launch.clock

    def run(mask: Mask) -> None:
        ends = count(mask)
        for k in range(int(ends.max())):
            active = both(mask, ends > k)
            if not active.any():
                return
            env[name] = np.int64(k)
            clock[0] += 1
            body(None if active.all() else active)

    return run


def rounds(site: Site, s: While, body: Body) -> Run:
    """Compile a ``while``; a lane whose condition fails has done its last round."""
    cond = compile_expr(site, s.cond)
    if cond.known and not cond.value.any():
        return nothing
    run_body = body(site if cond.uniform else site.where(False))
    choose, clock = cond.run, site.launch.clock
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
            run_body(active)
        raise stmt_fault("endless", s, f"more than {MOST_ROUNDS} rounds")

    return run


def parallel(site: Site, s: For, body: Body) -> Run:
    """Compile a loop whose iterations are lanes: all at once, along a new axis."""
    if (s.axis.startswith("blockIdx") or s.axis == RANK) and site.blocks != site.depth:
        raise ValueError(f"{s.axis}: grid loops must be outermost")
    extent, axis, launch = compile_expr(site, s.extent), site.depth, site.launch
    if not extent.known:
        return _parallel_of_late_size(site, s, extent, body)
    size = int(extent.value.max())
    if size <= 0:
        return nothing
    var = _iota(size, axis, launch.depth)
    site.frame.vars[s.var.name] = known(var, (0, size - 1))
    site.frame.lane_vars[s.var.name] = LaneVar(axis, size)
    limit, mask = None if extent.uniform else var < extent.value, site.mask
    if limit is not None and mask is not False:
        assert not isinstance(mask, bool)
        mask = limit = both(mask, limit)
    launch.lanes.resize(axis, size)
    run_body = body(site.where(mask).inside(s.axis))
    launch.lanes.resize(axis, 1)
    return _spread(site, s, run_body, size, limit)


def _parallel_of_late_size(site: Site, s: For, extent: Code, body: Body) -> Run:
    """Compile a loop of lanes whose extent is known only while running."""
    axis, name, launch, env = site.depth, s.var.name, site.launch, site.frame.env
    top = extent.interval
    within = None if top is None else (0, max(top[1] - 1, 0))
    site.frame.bind(name, Code(_unset, False, False, within))
    run_body = body(replace(site, mask=False, sized=False).inside(s.axis))

    def run(mask: Mask) -> None:
        ends = extent.run(mask)
        size = int(ends.max())
        if size > 0:
            launch.clock[0] += 1
            env[name] = var = _iota(size, axis, launch.depth)
            limit = None if ends.ndim == 0 else var < ends
            _spread(site, s, run_body, size, limit)(mask)

    return run


def _spread(site: Site, s: For, body: Run, size: int, limit: Mask) -> Run:
    """Run a body on one more axis of lanes, of which those within ``limit`` are active."""
    lanes, axis, frame = site.launch.lanes, site.depth, site.frame
    ordered = s.kind is not LoopKind.BOUND or axis == 0

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
            frame.settle()
            lanes.meet()

    return run


def _iota(size: int, axis: int, depth: int) -> Array:
    """Return 0, 1, … along one of the axes of lanes."""
    return np.arange(size, dtype=np.int64).reshape(
        (1,) * axis + (size,) + (1,) * (depth - axis - 1)
    )
