"""Clusters of blocks: their shared memory, which all of them reach, and their barrier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx.machine import AT_BARRIER, DONE, RUN, Shape
from didyma.codegen.runtime.ptx.memory import SHARED
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

NUMBER = 16  # of the cluster's barrier among those of a block
_BITS = 24  # as in bulk copies: the rank of a block stands above, plus one


@dataclass(slots=True)
class _Arrivals:
    """Which lanes have arrived in each lane's phase, and what the arrivals of each cluster tell."""

    arrived: Array
    phase: Array
    done: Array
    telling: dict[int, Array] = field(default_factory=dict[int, Array])
    told: dict[int, Array] = field(default_factory=dict[int, Array])


def _arrivals(m: Machine) -> _Arrivals:
    found = m.under_way.get("clusters")
    if found is None:
        n = m.size
        found = m.under_way["clusters"] = _Arrivals(
            np.zeros(n, np.bool_),
            np.zeros(n, np.int64),
            np.zeros(int(m.clusters.max()) + 1, np.int64),
        )
    assert isinstance(found, _Arrivals)
    return found


def unit(shape: Shape) -> int:
    """Return of how many blocks in order a batch must consist, to have whole clusters."""
    (x, y, z), (gx, gy, _) = shape.cluster, shape.grid
    return gx * gy * z if z > 1 else gx * y if y > 1 else x


def places(shape: Shape, block: Array) -> tuple[Array, Array]:
    """Return the number of the cluster of each block of the grid, and its rank in the cluster."""
    (x, y, z), (gx, gy, _) = shape.cluster, shape.grid
    i, j, k = block % gx, block // gx % gy, block // (gx * gy)
    rank = i % x + x * (j % y + y * (k % z))
    number = i // x + (gx // x) * (j // y + (gy // y) * (k // z))
    return number, rank


def peers(shape: Shape, first: int, count: int) -> tuple[Array, Array]:
    """Return the blocks of a batch by block and rank, and the number of each block's cluster."""
    number, rank = places(shape, np.arange(first, first + count))
    _, own = np.unique(number, return_inverse=True)
    size = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
    table = np.zeros((int(own.max()) + 1, size), np.int32)
    table[own, rank] = np.arange(count)
    return np.ascontiguousarray(table[own]), own


def compile_map(ops: Operands) -> Action | None:
    """``mapa`` and ``getctarank``: an address in another block's shared memory, and its rank."""
    if ops.ins.op not in ("mapa", "getctarank"):
        return None
    kind = ops.ins.mods[-1]
    get, put = ops.source(1, kind), ops.target(0, kind)
    if ops.ins.op == "getctarank":
        low = np.uint64((1 << 32) - 1)
        put = ops.target(0, "u32")

        def rank(m: Machine) -> None:
            above = (np.asarray(get(m)).astype(np.uint64) & low) >> np.uint64(_BITS)
            own = np.broadcast_to(m.special("cluster_ctarank"), (m.n,))
            put(m, np.where(above > 0, above - np.uint64(1), own).astype(np.uint32))

        return rank
    ranks = ops.source(2, "u32")
    generic = not any(x.startswith("shared") for x in ops.ins.mods)

    def mapped(m: Machine) -> None:
        a = np.asarray(get(m)).astype(np.int64) - (SHARED if generic else 0)
        to = np.asarray(ranks(m)).astype(np.int64)
        found = ((to + 1) << _BITS) | (a & ((1 << _BITS) - 1))
        wide = np.broadcast_to(found + (SHARED if generic else 0), (m.n,))
        put(m, wide.astype(np.uint64 if kind == "u64" else np.uint32))

    return mapped


def compile_arrive(ops: Operands, at: int) -> Callable[[Machine], Any]:
    """``barrier.cluster.arrive``: lanes note that they are there, and go on."""
    tells = "relaxed" not in ops.ins.mods

    def arrive(m: Machine) -> int:
        m.memory.now += 1
        a, ids = _arrivals(m), m.ids
        of = m.clusters[m.memory.block[ids]]
        a.arrived[ids] = True
        a.phase[ids] = a.done[of]
        for c in np.unique(of).tolist() if tells else ():
            row, before = m.knowledge.told(ids[of == c]), a.telling.get(c)
            a.telling[c] = row if before is None else np.maximum(before, row)
        complete(m)
        return at + 1

    return arrive


def compile_wait(ops: Operands, at: int) -> Callable[[Machine], Any]:
    """``barrier.cluster.wait``: wait for the arrivals of all lanes of the cluster."""
    del ops

    def wait(m: Machine) -> int | None:
        m.memory.now += 1
        m.barrier.number[m.ids] = NUMBER
        m.barrier.need[m.ids] = -1
        m.state[m.ids] = AT_BARRIER
        m.pc[m.ids] = at
        complete(m)
        return None

    return wait


def complete(m: Machine) -> None:
    """Begin the next phase of clusters whose lanes have all arrived; release those that wait."""
    if "clusters" not in m.under_way:
        return
    a = _arrivals(m)
    of = m.clusters[m.memory.block]
    missing = np.bincount(of[(m.state != DONE) & ~a.arrived], minlength=a.done.size)
    came = np.bincount(of[a.arrived], minlength=a.done.size)
    for c in np.flatnonzero((missing == 0) & (came > 0)).tolist():
        a.done[c] += 1
        a.arrived[of == c] = False
        row, before = a.telling.pop(c, None), a.told.get(c)
        if row is not None:
            a.told[c] = row if before is None else np.maximum(row, before)
    here = np.flatnonzero((m.state == AT_BARRIER) & (m.barrier.number == NUMBER))
    free = here[a.done[of[here]] > a.phase[here]].astype(np.int32)
    for c in np.unique(of[free]).tolist():
        mine = free[of[free] == c]
        if c in a.told:
            m.knowledge.teach(mine, a.told[c])
        m.state[mine] = RUN
        m.pc[mine] += 1
        m.progress()
