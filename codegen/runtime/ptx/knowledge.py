"""What lanes know of each other's accesses, and how fences, atomics and barriers tell them.

A release leaves at its address, for lanes of its scope, until when its lane knows every lane; an
acquire takes that over.  A release is a strong write that says so, or one after a fence; an acquire
is a strong read that says so, or one before a fence.  Reads by atomics acquire at once, as much
code relies on, but for compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from didyma.refimpl.ir.types import Array

if TYPE_CHECKING:
    from didyma.codegen.runtime.ptx.memory import Memory

_ALWAYS = np.iinfo(np.int32).max


@dataclass(slots=True)
class _Fences:
    """When lanes last fenced, and until when they then knew their block."""

    time: Array
    bar: Array

    @classmethod
    def none(cls, n: int) -> _Fences:
        return cls(np.zeros(n, np.int32), np.zeros(n, np.int32))


@dataclass(slots=True)
class _Left:
    """What releases left at an address: for all lanes, and for those of a block."""

    everyone: Array | None = None
    blocks: dict[int, Array] = field(default_factory=dict[int, Array])


# Merged rows by the identities of what they are of, which stays alive as long.
_Made: TypeAlias = dict[tuple[int, int], tuple[Array, Array | None, _Left]]


class Knowledge:
    """Clocks of the lanes of a batch that barriers alone do not give."""

    def __init__(self, memory: Memory, exists: Array) -> None:
        self.memory = memory
        self.block = memory.block
        n = exists.size
        self.base: Array = np.where(exists, 0, _ALWAYS).astype(np.int32)
        self.wide, self.near = _Fences.none(n), _Fences.none(n)
        self.left: dict[int, _Left] = {}
        self.pending: dict[int, tuple[Array | None, Array | None]] = {}
        self.taken: dict[int, _Left] = {}  # by lane, what it has taken last

    def all_of(self, lane: int) -> Array:
        """Return until when a lane knows each lane, now."""
        mem, own = self.memory, self._own(lane)
        mine = self._block_slice(lane)
        own[mine] = np.maximum(own[mine], mem.bar[self.block[lane]])
        warp = slice(lane & ~31, (lane | 31) + 1)
        own[warp] = np.maximum(own[warp], mem.warp[lane])
        if mem.mates is not None:
            own[warp] = np.maximum(own[warp], mem.mates[lane])
        own[lane] = mem.now
        return own

    def _own(self, lane: int) -> Array:
        row = self.memory.rows.get(lane)
        return self.base.copy() if row is None else row.copy()

    def _block_slice(self, lane: int) -> slice:
        count = self.block.size // (int(self.block[-1]) + 1)
        first = int(self.block[lane]) * count
        return slice(first, first + count)

    def _fenced(self, lane: int, fences: _Fences) -> Array:
        """Return what a strong write of a lane passes on after its last fence.

        What its block did before a barrier after that fence counts as far as they had fenced it
        themselves, which PTX does not promise and much code relies on.
        """
        own, mem = self._own(lane), self.memory
        mine = self._block_slice(lane)
        before = np.maximum(
            fences.bar[lane], np.minimum(fences.time[mine], mem.bar[self.block[lane]])
        )
        own[mine] = np.maximum(own[mine], before)
        if mem.warp[lane]:
            warp = slice(lane & ~31, (lane | 31) + 1)
            until = np.minimum(mem.warp[lane], fences.time[lane])
            own[warp] = np.maximum(own[warp], until)
        own[lane] = max(int(own[lane]), int(fences.time[lane]))
        return own

    def fence(self, ids: Array, wide: bool) -> None:
        """Remember a fence; what lanes have read before it is acquired."""
        mem = self.memory
        mem.now += 1
        for f in (self.near, self.wide) if wide else (self.near,):
            f.time[ids], f.bar[ids] = mem.now, mem.bar[self.block[ids]]
        mem.fenced[ids] = np.maximum(mem.fenced[ids], 2 if wide else 1)
        if self.pending:
            for lane in ids.tolist():
                if found := self.pending.pop(lane, None):
                    self._learn(lane, *found)

    def _learn(self, lane: int, *rows: Array | None) -> None:
        known = (*rows, self.memory.rows.get(lane))
        if any(r is not None for r in known):
            self.memory.learn(lane, _merged(known))

    def share(self, lanes: Array, row: Array | None = None) -> None:
        """Let lanes know what any of them has learnt by more than barriers, and a row."""
        rows = self.memory.rows
        known = {id(r): r for lane in lanes.tolist() if (r := rows.get(lane)) is not None}
        if row is not None:
            known[id(row)] = row
        if known:
            whole = _merged([*known.values()])
            for lane in lanes.tolist():
                self.memory.learn(lane, whole)

    def teach(self, lanes: Array, row: Array) -> None:
        """Let each of some lanes know what a row says, besides what it knows itself."""
        rows = self.memory.rows
        made: dict[int, Array] = {}
        for lane in lanes.tolist():
            own = rows.get(lane)
            if id(own) not in made:
                made[id(own)] = _merged([row, own])
            self.memory.learn(lane, made[id(own)])

    def told(self, lanes: Array) -> Array:
        """Return what lanes together know, each of itself until now."""
        mem, blocks = self.memory, self.block[lanes]
        known = {id(r): r for lane in lanes.tolist() if (r := mem.rows.get(lane)) is not None}
        row = _merged([self.base, *known.values()])
        for b in np.unique(blocks):
            mine = self._block_slice(int(lanes[blocks == b][0]))
            row[mine] = np.maximum(row[mine], mem.bar[b])
        warps = np.maximum.reduceat(
            mem.warp[lanes], starts := np.flatnonzero(np.diff(lanes >> 5, prepend=-1))
        )
        for w, until in zip((lanes[starts] >> 5).tolist(), warps, strict=True):
            row[32 * w : 32 * w + 32] = np.maximum(row[32 * w : 32 * w + 32], until)
        row[lanes] = mem.now
        return row

    def strong(
        self, at: Array, ids: Array, how: tuple[bool, bool], wide: bool, order: str, cas: bool
    ) -> None:
        """Synchronise through strong reads and writes (``how``) of addresses, lane by lane."""
        read, write = how
        now = order in ("release", "acq_rel")
        if not self.left and not (write and (now or self.near.time[ids].any())):
            return
        acquires = order in ("acquire", "acq_rel") or (order != "relaxed" and not cas)
        made: _Made = {}
        for place, lane in zip(at.tolist(), ids.tolist(), strict=True):
            if place < 0:
                continue
            left = self.left.get(place)
            if read and left is not None:
                self._take(lane, left, wide, acquires, made)
            if not write:
                continue
            if not now and not self.near.time[lane]:
                if not read:
                    self.left.pop(place, None)
                continue
            left = left if read and left is not None else _Left()
            self.left[place] = self._leave(lane, left, wide, now)

    def _leave(self, lane: int, left: _Left, wide: bool, now: bool) -> _Left:
        block = int(self.block[lane])
        known = self.all_of(lane) if now else self._fenced(lane, self.near)
        near = left.blocks.get(block)
        out = _Left(left.everyone, {**left.blocks, block: _merged([known, near])})
        if wide and (now or self.wide.time[lane]):
            far = known if now else self._fenced(lane, self.wide)
            out.everyone = _merged([far, left.everyone])
        return out

    def _take(self, lane: int, left: _Left, wide: bool, now: bool, made: _Made) -> None:
        """Acquire, now or at the next fence; ``made`` are rows for lanes that knew the same."""
        if now and self.taken.get(lane) is left:
            return
        near = left.blocks.get(int(self.block[lane]))
        everyone = left.everyone if wide else None
        if not now:
            a, b = self.pending.get(lane, (None, None))
            self.pending[lane] = _either(a, near), _either(b, everyone)
            return
        self.taken[lane] = left
        if near is None and everyone is None:
            return
        own = self.memory.rows.get(lane)
        key = id(own), id(left) if near is None else -lane - 1
        if key not in made:
            made[key] = _merged([own, near, everyone]), own, left
        self.memory.learn(lane, made[key][0])


def _merged(rows: Iterable[Array | None]) -> Array:
    known = [r for r in rows if r is not None]
    out = known[0].copy()
    for r in known[1:]:
        np.maximum(out, r, out=out)
    return out


def _either(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None and b is None else _merged([a, b])
