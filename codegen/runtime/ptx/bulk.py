"""Bulk copies, ``st.async`` and ``red.async``: bytes that arrive as late as they may.

A copy into shared memory lands when somebody looks at its mbarrier, and all have arrived there; one
into global memory lands at a wait for its group, or at the end.  Until then what is written must
not be used, and what is read must not be changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from didyma.codegen.runtime.ptx import in_ring_memory, units
from didyma.codegen.runtime.ptx.access import HALVES, TYPE_NUMBERS, UPDATES, change, width
from didyma.codegen.runtime.ptx.code import unknown
from didyma.codegen.runtime.ptx.kinds import TYPES
from didyma.codegen.runtime.ptx.mbarriers import LateCopy, arrive_early, locate, mbarrier
from didyma.codegen.runtime.ptx.memory import (
    ASYNC,
    BUSY,
    CELL,
    ISSUE,
    READ,
    SEND,
    SPACES,
    WRITE,
)
from didyma.codegen.runtime.ptx.operands import Action, Operands
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine

_PIECE = 16  # bytes; addresses and sizes are multiples of it
_RANK = 24  # bits of an address of shared memory below the block's rank in the cluster, plus one


@dataclass(slots=True)
class _Put:
    """Bytes on their way to global memory: rows, each to its address, from ``nbytes`` at a source.

    ``update`` is how they change what is there, and their type; None where they replace it.
    """

    lane: int
    to: Array
    data: Array
    source: int
    nbytes: int
    group: int
    pc: int
    update: tuple[str, str] | None
    read: bool = False


@dataclass(slots=True)
class _Puts:
    """Copies to global memory under way, and how many groups each lane has closed."""

    closed: dict[int, int] = field(default_factory=dict[int, int])
    open: list[_Put] = field(default_factory=list[_Put])


def _puts(m: Machine) -> _Puts:
    found: _Puts = m.under_way.setdefault("bulk copies", _Puts())
    return found


def compile_bulk(ops: Operands) -> Action | None:
    """Compile a bulk copy of bytes, ``st.async`` or ``red.async``; None for another instruction."""
    mods = ops.ins.mods
    if ops.ins.op in ("st", "red") and "async" in mods:
        return _sent(ops)
    if ops.ins.op != "cp" or "bulk" not in mods:
        return None
    if "prefetch" in mods:
        return lambda m: None
    if "commit_group" in mods:
        return _commit
    if "wait_group" in mods:
        keep, read = ops.integer(0), "read" in mods
        return lambda m: wait(m, m.ids.tolist(), keep, read)
    to_global = mods[mods.index("bulk") + 1] == "global"
    update = (update_of(ops), mods[-1]) if "reduce" in mods else None
    if update and not updates(*update):
        raise unknown(ops.ins)
    return _put(ops, update) if to_global else _get(ops, update)


def update_of(ops: Operands) -> str:
    """Return how a reduction changes what is in memory; ``unknown-instruction`` for another."""
    found = next((x for x in ops.ins.mods if x in UPDATES), None)
    if found is None:
        raise unknown(ops.ins)
    return found


def updates(how: str, kind: str) -> bool:
    """Return whether numbers of a type are changed so."""
    return kind in TYPE_NUMBERS or (how in ("add", "min", "max") and kind in HALVES)


def _commit(m: Machine) -> None:
    for lane in m.ids.tolist():
        _puts(m).closed[lane] = _puts(m).closed.get(lane, 0) + 1


def _rows(m: Machine, ops: Operands, counts: Any, *at: Any) -> list[tuple[int, ...]]:
    """Return for each active lane: itself, addresses, and how many bytes; sizes are checked."""
    columns = [m.active(f(m)).astype(np.int64).tolist() for f in (*at, counts)]
    wrong = np.array(columns[-1]) % _PIECE != 0
    if wrong.any():
        text = f"a bulk copy of {np.array(columns[-1])[wrong][0]} bytes, no multiple of {_PIECE}"
        m.report("misaligned", text, m.ids[wrong])
    return list(zip(m.ids.tolist(), *columns, strict=True))


def _pieces(lane: int, address: int, size: int) -> tuple[Array, Array]:
    n = size // _PIECE
    at = address + _PIECE * np.arange(n, dtype=np.int64)
    return np.full(n, lane, np.int32), at


def _read(m: Machine, lane: int, address: int, size: int, space: str, how: int = READ) -> Array:
    data = np.zeros((size // _PIECE, _PIECE), np.uint8)
    lanes, at = _pieces(lane, address, size)
    m.tell(m.memory.access(lanes, at, _PIECE, SPACES[space], how, 0, data, m.at))
    return data


def _get(ops: Operands, update: tuple[str, str] | None) -> Action:
    """A copy into shared memory, of this block or of others, which an mbarrier counts."""
    mods = ops.ins.mods
    if not any("complete_tx" in x for x in mods):
        raise unknown(ops.ins)
    to, source, size, barrier = ops.address(0), ops.address(1), ops.source(2, "u32"), ops.address(3)
    source_space = "global" if "global" in mods else "shared"
    several = ops.source(4, "u16") if "multicast::cluster" in mods else None

    def get(m: Machine) -> None:
        masks = m.active(several(m)).tolist() if several else [None] * m.ids.size
        for row, mask in zip(_rows(m, ops, size, to, source, barrier), masks, strict=True):
            lane, target, where, signal, count = row
            if source_space == "shared":
                fenced(m, lane, where, count)
            data = _read(m, lane, where, count, source_space)
            ranks = [None] if mask is None else [k for k in range(16) if int(mask) >> k & 1]
            for rank in ranks:
                at = _pieces(lane, of_rank(target, rank), data.size)[1]
                send(m, lane, at, of_rank(signal, rank), data, update)
                if m.shadow is not None and update is None:
                    lanes, begun = _pieces(lane, where, data.size)
                    found = units.load(m, lanes, begun, _PIECE, SPACES[source_space])
                    units.store(m, lanes, at, _PIECE, SPACES["shared"], found)

    return get


def of_rank(address: int, rank: int | None) -> int:
    """Return an address of shared memory as it is in another block of the cluster."""
    low = address & ((1 << _RANK) - 1)
    return address if rank is None else (rank + 1) << _RANK | low


def send(
    m: Machine,
    lane: int,
    at: Array,
    signal: int,
    data: Array,
    update: tuple[str, str] | None = None,
) -> None:
    """Let pieces go to addresses of shared memory, as a lane asks for, and count at a barrier.

    ``update`` is how they change what is there, and their type; None where they replace it.
    """
    lanes, wide = np.full(at.size, lane, np.int32), data.shape[1]
    how, strength = (ISSUE, 0) if update is None else (SEND, 2)
    m.tell(m.memory.access(lanes, at, wide, SPACES["shared"], how, strength, None, m.at))
    place = locate(m, lane, signal)
    found = mbarrier(m, place, np.array([lane]))
    if found is None:
        return
    copy = LateCopy(lane, at, data, m.at, update)
    if m.early:
        arrive_early(m, found, copy)
    else:
        found.late.append(copy)


def _sent(ops: Operands) -> Action:
    """Numbers of each lane go to shared memory, or change it, and count at an mbarrier there."""
    count, kind = width(ops)
    update = (update_of(ops), kind) if ops.ins.op == "red" else None
    if update and (count > 1 or not updates(*update)):
        raise unknown(ops.ins)
    if not any("complete_tx" in x for x in ops.ins.mods):
        raise unknown(ops.ins)
    to, barrier = ops.address(0), ops.address(2)
    gets = [ops.read(p, kind) for p in (ops.parts(1) if count > 1 else (ops.at(1),))]

    def sent(m: Machine) -> None:
        values = np.stack([m.active(np.asarray(g(m), TYPES[kind])) for g in gets], 1)
        raw = values.view(np.uint8)
        places = (m.active(f(m)).astype(np.int64).tolist() for f in (to, barrier))
        for k, (lane, at, signal) in enumerate(zip(m.ids.tolist(), *places, strict=True)):
            send(m, lane, np.array([at], np.int64), signal, raw[k : k + 1], update)

    return sent


def _put(ops: Operands, update: tuple[str, str] | None) -> Action:
    """A copy of shared memory to global memory, in a group of its lane."""
    if "bulk_group" not in ops.ins.mods:
        raise unknown(ops.ins)
    to, source, size = ops.address(0), ops.address(1), ops.source(2, "u32")

    def put(m: Machine) -> None:
        for lane, target, where, count in _rows(m, ops, size, to, source):
            fenced(m, lane, where, count)
            data = _read(m, lane, where, count, "shared", BUSY)
            to_, begun = (_pieces(lane, a, count)[1] for a in (target, where))
            issue(m, lane, to_, data, where, count, update)
            if m.shadow is not None:
                sent(m, lane, begun, to_, data, update)

    return put


def issue(
    m: Machine,
    lane: int,
    to: Array,
    data: Array,
    source: int,
    nbytes: int,
    update: tuple[str, str] | None,
) -> None:
    """Let rows that were read from shared memory go to global memory, in a group of their lane."""
    p = _puts(m)
    p.open.append(_Put(lane, to, data, source, nbytes, p.closed.get(lane, 0), m.at, update))


def sent(
    m: Machine, lane: int, begun: Array, to: Array, data: Array, update: tuple[str, str] | None
) -> None:
    """Move the units of rows from shared to global memory, or add them, as soon as they are sent.

    ``begun`` and ``to`` are the addresses of the rows.  Nobody may look before they arrive.
    """
    lanes, size = np.full(to.size, lane, np.int32), data.shape[1]
    if update is None:
        found = units.load(m, lanes, begun, size, SPACES["shared"])
        units.store(m, lanes, to, size, SPACES["global"], found)
        return
    kind = update[1]
    values = np.ascontiguousarray(data).reshape(-1).view(TYPES[kind])
    steps = np.arange(0, size, values.itemsize, dtype=np.int64)
    at, source = ((a[:, None] + steps).reshape(-1) for a in (to, begun))
    in_ring_memory.changed(m, np.full(at.size, lane, np.int32), source, at, values, update)


def fenced(m: Machine, lane: int, address: int, size: int) -> None:
    """Report what the asynchronous unit reads of shared memory before a proxy fence."""
    lanes, at = _pieces(lane, address & ((1 << _RANK) - 1), size)
    unfenced(m, lanes, at, _PIECE)


def unfenced(m: Machine, lanes: Array, at: Array, size: int) -> None:
    """Report what lanes let the asynchronous unit read before a proxy fence: pieces of one size.

    Either the writer passes ``fence.proxy.async`` after its write, or the lane that issues does.
    """
    space, fences = m.memory.spaces[1], m.memory.proxied
    inside = at + size <= space.size
    if not space.cell or not inside.any():
        return
    lanes, at = lanes[inside], at[inside]
    start = at + space.size * m.memory.block[lanes].astype(np.int64)
    count = max(1, size // space.cell)
    cells = space.cells.view(CELL)[start[:, None] // space.cell + np.arange(count)]
    writers = cells["lane"] - m.first
    known = (cells["time"] == 0) | (writers < 0) | (writers >= m.size)
    by = np.where(known, 0, writers)
    own = space.flags[start[:, None] + space.cell * np.arange(count)] & ASYNC != 0
    known |= (cells["time"] <= fences[by]) | (cells["c"] < 0) | own
    known |= cells["time"] <= fences[lanes][:, None]
    if not known.all():
        k, j = (int(x[0]) for x in np.nonzero(~known))
        text = (
            f"{space.describe(int(at[k]) + j * space.cell)} is written, and no fence.proxy.async "
            "follows"
        )
        m.report("unfenced", text, lanes[k : k + 1], int(cells["pc"][k, j]))


def wait(m: Machine, lanes: Sequence[int], keep: int, read: bool) -> None:
    """Let copies to global memory arrive but for those of the last ``keep`` groups of each lane.

    With ``read`` only their sources are free again.
    """
    p, still = _puts(m), list[_Put]()
    waits = {*lanes}
    for c in p.open:
        done = c.lane in waits and c.group < p.closed.get(c.lane, 0) - keep
        if not done:
            still.append(c)
            continue
        if not c.read:
            _free(m, c)
        if read:
            c.read = True
            still.append(c)
        else:
            _arrive(m, c)
    p.open = still


def _free(m: Machine, c: _Put) -> None:
    space = m.memory.spaces[1]
    start = (c.source & ((1 << _RANK) - 1)) + space.size * int(m.memory.block[c.lane])
    space.flags[start : start + c.nbytes] &= np.uint8(255 ^ BUSY_FLAG)


BUSY_FLAG = 16


def _arrive(m: Machine, c: _Put) -> None:
    if not c.data.size:
        return
    if c.update is None:
        lanes, wide = np.full(c.to.size, c.lane, np.int32), c.data.shape[1]
        m.tell(m.memory.access(lanes, c.to, wide, SPACES["global"], WRITE, 0, c.data, c.pc))
        return
    change(m, c.lane, c.to, c.data, "global", c.update, c.pc)


def finish(m: Machine) -> None:
    """Let all copies to global memory arrive, as a launch does at its end."""
    p = m.under_way.get("bulk copies")
    if isinstance(p, _Puts):
        for c in p.open:
            _arrive(m, c)
        p.open = []
