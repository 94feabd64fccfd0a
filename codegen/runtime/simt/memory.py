"""Buffers with shadow state: bounds, initialisation and races are seen where they happen.

A location remembers its last writer and readers as lane numbers, and the barrier epoch of the
writer's block at that time.  Two accesses of different lanes, one of them a write, race unless
they are in one block and a barrier lies between, or in one cluster and a barrier of that, or the
first is fenced and the second knows of it (``fences``); atomics do not race among themselves.

What an asynchronous copy writes may be touched only once the copy has been waited for, and what it
reads may not be written before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt.fences import Fences, Shown
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.program import ALIGNMENT

Lanes: TypeAlias = NDArray[Any]
Report: TypeAlias = Callable[[str, str, int], None]  # kind, detail, how many lanes
Namer: TypeAlias = Callable[["LaneArray", Lanes], str]

_NOBODY = -1
_MANY = -2
_MEETING = 32  # bits of an epoch that count barriers of the block since one of the cluster


@dataclass(slots=True)
class SimtBuffer:
    """Bytes on the simt device, and which of them have been written.

    In the ring ``payloads`` has that of each float, at the float's first byte.
    """

    data: NDArray[np.uint8]
    written: NDArray[np.bool_]
    payloads: NDArray[np.uint64] | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.data.size

    def view(self, offset: int, nbytes: int) -> SimtBuffer:
        """Part of the bytes."""
        end = offset + nbytes
        payloads = None if self.payloads is None else self.payloads[offset:end]
        return SimtBuffer(self.data[offset:end], self.written[offset:end], payloads)


@dataclass(slots=True)
class Warps:
    """The threads that run together: whole blocks, in lanes of ``threads`` each.

    ``first`` is the number of the first block, and every ``cluster`` blocks are a cluster.
    ``epoch`` counts the barriers that each block has passed: those of its cluster, in its upper
    half, and its own since.  ``touched`` is the epoch at which another block last touched the
    shared memory of each.  ``fences`` are those of all blocks of the launch.
    """

    first: int
    blocks: int
    threads: int
    cluster: int = 1
    fences: Fences = field(default_factory=Fences)
    lane: Lanes = field(init=False)
    block: Lanes = field(init=False)
    epoch: Lanes = field(init=False)
    touched: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.lane = np.arange(self.blocks * self.threads) + self.first * self.threads
        self.block = self.lane // self.threads - self.first
        self.epoch = np.zeros(self.blocks, np.int64)
        self.touched = np.full(self.blocks, _NOBODY, np.int64)

    def meet(self, blocks: NDArray[np.bool_]) -> None:
        """Let blocks pass a barrier of their clusters."""
        now = self.epoch[blocks]
        self.epoch[blocks] = ((now >> _MEETING) + 1) << _MEETING

    @property
    def met(self) -> Lanes:
        """How many barriers of its cluster each block has passed."""
        return self.epoch >> _MEETING

    def pass_barrier(self, blocks: Lanes, count: Lanes) -> None:
        """Let blocks have passed so many barriers of their own since the last of their cluster."""
        self.epoch[blocks] = (self.met[blocks] << _MEETING) + count

    def others(self, who: Lanes, rank: Lanes) -> Lanes:
        """Return the blocks that have ranks in the clusters of lanes, which touch their memory."""
        own = self.block[who]
        block: Lanes = own - own % self.cluster + rank
        foreign = block != own
        self.touched[block[foreign]] = self.epoch[own[foreign]] >> _MEETING
        return block

    def alone(self) -> Lanes:
        """Return the blocks whose memory others touch though they need not have begun, or may end.

        The run is at its end.
        """
        return np.flatnonzero(self.touched == self.epoch >> _MEETING)

    def ordered(self, one: Lanes, then: Lanes, other: Lanes, now: Lanes) -> NDArray[np.bool_]:
        """Return whether barriers order lanes ``one`` at epochs ``then`` before others ``now``."""
        a, b = one // self.threads, other // self.threads
        met = (a // self.cluster == b // self.cluster) & (then >> _MEETING != now >> _MEETING)
        return np.asarray((a == b) & (then != now) | (a != b) & met)

    @property
    def size(self) -> int:
        """Number of lanes."""
        return self.lane.size


ONE = np.int32(1)  # of the dtype of what is counted, which ``ufunc.at`` is fifty times faster with


@dataclass(slots=True)
class Flight:
    """How many copies under way have yet to write, and to read, each element of an array.

    ``name`` says which copy moves one of some elements.
    """

    arriving: Lanes
    leaving: Lanes
    name: Namer


class Marks:
    """A number for each element of an array, -1 where none was set.

    Complements are kept, so that memory of elements that nobody touches is never touched either.
    """

    __slots__ = ("complements",)

    def __init__(self, size: int) -> None:
        self.complements: Lanes = np.zeros(size, np.int64)

    def __getitem__(self, at: Lanes | slice) -> Lanes:
        return ~np.asarray(self.complements[at])

    def __setitem__(self, at: Lanes, numbers: Lanes | int) -> None:
        self.complements[at] = ~np.asarray(numbers, np.int64)


@dataclass(slots=True)
class LaneArray:
    """An array that kernel text can name, flat, with ``copies`` instances of ``count`` elements.

    Device memory has one instance, shared memory one a block, local memory one a lane.
    ``written`` is None where every element is known to hold a value.  ``payloads`` has
    those of the elements that are floats, in the ring.  Every instance starts at a multiple of
    ``alignment`` bytes.  ``flight`` is there once asynchronous copies have touched it.  ``loose``
    marks what a thread has written and not yet fenced for products of four warps, in kernels that
    have such.  ``shown`` is there once a block has fenced what it wrote.
    """

    name: str
    kind: str
    data: Lanes
    count: int
    written: NDArray[np.bool_] | None
    tracked: bool
    payloads: Lanes | None = None
    alignment: int = ALIGNMENT
    flight: Flight | None = None
    loose: NDArray[np.bool_] | None = None
    shown: Shown | None = None
    writer: Marks = field(init=False)
    writer_epoch: Lanes = field(init=False)
    atomic: Lanes = field(init=False)
    reader: Marks = field(init=False)
    reader_block: Marks = field(init=False)
    reader_epoch: Lanes = field(init=False)

    def __post_init__(self) -> None:
        size = self.data.size if self.tracked else 0
        self.writer = Marks(size)
        self.writer_epoch = np.zeros(size, np.int64)
        self.atomic = np.zeros(size, np.bool_)
        self.reader = Marks(size)
        self.reader_block = Marks(size)
        self.reader_epoch = np.zeros(size, np.int64)

    def read(self, at: Lanes) -> Lanes:
        """Return the elements at flat locations."""
        values = self.data[at]
        return values if self.payloads is None else scalar_ring.joined(values, self.payloads[at])

    def write(self, at: Lanes, elements: Lanes) -> None:
        """Set the elements at flat locations."""
        if self.payloads is not None:
            self.payloads[at] = scalar_ring.payload_of(elements)
        self.data[at] = scalar_ring.value_of(elements)

    def locate(
        self, at: Lanes, warps: Warps, who: Lanes, report: Report, rank: Lanes | None = None
    ) -> tuple[Lanes, Lanes]:
        """Flat locations of in-bounds accesses, and which of ``who`` make them.

        They are in the shared memory of the blocks of a ``rank``, by default of their own.
        """
        bad = (at < 0) | (at >= self.count)
        if bad.any():
            i = int(at[bad][0])
            detail = f"{self.kind} {self.name}[{i}] of {self.count} elements"
            report("out-of-bounds", detail, int(bad.sum()))
            at, who = at[~bad], who[~bad]
            rank = None if rank is None else rank[~bad]
        if rank is not None:
            lost = (rank < 0) | (rank >= warps.cluster)
            if lost.any():
                detail = f"block {int(rank[lost][0])} of a cluster of {warps.cluster}"
                report("out-of-bounds", detail, int(lost.sum()))
                at, who, rank = at[~lost], who[~lost], rank[~lost]
            at = at + warps.others(who, rank) * self.count
        elif self.kind == "shared":
            at = at + warps.block[who] * self.count
        elif self.kind == "local":
            at = at + who * self.count
        return at, who

    def check_read(self, at: Lanes, warps: Warps, who: Lanes, report: Report) -> None:
        """Look for uninitialised, unwaited and racing reads, then remember the readers."""
        self.check_there(at, "read", report)
        if not self.tracked:
            return
        lane, block = warps.lane[who], warps.block[who]
        epoch = warps.epoch[block]
        self._conflict(self.writer[at], self.writer_epoch[at], lane, epoch, warps, "read", report)
        self._check_shown(at, block + warps.first, warps, "read", report)
        self._remember_readers(at, lane, block + warps.first, epoch, warps.cluster)

    def check_there(self, at: Lanes, verb: str, report: Report) -> None:
        """Look for elements that copies have yet to write, or that nobody has."""
        if self.flight is not None:
            self.check_waited(self.flight, at, verb, report)
        if self.written is not None and not self.written[at].all():
            fresh = ~self.written[at]
            detail = f"{self.kind} {self.name}[{int(at[fresh][0]) % max(self.count, 1)}] is {verb}"
            report("uninitialised", detail, int(fresh.sum()))

    def check_waited(self, flight: Flight, at: Lanes, verb: str, report: Report) -> None:
        """Report elements that copies under way have yet to write, or to read if one writes."""
        moves = [("writes", flight.arriving)]
        if verb == "written":
            moves.append(("reads", flight.leaving))
        for what, count in moves:
            if (lost := count[at] > 0).any():
                name = flight.name(self, at[lost])
                i = int(at[lost][0]) % max(self.count, 1)
                text = f"{self.kind} {self.name}[{i}] is {verb} before a wait for {name}, which"
                report("unwaited", f"{text} {what} it", int(lost.sum()))

    def fence(self, who: Lanes, warps: Warps) -> None:
        """Let products see what lanes have written, but for what copies have yet to write."""
        assert self.loose is not None
        if self.kind == "local":
            self.loose.reshape(-1, self.count)[who] = False
            return
        active = np.zeros(warps.size + 1, np.bool_)
        active[who] = True
        mine = active[np.clip(self.writer[:] - int(warps.lane[0]), -1, warps.size)]
        self.loose &= ~mine if self.flight is None else ~mine | (self.flight.arriving > 0)

    def publish(self, who: Lanes, warps: Warps) -> None:
        """Show what blocks of lanes have written, but for copies, to blocks that know of it."""
        by = self.writer[:]
        mine = (by >= 0) & np.isin(by // warps.threads, warps.block[who] + warps.first)
        if self.flight is not None:
            mine &= self.flight.arriving == 0
        self.shown = self.shown or Shown.of(self.data.size)
        plain = np.flatnonzero(mine & ~self.atomic)
        self.shown.show(plain, by[plain] // warps.threads, warps.fences)
        self.writer[np.flatnonzero(mine)] = _NOBODY

    def _check_shown(
        self, at: Lanes, block: Lanes, warps: Warps, verb: str, report: Report
    ) -> None:
        """Report elements that a block has fenced, where another does not know of that."""
        if self.shown is None:
            return
        if (lost := self.shown.unknown(at, block, warps.fences)).any():
            text = f"{self.kind} {self.name} is {verb} by a block that does not know of the fence"
            report("race", f"{text} after which it may be", int(lost.sum()))
        if verb == "written":
            self.shown.block[at] = _NOBODY

    def landed(self, at: Lanes, who: Lanes, warps: Warps) -> None:
        """Let elements hold what copies of some lanes wrote, as if those had written them now."""
        assert self.flight is not None
        np.subtract.at(self.flight.arriving, at, ONE)
        if self.tracked:
            mine = self.writer[at] == warps.lane[who]
            self.writer_epoch[at[mine]] = warps.epoch[warps.block[who[mine]]]

    def left(self, at: Lanes, who: Lanes, warps: Warps) -> None:
        """Let copies of some lanes have read elements, as if the lanes had read them now."""
        assert self.flight is not None
        np.subtract.at(self.flight.leaving, at, ONE)
        if self.tracked:
            lane, block = warps.lane[who], warps.block[who]
            self._remember_readers(at, lane, block + warps.first, warps.epoch[block], warps.cluster)

    def _remember_readers(
        self, at: Lanes, lane: Lanes, block: Lanes, epoch: Lanes, cluster: int
    ) -> None:
        """Note the reading lane and block, or that there are several.

        Reads of the same block before its last barrier are in order with what follows: forgotten.
        So are those of the same cluster before a barrier of that.
        """
        known, known_block, when = self.reader[at], self.reader_block[at], self.reader_epoch[at]
        if cluster > 1:
            here = (known_block >= 0) & (known_block // cluster == block // cluster)
            past = (here | (self.kind == "shared")) & (when >> _MEETING != epoch >> _MEETING)
            known, known_block = (np.where(past, _NOBODY, x) for x in (known, known_block))
        self.reader[at], self.reader_block[at] = lane, block
        blocks = (known_block != _NOBODY) & (known_block != block)
        blocks |= self.reader_block[at] != block
        lanes = (known != _NOBODY) & (known != lane) & (blocks | (when == epoch))
        lanes |= self.reader[at] != lane
        self.reader_block[at[blocks]] = _MANY
        self.reader[at[lanes]] = _MANY
        self.reader_epoch[at] = epoch

    def check_write(
        self, at: Lanes, warps: Warps, who: Lanes, report: Report, atomic: bool = False
    ) -> None:
        """Look for copies under way, for races with writers and readers; remember the writers."""
        if self.flight is not None:
            self.check_waited(self.flight, at, "written", report)
        if self.written is not None:
            self.written[at] = True
        if self.loose is not None:
            self.loose[at] = True
        if not self.tracked:
            return
        lane, block = warps.lane[who], warps.block[who]
        epoch = warps.epoch[block]
        writer = np.where(self.atomic[at], _NOBODY, self.writer[at]) if atomic else self.writer[at]
        self._conflict(writer, self.writer_epoch[at], lane, epoch, warps, "written", report)
        self._check_shown(at, block + warps.first, warps, "written", report)
        readers, reader_block = self.reader[at], self.reader_block[at]
        other = (readers != _NOBODY) & (readers != lane)
        when, mine = self.reader_epoch[at], block + warps.first
        clash = other & ((reader_block != mine) | (when == epoch))
        if warps.cluster > 1:
            here = (reader_block >= 0) & (reader_block // warps.cluster == mine // warps.cluster)
            clash &= ~(here | (self.kind == "shared")) | (when >> _MEETING == epoch >> _MEETING)
        if clash.any():
            text = f"{self.kind} {self.name} is written while another thread reads it"
            report("race", text, int(clash.sum()))
        self.writer[at] = lane
        self.writer_epoch[at] = epoch
        self.atomic[at] = atomic
        twice = self.writer[at] != lane
        if twice.any() and not atomic:
            text = f"{self.kind} {self.name} is written by two threads at once"
            report("race", text, int(twice.sum()))

    def _conflict(
        self,
        writer: Lanes,
        when: Lanes,
        lane: Lanes,
        epoch: Lanes,
        warps: Warps,
        verb: str,
        report: Report,
    ) -> None:
        other = (writer != _NOBODY) & (writer != lane)
        if not other.any():
            return
        clash = other & ~warps.ordered(writer, when, lane, epoch)
        if clash.any():
            text = f"{self.kind} {self.name} is {verb} while another thread writes it"
            report("race", text, int(clash.sum()))
