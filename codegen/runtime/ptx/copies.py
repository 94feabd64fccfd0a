"""Asynchronous copies into shared memory: ``cp.async`` and its groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.code import SIZES, Imm, Reg, unknown
from didyma.codegen.runtime.ptx.memory import ISSUE, LAND, READ, SPACES
from didyma.codegen.runtime.ptx.operands import Action, Operands, Source
from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.machine import Machine


@dataclass(slots=True)
class _Copy:
    """Bytes that lanes have asked for: where they go, in which group of each lane."""

    lanes: Array
    to: Array
    data: Array
    group: Array
    pc: int
    number: int


@dataclass(slots=True)
class Copies:
    """The copies under way, and how many groups each lane has closed."""

    closed: Array
    number: int = 0
    open: list[_Copy] = field(default_factory=list[_Copy])


def copies_of(m: Machine) -> Copies:
    """Return the copies of a batch."""
    found = m.under_way.get("copies")
    if found is None:
        found = m.under_way["copies"] = Copies(np.zeros(m.size, np.int64))
    assert isinstance(found, Copies)
    return found


def compile_copy(ops: Operands) -> Action | None:
    """Compile ``cp.async``; None for another instruction."""
    ins = ops.ins
    if ins.op != "cp" or ins.mods[:1] != ("async",):
        return None
    mods = ins.mods
    if "mbarrier" in mods:
        return None
    if "commit_group" in mods:
        return _commit
    if "wait_group" in mods or "wait_all" in mods:
        keep = ops.integer(0) if "wait_group" in mods else -1
        return lambda m: land(m, keep)
    return _issue(ops)


def _commit(m: Machine) -> None:
    copies_of(m).closed[m.ids] += 1


def _given(ops: Operands) -> Source | None:
    """Return the function for the bytes that are copied, where fewer than are written.

    A predicate in place of a size says that none are.
    """
    if len(ops) < 4:
        return None
    o, size = ops.at(3), ops.integer(2)
    kind = ops.regs[o.index] if isinstance(o, Reg) else "u32"
    if not isinstance(o, Imm | Reg):
        raise unknown(ops.ins)
    if kind == "pred":
        ignored = ops.read(o, kind)
        return lambda m: np.where(ignored(m), 0, size)
    return None if SIZES[kind] == 8 else ops.read(o, "u32")  # None: the fourth is a cache policy


def _issue(ops: Operands) -> Action:
    to, source, size = ops.address(0), ops.address(1), ops.integer(2)
    given = _given(ops)

    def issue(m: Machine) -> None:
        ids = m.ids
        targets = m.active(to(m)).astype(np.int64, copy=False)
        addresses = m.active(source(m)).astype(np.int64, copy=False)
        data = np.zeros((ids.size, size), np.uint8)
        count = np.full(ids.size, size) if given is None else m.active(given(m)).astype(np.int64)
        for n in np.unique(count[count > 0]).tolist():
            mine = count == n
            for begin, part in _powers(min(n, size)):
                raw = np.empty((int(mine.sum()), part), np.uint8)
                where = np.ascontiguousarray(addresses[mine] + begin)
                m.tell(m.memory.access(
                    np.ascontiguousarray(ids[mine]), where, part, SPACES["global"], READ, 0, raw,
                    m.at,
                ))  # fmt: skip
                data[mine, begin : begin + part] = raw
        m.tell(m.memory.access(ids, targets, size, SPACES["shared"], ISSUE, 0, data, m.at))
        if m.shadow is not None:
            units.filled(m, ids, addresses, targets, count, size)
        c = copies_of(m)
        c.number += 1
        c.open.append(_Copy(ids.copy(), targets, data, c.closed[ids], m.at, c.number))

    return issue


def _powers(n: int) -> list[tuple[int, int]]:
    """Return a number as powers of two, each with its start.

    >>> _powers(12)
    [(0, 8), (8, 4)]
    """
    out: list[tuple[int, int]] = []
    begin = 0
    while n:
        part = 1 << (n.bit_length() - 1)
        out.append((begin, part))
        begin, n = begin + part, n - part
    return out


def land(m: Machine, keep: int) -> None:
    """Let copies of the active lanes arrive, but for those of their last ``keep`` groups.

    With ``keep`` -1 also those in no group arrive.
    """
    c = copies_of(m)
    waits = np.zeros(m.size, np.bool_)
    waits[m.ids] = True
    _land(m, lambda x: waits[x.lanes] & (x.group < c.closed[x.lanes] - keep))


def land_all(m: Machine, lanes: Array, number: int) -> None:
    """Let those copies of lanes arrive that were issued up to a number."""
    waits = np.zeros(m.size, np.bool_)
    waits[lanes] = True
    _land(m, lambda x: waits[x.lanes] & (x.number <= number))


def _land(m: Machine, chosen: Callable[[_Copy], Array]) -> None:
    c = copies_of(m)
    still: list[_Copy] = []
    for copy in c.open:
        done = chosen(copy)
        if done.any():
            lanes, to = copy.lanes[done], np.ascontiguousarray(copy.to[done])
            data = np.ascontiguousarray(copy.data[done])
            size = data.shape[1]
            m.tell(m.memory.access(lanes, to, size, SPACES["shared"], LAND, 0, data, copy.pc))
        if not done.all():
            rest = ~done
            still.append(_Copy(
                copy.lanes[rest], copy.to[rest], copy.data[rest], copy.group[rest], copy.pc,
                copy.number,
            ))  # fmt: skip
    c.open = still
