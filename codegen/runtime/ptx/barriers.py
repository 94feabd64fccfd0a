"""Barriers of a block, ``bar`` and ``barrier``: also named ones, and those of a part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx import clusters
from didyma.codegen.runtime.ptx.machine import AT_BARRIER, DONE, RUN
from didyma.codegen.runtime.ptx.operands import Operands, Source, Target
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_NUMBERS = 32  # more than barriers of a block
Reduction = tuple[Source, Target, str]


def compile_barrier(ops: Operands, at: int) -> tuple[Callable[[Machine], Any], Reduction | None]:
    """Compile a barrier; the function returns the next counter, or None where lanes wait."""
    mods = ops.ins.mods
    if "cluster" in mods:
        compile_ = clusters.compile_arrive if "arrive" in mods else clusters.compile_wait
        return compile_(ops, at), None
    if "arrive" in mods:
        return _arrive(at, ops.source(0, "u32"), ops.source(1, "u32")), None
    if "red" in mods:
        how = next(x for x in mods if x in ("popc", "and", "or"))
        value = ops.source(len(ops) - 1, "pred")
        several = ops.source(2, "u32") if len(ops) == 4 else None
        put = ops.target(0, "u32" if how == "popc" else "pred")
        reduction = value, put, how
        return _sync(at, ops.source(1, "u32"), several, value), reduction
    need = ops.source(1, "u32") if len(ops) > 1 else None
    return _sync(at, ops.source(0, "u32"), need, None), None


def _arrive(at: int, number: Source, need: Source) -> Callable[[Machine], Any]:
    def arrive(m: Machine) -> int:
        m.memory.now += 1
        numbers, needs = m.active(number(m)), m.active(need(m))
        keys = m.memory.block[m.ids].astype(np.int64) * _NUMBERS + numbers
        for key in np.unique(keys):
            mine = keys == key
            found = m.barrier.arrived.setdefault((int(key), int(needs[mine][0])), [])
            found.append(m.ids[mine].copy())
        complete(m)
        return at + 1

    return arrive


def _sync(
    at: int, number: Source, need: Source | None, value: Source | None
) -> Callable[[Machine], Any]:
    def sync(m: Machine) -> int | None:
        mem, ids = m.memory, m.ids
        mem.now += 1
        which = number(m)
        if value is not None:
            m.barrier.value[ids] = m.active(value(m))
        if need is None and ids.size == m.live and np.ndim(which) == 0 and not m.left_early.any():
            _release(m, ids, np.full(ids.size, at))
            return at + 1
        m.barrier.number[ids] = m.active(which)
        m.barrier.need[ids] = 0 if need is None else m.active(need(m))
        m.state[ids] = AT_BARRIER
        m.pc[ids] = at
        complete(m)
        return None

    return sync


def complete(m: Machine) -> None:
    """Release the barriers that all have reached."""
    clusters.complete(m)
    waiting = np.flatnonzero(m.state == AT_BARRIER).astype(np.int32)
    b = m.barrier
    if waiting.size:
        whole = waiting[b.need[waiting] == 0]
        blocks = m.memory.block
        live = np.bincount(blocks[m.state != DONE], minlength=m.memory.bar.size)
        keys = blocks[whole].astype(np.int64) * _NUMBERS + b.number[whole]
        counts = np.bincount(keys, minlength=m.memory.bar.size * _NUMBERS)
        done = whole[counts[keys] == live[blocks[whole]]]
        if done.size:
            _release(m, done, m.pc[done])
            m.state[done] = RUN
            m.pc[done] += 1
            m.progress()
        waiting = waiting[b.need[waiting] > 0]
    for key, need in {*_counted(m, waiting), *b.arrived}:
        _release_part(m, waiting, key, need)


def _counted(m: Machine, waiting: Array) -> set[tuple[int, int]]:
    b = m.barrier
    keys = m.memory.block[waiting].astype(np.int64) * _NUMBERS + b.number[waiting]
    return set(zip(keys.tolist(), b.need[waiting].tolist(), strict=True))


def _release_part(m: Machine, waiting: Array, key: int, need: int) -> None:
    """Release a barrier that waits for a number of threads, if they are there."""
    b = m.barrier
    mine = m.memory.block[waiting].astype(np.int64) * _NUMBERS + b.number[waiting] == key
    mine &= b.need[waiting] == need
    lanes = waiting[mine]
    arrived = b.arrived.get((key, need), [])
    if lanes.size + sum(a.size for a in arrived) < need:
        return
    m.memory.now += 1
    every = np.unique(np.concatenate([lanes, *arrived]))
    b.arrived.pop((key, need), None)
    if lanes.size:
        _divergent(m, lanes, m.pc[lanes], lanes >> 5)
        row = m.knowledge.told(every)
        m.knowledge.share(lanes, row)
        _reduce(m, lanes, np.zeros(lanes.size, np.int64))
        m.state[lanes] = RUN
        m.pc[lanes] += 1
    m.progress()


def _release(m: Machine, lanes: Array, pcs: Array) -> None:
    """Let whole blocks know all of themselves."""
    mem = m.memory
    blocks = mem.block[lanes]
    if (pcs != pcs[0]).any():
        _divergent(m, lanes, pcs, blocks)
    if m.left_early.any():
        gone = np.bincount(mem.block[m.left_early], minlength=mem.bar.size)
        early = gone[blocks] > 0
        if early.any():
            text = "threads wait at a barrier that others of the block have left for good"
            m.report("barrier-divergence", text, lanes[early], pc=int(pcs[early][0]))
            m.left_early[np.isin(mem.block, blocks[early])] = False
    mem.now += 1
    mem.bar[blocks] = mem.now
    if mem.rows:
        for block in np.unique(blocks):
            m.knowledge.share(lanes[blocks == block])
    _reduce(m, lanes, blocks)


def _divergent(m: Machine, lanes: Array, pcs: Array, groups: Array) -> None:
    """Report lanes of a block, or of a warp, that wait for each other at several places."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    low, high = np.minimum.reduceat(pcs, starts), np.maximum.reduceat(pcs, starts)
    for k in np.flatnonzero(low != high)[:1]:
        begin = starts[k]
        end = starts[k + 1] if k + 1 < starts.size else lanes.size
        here = lanes[begin:end][pcs[begin:end] == high[k]]
        text = f"threads wait here and others at {m.kernel.line(int(low[k]))}"
        m.report("barrier-divergence", text, here, pc=int(high[k]))


def _reduce(m: Machine, lanes: Array, groups: Array) -> None:
    """Give lanes the result of ``bar.red``."""
    for pc in {int(p) for p in np.unique(m.pc[lanes])} | {m.at}:
        reduction = m.kernel.reductions.get(pc)
        if reduction is None:
            continue
        _, put, how = reduction
        _, inverse = np.unique(groups, return_inverse=True)
        yes = np.bincount(inverse, m.barrier.value[lanes] != 0)
        every = np.bincount(inverse)
        r = yes if how == "popc" else yes == every if how == "and" else yes > 0
        keep = m.ids
        m.select(lanes)
        put(m, m.widened(r[inverse].astype(np.uint32 if how == "popc" else np.bool_)))
        m.select(keep)
        return
