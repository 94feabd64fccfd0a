"""What the threads of a block do together, all of them or none: barriers and exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.oracle.lanes import stores
from didyma.oracle.lanes.code import Code
from didyma.oracle.lanes.exprs import compile_expr
from didyma.oracle.lanes.races import Mask
from didyma.oracle.lanes.site import Body, Run, Site
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import AXES, Barrier, Chain, Exchange, Scope
from didyma.refimpl.ir.types import Array


def barrier(site: Site, s: Barrier) -> Run:
    """Compile a barrier, which orders the lanes of each block, or cluster: all arrive, or none."""
    meets = s.scope is Scope.CLUSTER
    level, lanes, frame = (site.clusters if meets else site.blocks), site.launch.lanes, site.frame
    ordered = (Scope.SHARED, Scope.CLUSTER) if meets else (Scope.SHARED,)

    def run(mask: Mask) -> None:
        if mask is None:
            lanes.order(level)
            frame.settle(*ordered)
            return
        arrived = _arrived(site, s, mask, level)
        head = lanes.shape[:level]
        lanes.order(level, arrived.reshape(head + (1,) * (len(lanes.shape) - level)).astype(int))

    return run


def exchange(site: Site, s: Exchange, body: Body) -> Run:
    """Compile an exchange: a permutation of the lanes of each block, of which none is missing."""
    value, frame, name, launch = compile_expr(site, s.value), site.frame, s.var.name, site.launch
    give, level, axes = value.run, site.blocks, site.axes[site.blocks :]

    def moved(mask: Mask) -> Value:
        if mask is not None:
            _arrived(site, s, mask, level)
        shape = launch.lanes.shape
        given = np.broadcast_to(give(mask), shape)
        partner = _partners(axes, shape[level : level + len(axes)], s.mask)
        flat = given.reshape((*shape[:level], partner.size))
        return flat[..., partner].reshape(shape)

    frame.bind(name, Code(moved, False))
    rest, env = body(site), frame.env

    def run(mask: Mask) -> None:
        env[name] = moved(mask)
        launch.clock[0] += 1
        rest(mask)

    return run


def chain(site: Site, s: Chain, body: Body) -> Run:
    """Compile a chain: a fold over the blocks of each line, in the order of their numbers."""
    first, value = compile_expr(site, s.start), compile_expr(site, s.value)
    frame, name, launch, level = site.frame, s.var.name, site.launch, site.blocks
    states, totals = (stores.whole(site, b) for b in (s.states, s.totals))
    combine = launch.arithmetic.binary_fn(s.op, s.var.dtype)
    axes = site.axes[:level]

    def moved(mask: Mask) -> Value:
        if mask is not None:
            _arrived(site, s, mask, level)
        shape = launch.lanes.shape
        grid = shape[:level]
        start, given = (
            np.broadcast_to(x.run(mask), shape).reshape((*grid, -1))[..., 0] for x in (first, value)
        )
        number, stride = np.zeros(grid, np.int64), 1
        for axis in AXES[:3]:
            if axis in axes:
                at = axes.index(axis)
                number += stride * np.arange(grid[at]).reshape(
                    [-1 if k == at else 1 for k in range(level)]
                )
                stride *= grid[at]
        if states.numel < stride + 1 or totals.numel < 2 * stride:
            raise stmt_fault("out-of-bounds", s, f"{stride} blocks")
        if (states.data[1 : 1 + stride] != 0).any():
            raise stmt_fault("assert", s, f"{s.states} does not begin as zeros")
        before, line = np.empty(grid, given.dtype), axes.index(AXES[0])
        given, place, out = (np.moveaxis(x, line, 0) for x in (given, number, before))
        out[0] = np.moveaxis(start, line, 0)[0]
        for n in range(1, len(out)):
            out[n] = combine(out[n - 1], given[n - 1])
        totals.data[2 * place] = given
        totals.data[2 * place + 1] = combine(out, given)
        states.data[0] += stride
        states.data[1 : 1 + stride] = 2
        return before.reshape((*grid, *(1,) * (len(shape) - level)))

    frame.bind(name, Code(moved, False))
    rest, env = body(site), frame.env

    def run(mask: Mask) -> None:
        env[name] = moved(mask)
        launch.clock[0] += 1
        rest(mask)

    return run


def _partners(axes: Sequence[str], sizes: Sequence[int], mask: int) -> Array:
    """Return, for each thread of a block in the order of lanes, where its partner stands."""
    number, stride = np.zeros(tuple(sizes), np.int64), 1
    for axis in AXES[3:]:
        if axis in axes:
            at = axes.index(axis)
            along = np.arange(sizes[at]) * stride
            number += along.reshape([-1 if k == at else 1 for k in range(len(sizes))])
            stride *= sizes[at]
    place = np.argsort(number, axis=None)
    return np.asarray(place[number.reshape(-1) ^ mask])


def _arrived(site: Site, s: Barrier | Chain | Exchange, mask: Array, level: int) -> Array:
    """Return which blocks, or clusters, arrive; LoopFault if a part of one does.

    ``level`` loops of lanes are around each.
    """
    lanes = site.launch.lanes
    head = lanes.shape[:level]
    active = np.broadcast_to(mask, lanes.shape).reshape(*head, -1)
    arrived = active.all(axis=-1)
    if (active.any(axis=-1) & ~arrived).any():
        detail = f"{int(active.sum())} of {active.size} threads arrive"
        raise stmt_fault("barrier-divergence", s, detail)
    return np.asarray(arrived)
