"""Address spaces with shadow state, whose accesses ``shadow.c`` checks, remembers and does.

Every byte has flags; every cell of global and shared memory remembers who wrote and read it, and
when.  Time is one counter for the whole launch: an access races with one that its lane does not
know of, whatever the order in which the two ran.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from didyma.codegen.runtime.compiler import CCompiler
from didyma.codegen.runtime.native import Native
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

GLOBAL, SHARED, LOCAL = 0x7000_0000_0000, 0x0100_0000_0000, 0x0200_0000_0000
WINDOW = 1 << 40  # bytes of the addresses of shared and of local memory
OWNER = 24  # bits of an address of local memory below the number of its lane, plus one
GUARD = 4096  # bytes between allocations that belong to none
VALID, INIT, CONSTANT = 1, 2, 4
READ, WRITE, UPDATE, ISSUE, LAND, BUSY, SEND = range(7)
ASYNC = np.uint8(32)  # flag of bytes that a bulk copy brought
ANYWHERE = 3  # the space is that in whose window the address lies
VOLATILE = 3  # strength: as a read, or after a fence, strong; else plain
TESTED, BLIND = 64, 128  # of a volatile read: whether its value decides what a thread does
_MARK = 1 << 30  # in the instruction of a volatile store
_POISON = 0xFF
# The last write of a cell of bytes, and its first record of reads.
CELL = np.dtype([(n, np.int32) for n in ("lane", "time", "pc", "a", "b", "c", "d", "e")])
_NODE = 20  # bytes
# What memory holds in the ring beside each two bytes: a payload, and which part of a float they
# are (``units``).
UNIT = np.dtype([("payload", np.uint64), ("part", np.uint8)], align=True)
_KINDS = (
    "out-of-bounds", "misaligned", "uninitialised", "race", "same-value", "constant", "unwaited",
    "exited", "overwritten",
)  # fmt: skip
SPACES = {"global": 0, "const": 0, "shared": 1, "local": 2}


class Allocation(NamedTuple):
    """Named bytes of a space; every copy of the space has them."""

    name: str
    start: int
    size: int


class _Space(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("data", "flags", "cells")),
        *((n, ctypes.c_int64) for n in ("base", "size", "copies", "shift")),
    ]


class _Found(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_int64) for n in ("count", "lane", "other", "pc", "verb", "address", "space")
    ]


class _State(ctypes.Structure):
    _fields_ = [
        ("space", _Space * 3),
        *(
            (n, ctypes.c_int64)
            for n in ("now", "pc", "first", "lanes", "nodes", "spare", "changed")
        ),
        *(
            (n, ctypes.c_void_p)
            for n in ("block", "bar", "warp", "mates", "fenced", "rows", "pool")
        ),
        *((n, ctypes.c_int64) for n in ("quiet", "fresh", "ranks")),
        *((n, ctypes.c_void_p) for n in ("peers", "gone", "strayed", "owner")),
        ("one", ctypes.c_int64),
        ("found", _Found * len(_KINDS)),
    ]


class Space:
    """Bytes in one copy, in one for each block (``copies`` 1) or one for each lane (2).

    ``cell``: bytes of a cell, 0 where races are not looked for.  In the ``ring`` it has units.
    """

    def __init__(
        self, kind: str, size: int, copies: int, number: int, cell: int, *, ring: bool = False
    ) -> None:
        self.kind, self.size, self.copies, self.cell = kind, -(-size // 256) * 256, copies, cell
        n = self.size * number
        self.data: Array = np.full(n, _POISON, np.uint8)
        self.flags: Array = np.zeros(n, np.uint8)
        self.cells: Array = np.zeros(n // cell * CELL.itemsize if cell else 0, np.uint8)
        self.units: Array = np.zeros(n // 2 if ring else 0, UNIT)
        self.allocations: list[Allocation] = []

    def allow(self, a: Allocation, flags: int = 0) -> None:
        """Make the bytes of an allocation valid in every copy."""
        self.allocations.append(a)
        self.flags.reshape(-1, self.size)[:, a.start : a.start + a.size] = VALID | flags

    def writers(self, a: Allocation) -> Array:
        """Return, for each byte, the instruction that wrote it last; -1 where none is known."""
        if not self.cell:
            return np.full(a.size, -1, np.int32)
        cells = self.cells.view(CELL)[(a.start + np.arange(a.size)) // self.cell]
        return np.where(cells["time"] == 0, -1, cells["pc"] & ~_MARK).astype(np.int32)

    def describe(self, at: int) -> str:
        """Name the allocation that an offset lies in, or else the nearest."""

        def far(a: Allocation, before: int = 1) -> int:
            return max(before * (a.start - at), at - a.start - a.size + 1, 0)

        if self.kind == "local" and at >> OWNER > 0:
            return "local memory of another thread"
        best = min(self.allocations, default=None, key=lambda a: far(a, 8))  # most run past an end
        if best is None or far(best) >= 2 * GUARD:
            base = GLOBAL if self.kind == "global" else 0
            return f"no {self.kind} memory, at address {base + at:#x}"
        return f"{best.name} at byte {at - best.start} of {best.size}"


class Found(NamedTuple):
    """What an access found: a lane (of the batch), and another (of the grid) that it races with.

    ``size`` is the bytes of the access, or the other instruction of a race.
    """

    kind: str
    times: int
    lane: int
    other: int
    size: int
    verb: int
    address: int
    space: int


def _compiled(source: str) -> Native:
    """Compile the checks by a C compiler of this machine, or by TinyCC, whose code is slower."""
    names = ("access_", "atomic_", "fresh_")
    for command in ("clang", "gcc"):
        with suppress(DidymaError, OSError):  # there is none, or it does not work
            return CCompiler(command).compile(source, "the checks of engine ptx", names)
    return TinyCC().compile(source, "the checks of engine ptx", names)


@cache
def _native() -> tuple[Native, Callable[..., None], Callable[..., None], Callable[..., None]]:
    folder = files("didyma.codegen.runtime.ptx")
    source = "".join((folder / n).read_text(encoding="utf-8") for n in ("bytes.c", "shadow.c"))
    native = _compiled(source)
    p, i = ctypes.c_void_p, ctypes.c_int64
    access = ctypes.CFUNCTYPE(None, p, i, p, p, i, i, i, i, p, p)(native.addresses["access_"])
    atomic = ctypes.CFUNCTYPE(None, p, i, p, p, i, i, i, i, i, p, p, p, p)(
        native.addresses["atomic_"]
    )
    fresh = ctypes.CFUNCTYPE(None, p, i, p, p, i, i, i, p)(native.addresses["fresh_"])
    return native, access, atomic, fresh


@dataclass(slots=True)
class Memory:
    """The spaces of a batch of blocks, and what its lanes know of each other's accesses.

    ``bar``: until when a block knows all of itself; ``warp``: until when a lane knows all of its
    warp; ``mates``: until when it knows each lane of its warp; ``fenced``: the scope of its last
    fence; ``proxied``: when it last fenced for the asynchronous unit.  ``peers``: the blocks of a
    block's cluster by rank; ``gone``: which blocks have ended.  ``rows`` have until when a lane
    knows every lane of the batch; a row never changes.  ``heap`` has what ``malloc`` gave.
    """

    spaces: tuple[Space, Space, Space]
    block: Array
    first: int
    now: int = 0
    bar: Array = field(init=False)
    warp: Array = field(init=False)
    mates: Array | None = None
    fenced: Array = field(init=False)
    proxied: Array = field(init=False)
    peers: Array | None = None
    gone: Array = field(init=False)
    rows: dict[int, Array] = field(default_factory=dict[int, Array])
    heap: dict[int, int] = field(default_factory=dict[int, int])
    _rows: Array = field(init=False)
    _owner: Array | None = None
    _pool: Array = field(init=False)
    _state: Any = field(init=False)
    _calls: Any = field(init=False)

    def __post_init__(self) -> None:
        n = self.block.size
        self.bar = np.zeros(int(self.block[-1]) + 1, np.int32)
        self.warp, self.fenced = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.proxied, self.gone = np.zeros(n, np.int32), np.zeros(self.bar.size, np.uint8)
        self._rows = np.zeros(n, np.int64)
        self._pool = np.zeros(1 << 12, f"V{_NODE}")
        self._calls = _native()
        st = self._state = _State()
        for to, s in zip(st.space, self.spaces, strict=True):
            to.data, to.flags = _at(s.data), _at(s.flags)
            to.cells = _at(s.cells) if s.cell else None
            to.size, to.copies = s.size, s.copies
            to.shift = max(s.cell.bit_length() - 1, 0)
        for k, base in enumerate((GLOBAL, SHARED, LOCAL)):
            st.space[k].base = base
        st.first, st.lanes, st.nodes = self.first, n, 1
        st.block, st.bar, st.warp = _at(self.block), _at(self.bar), _at(self.warp)
        st.gone = _at(self.gone)
        if self.peers is not None:
            st.ranks, st.peers = self.peers.shape[1], _at(self.peers)
        st.fenced, st.rows, st.pool = _at(self.fenced), _at(self._rows), _at(self._pool)

    def follow(self, before: Memory) -> None:
        """Go on with the time and the records of the batch before."""
        self.now, self._pool, self.heap = before.now, before._pool, before.heap
        st, last = self._state, before._state
        st.nodes, st.spare, st.pool = last.nodes, last.spare, _at(self._pool)

    @property
    def changed(self) -> bool:
        """Whether a store or an atomic changed a byte since ``unchanged``."""
        return bool(self._state.changed)

    def unchanged(self) -> None:
        """Forget that bytes have changed."""
        self._state.changed = 0

    def learn(self, lane: int, row: Array) -> None:
        """Let a lane know what a row says, and nothing else."""
        self.rows[lane] = row
        self._rows[lane] = row.ctypes.data

    def parted(self, owner: Array, copies: int) -> Array:
        """Let copies of the grid access only what is theirs, and tell which lanes stray from it.

        ``owner`` has, for each 256 bytes of global memory, the copy from 1 on, or 0 for all.  What
        is returned tells, from now on, which lanes have accessed what they may not, by bounds or
        alignment.
        """
        self._owner, strayed = owner, np.zeros(self.block.size, np.bool_)
        st = self._state
        st.owner, st.strayed, st.one = _at(owner), _at(strayed), self.block.size // copies
        return strayed

    def with_mates(self) -> Array:
        """Return the times until which lanes know each lane of their warps; fresh ones are 0."""
        if self.mates is None:
            self.mates = np.zeros((self.block.size, 32), np.int32)
            self._state.mates = _at(self.mates)
        return self.mates

    def access(
        self,
        lanes: Array,
        addresses: Array,
        nbytes: int,
        where: int,
        how: int,
        strength: int,
        values: Array | None,
        pc: int,
        places: Array | None = None,
    ) -> Iterator[Found]:
        """Load into ``values`` or store them, a row for each lane; yield what the checks found."""
        st = self._begin(lanes.size, nbytes, pc)
        self._calls[1](
            ctypes.addressof(st), lanes.size, _at(lanes), _at(addresses), nbytes, where, how,
            strength, None if values is None else _at(values),
            None if places is None else _at(places),
        )  # fmt: skip
        return self._found()

    def load(
        self,
        lanes: Array,
        addresses: Array,
        nbytes: int,
        where: int,
        strength: int,
        values: Array,
        pc: int,
        places: Array | None = None,
    ) -> tuple[Iterator[Found], Array | None]:
        """Load, and return which bytes nothing has written, if any, in place of reporting them."""
        st = self._state
        st.quiet = 1
        found = self.access(lanes, addresses, nbytes, where, READ, strength, values, pc, places)
        st.quiet = 0
        if not st.fresh:
            return found, None
        told = [*found]
        fresh = np.zeros((lanes.size, nbytes), np.bool_)
        self._fresh(lanes, addresses, nbytes, where, 0, fresh)
        return iter(told), fresh

    def forget(self, lanes: Array, addresses: Array, nbytes: int, where: int, which: Array) -> None:
        """Let those bytes that ``which`` names count as not written."""
        self._fresh(lanes, addresses, nbytes, where, 1, np.ascontiguousarray(which))

    def _fresh(self, lanes: Array, addresses: Array, nbytes: int, where: int, forget: int,
               which: Array) -> None:  # fmt: skip
        self._calls[3](
            ctypes.addressof(self._state), lanes.size, _at(lanes), _at(addresses), nbytes, where,
            forget, _at(which),
        )  # fmt: skip

    def atomic(
        self,
        lanes: Array,
        addresses: Array,
        nbytes: int,
        where: int,
        strength: int,
        op: tuple[int, int],
        a: Array,
        b: Array | None,
        out: Array,
        places: Array,
        pc: int,
    ) -> Iterator[Found]:
        """Update memory lane by lane; ``out`` gets what was there.

        ``places`` get 4 times the offset, and the space.
        """
        st = self._begin(lanes.size, nbytes, pc)
        self._calls[2](
            ctypes.addressof(st), lanes.size, _at(lanes), _at(addresses), nbytes, where, strength,
            *op, _at(a), None if b is None else _at(b), _at(out), _at(places),
        )  # fmt: skip
        return self._found()

    def _begin(self, count: int, nbytes: int, pc: int) -> Any:
        """Count time on; make room for as many nodes as accesses can need: one for each cell."""
        most = count * max(1, nbytes // max(1, self.spaces[0].cell))
        st = self._state
        self.now += 1
        st.now, st.pc = self.now, pc
        if st.nodes + most >= self._pool.size:
            more = np.zeros(2 * self._pool.size + most, self._pool.dtype)
            more[: st.nodes] = self._pool[: st.nodes]
            self._pool = more
            st.pool = _at(more)
        return st

    def _found(self) -> Iterator[Found]:
        found = self._state.found
        return (self._take(k) for k in range(len(_KINDS)) if found[k].count)

    def _take(self, k: int) -> Found:
        f = self._state.found[k]
        out = Found(_KINDS[k], f.count, f.lane, f.other, f.pc, f.verb, f.address, f.space)
        f.count = 0
        return out


def _at(a: Array) -> int:
    return int(a.ctypes.data)
