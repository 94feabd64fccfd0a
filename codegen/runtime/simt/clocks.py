"""What warps of a block know of each other, where they meet at more than barriers of the block.

Each warp counts what it has released: by an arrival at a barrier in shared memory, or at a barrier
of some warps.  Who waits there learns how far those who arrived had come, and all that they knew.
So one access comes before another if the warp of the second knows that the first has happened:
vector clocks, as of Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection"
(PLDI 2009).  Copies of boxes are known by the phase of the barrier that they come to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt.clusters import Across
from didyma.codegen.runtime.simt.memory import ONE, LaneArray, Lanes, Report, Warps
from didyma.refimpl.ir.target import PORTABLE

BARRIERS = 64  # in the shared memory of a block
_NOBODY, _MANY, _BOX = -1, -2, -3  # a writer is a lane; one below _BOX is a barrier


@dataclass(slots=True)
class Clocks:
    """How far each warp knows the warps of its cluster to have come, and the barriers.

    ``now`` is (blocks, warps, warps and barriers), the last those of all blocks of the cluster.
    ``boxes`` names the copy that last began to come to each barrier.
    """

    blocks: int
    threads: int
    cluster: int = 1
    now: Lanes = field(init=False)
    boxes: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        known = self.cluster * (self.warps + BARRIERS)
        self.now = np.zeros((self.blocks, self.warps, known), np.int64)
        for block in range(self.blocks):
            own = self.first(np.asarray(block)) + np.arange(self.warps)
            self.now[block, range(self.warps), own] = 1

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // PORTABLE.warp)

    def place(self, who: Lanes) -> tuple[Lanes, Lanes]:
        """Return the blocks and the warps of lanes."""
        return who // self.threads, who % self.threads // PORTABLE.warp

    def first(self, block: Lanes) -> Lanes:
        """Return the place among what is known of the first warp of blocks."""
        found: Lanes = block % self.cluster * self.warps
        return found

    def barrier(self, block: Lanes, number: Lanes | int) -> Lanes:
        """Return the place among what is known of a barrier in the shared memory of blocks."""
        found: Lanes = self.cluster * self.warps + block % self.cluster * BARRIERS + number
        return found

    def own(self, who: Lanes) -> Lanes:
        """Return how far the warps of lanes have come themselves."""
        block, warp = self.place(who)
        found: Lanes = self.now[block, warp, self.first(block) + warp]
        return found

    def release(self, who: Lanes, heard: Lanes, where: Lanes | None = None) -> None:
        """Let ``heard`` (blocks, all) learn what the warps of lanes know, which go on.

        It is that of their own blocks, or that of a block for each lane.
        """
        block, warp = self.place(who)
        to, block, warp = _once(block if where is None else where, block, warp)
        np.maximum.at(heard, to, self.now[block, warp])
        self.now[block, warp, self.first(block) + warp] += 1

    def acquire(self, who: Lanes, known: Lanes) -> None:
        """Let the warps of lanes learn what is ``known`` (blocks, all)."""
        block, warp = _once(*self.place(who))
        self.now[block, warp] = np.maximum(self.now[block, warp], known[block])


def _once(*columns: Lanes) -> Lanes:
    """Return the rows of a table that differ, as columns."""
    once: Lanes = np.unique(np.stack(columns, 1), axis=0).T
    return once


@dataclass(slots=True)
class ClockArray(LaneArray):
    """A shared array whose accesses are in order where ``clocks`` say so.

    ``seen`` and ``reader_lane`` tell when each warp last read each element, and which lane of it.
    """

    clocks: Clocks = field(default_factory=lambda: Clocks(0, 1))
    seen: Lanes = field(init=False)
    reader_lane: Lanes = field(init=False)
    across: Across = field(init=False)

    def __post_init__(self) -> None:
        LaneArray.__post_init__(self)
        self.across = Across(self.data.size if self.clocks.cluster > 1 else 0)
        shape = (self.data.size, self.clocks.warps)
        self.seen = np.zeros(shape, np.int32)
        self.reader_lane = np.full(shape, _NOBODY, np.int32)

    def check_read(self, at: Lanes, warps: Warps, who: Lanes, report: Report) -> None:
        """Look for uninitialised, unwaited and racing reads, then remember the readers."""
        self.check_there(at, "read", report)
        at, who = self._own(at, warps, who, "read", report)
        self._after_writer(at, who, "read", report)
        self._remember(at, who)

    def check_write(
        self, at: Lanes, warps: Warps, who: Lanes, report: Report, atomic: bool = False
    ) -> None:
        """Look for copies under way, for races with writers and readers; remember the writers."""
        if self.written is not None:
            self.written[at] = True
        at, who = self._own(at, warps, who, "written", report)
        self._check_free(at, who, report, atomic)
        if self.loose is not None:
            self.loose[at] = True
        self.writer[at] = who
        self.writer_epoch[at] = self.clocks.own(who)
        self.atomic[at] = atomic
        if not atomic and (twice := self.writer[at] != who).any():
            text = f"{self.kind} {self.name} is written by two threads at once"
            report("race", text, int(twice.sum()))

    def check_box(self, at: Lanes, who: Lanes, barrier: int, phase: Lanes, report: Report) -> None:
        """Likewise, where a copy writes that lanes have started, and that comes to a barrier."""
        if self.clocks.cluster > 1:
            self.across.box(at)
        self._check_free(at, who, report, atomic=False)
        if self.loose is not None:
            self.loose[at] = False
        self.writer[at] = _BOX - barrier
        self.writer_epoch[at] = phase
        self.atomic[at] = False

    def fence(self, who: Lanes, warps: Warps) -> None:
        """Let products see what lanes have written, but for what copies have yet to write."""
        assert self.loose is not None, "nothing has to be fenced"
        active = np.zeros(warps.size + 1, np.bool_)
        active[who] = True
        mine = active[np.maximum(self.writer[:], -1)]
        self.loose &= ~mine if self.flight is None else ~mine | (self.flight.arriving > 0)

    def landed(self, at: Lanes, who: Lanes, warps: Warps) -> None:
        """Let elements hold what copies of some lanes wrote, as if those had written them now."""
        assert self.flight is not None
        np.subtract.at(self.flight.arriving, at, ONE)
        mine = self.writer[at] == who
        self.writer_epoch[at[mine]] = self.clocks.own(who[mine])

    def left(self, at: Lanes, who: Lanes, warps: Warps) -> None:
        """Let copies of some lanes have read elements, as if the lanes had read them now."""
        assert self.flight is not None
        np.subtract.at(self.flight.leaving, at, ONE)
        self._remember(at, who)

    def _own(
        self, at: Lanes, warps: Warps, who: Lanes, verb: str, report: Report
    ) -> tuple[Lanes, Lanes]:
        """Return the accesses that are of a block's own elements; report races between blocks."""
        if warps.cluster == 1:
            return at, who
        own: NDArray[np.bool_] = at // self.count == warps.block[who]
        if late := self.across.check(at, own, warps, who, verb == "written"):
            what = f"{self.kind} {self.name} is {verb}"
            report("race", f"{what} while another block of the cluster touches it", late)
        return at[own], who[own]

    def _check_free(self, at: Lanes, who: Lanes, report: Report, atomic: bool) -> None:
        """Report elements that somebody may still write or read, and mark them as written."""
        if self.flight is not None:
            self.check_waited(self.flight, at, "written", report)
        if self.written is not None:
            self.written[at] = True
        self._after_writer(at, who, "written", report, atomic)
        block, warp = self.clocks.place(who)
        late = self.seen[at] > self._known_warps(at, block, warp)
        mine = self.reader_lane[at, warp]
        same = (mine != _NOBODY) & (mine != who) & (self.seen[at, warp] == self.clocks.own(who))
        same &= self._rank(at) == block % self.clocks.cluster
        if (clash := late.any(1) | same).any():
            text = f"{self.kind} {self.name} is written while another thread reads it"
            report("race", text, int(clash.sum()))

    def _rank(self, at: Lanes) -> Lanes:
        """Return the ranks of the blocks that have elements in their shared memory."""
        cluster = self.clocks.cluster
        rank: Lanes = at // self.count % cluster if cluster > 1 else np.zeros(1, np.int64)
        return rank

    def _known_warps(self, at: Lanes, block: Lanes, warp: Lanes) -> Lanes:
        """Return how far warps know those of the blocks to have come that have elements."""
        now, n = self.clocks.now, self.clocks.warps
        if self.clocks.cluster == 1:
            return np.asarray(now[block, warp, :n])
        of = self.clocks.first(self._rank(at))[:, None] + np.arange(n)
        return np.asarray(now[block[:, None], warp[:, None], of])

    def _after_writer(
        self, at: Lanes, who: Lanes, verb: str, report: Report, atomic: bool = False
    ) -> None:
        writer, when = self.writer[at], self.writer_epoch[at]
        if atomic:
            writer = np.where(self.atomic[at], _NOBODY, writer)
        block, warp = self.clocks.place(who)
        box, rank = writer <= _BOX, self._rank(at)
        other = self.clocks.first(rank) + self.clocks.place(np.maximum(writer, 0))[1]
        agent = np.where(box, self.clocks.barrier(rank, _BOX - writer), other)
        known = self.clocks.now[block, warp, agent]
        fine = (writer == _NOBODY) | (writer == who)
        own = other == self.clocks.first(block) + warp
        fine |= np.where(~box & own, known > when, known >= when)
        if (lost := box & ~fine).any():
            i, name = int(at[lost][0]) % self.count, self.clocks.boxes[_BOX - int(writer[lost][0])]
            text = f"{self.kind} {self.name}[{i}] is {verb} before a wait for {name}"
            report("unwaited", f"{text}, which writes it", int(lost.sum()))
        if (lost := ~box & ~fine).any():
            text = f"{self.kind} {self.name} is {verb} while another thread writes it"
            report("race", text, int(lost.sum()))

    def _remember(self, at: Lanes, who: Lanes) -> None:
        _, warp = self.clocks.place(who)
        now = self.clocks.own(who)
        lane, when = self.reader_lane[at, warp], self.seen[at, warp]
        self.reader_lane[at, warp] = who
        many: NDArray[np.bool_] = (lane != _NOBODY) & (lane != who) & (when == now)
        many |= self.reader_lane[at, warp] != who
        self.reader_lane[at[many], warp[many]] = _MANY
        self.seen[at, warp] = now
