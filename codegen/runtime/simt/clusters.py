"""Blocks of a cluster whose groups of threads run in turn: their barrier, and who touches what.

Within a block, clocks of the warps put accesses in order; and boxes that another block fetches,
whose warps hear of each other at barriers in shared memory.  What threads access in another block
only a barrier of the whole cluster puts in order: two blocks that touch an element between the same
two of these barriers, one of them writing, race.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt.memory import Lanes, Warps

if TYPE_CHECKING:
    from didyma.codegen.runtime.simt.access import Mask, Run

BARRIER = -1  # by which number the barriers of some warps know that of a cluster
_NEVER = 1 << 40  # a barrier that no block passes


@dataclass(slots=True)
class Across:
    """Before which barrier of its cluster each element was last touched, counted from 1.

    By its own block or by others, each with what was read in row 0 and what was written in row 1.
    """

    size: int
    own: Lanes = field(init=False)
    other: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.own, self.other = (np.zeros((2, self.size), np.int64) for _ in range(2))

    def check(
        self, at: Lanes, own: NDArray[np.bool_], warps: Warps, who: Lanes, writes: bool
    ) -> int:
        """Note accesses, ``own`` of which are of a block's own elements; return how many race."""
        now = warps.met[warps.block[who]] + 1
        rows = (0, 1) if writes else (1,)
        late = np.zeros(at.size, np.bool_)
        for row in rows:
            late |= self.other[row, at] >= now
            late |= ~own & (self.own[row, at] >= now)
        self.own[int(writes), at[own]] = now[own]
        self.other[int(writes), at[~own]] = now[~own]
        return int(late.sum())

    def box(self, at: Lanes) -> None:
        """Note elements that a copy writes, for which no barrier of the cluster waits."""
        self.own[1, at] = _NEVER


def meet(r: Run, m: Mask, line: int) -> None:
    """Let all threads of a cluster wait for each other."""
    assert r.meets is not None, "no groups"
    assert r.turn is not None, "no groups"
    w, clocks = r.warps, r.meets.clocks
    b = r.meets.barrier(BARRIER)
    who = r.who(m)
    block = who // w.threads
    first = block // w.cluster * w.cluster
    leads = np.unique(first)
    fresh = leads[b.left[leads] == b.count[leads]]
    b.count[fresh] = b.left[fresh] = w.threads * w.cluster
    goal = b.phase[leads].copy()
    np.subtract.at(b.left, first, 1)
    clocks.release(who, b.heard)
    done = leads[b.left[leads] == 0]
    every = (done[:, None] + np.arange(w.cluster)).reshape(-1)
    heard = b.heard.reshape(-1, w.cluster, b.heard.shape[1])
    said = np.repeat(heard.max(1), w.cluster, axis=0)[every]
    b.known[every] = np.maximum(b.known[every], said)
    b.heard[every] = 0
    b.phase[done] += 1
    b.left[done] = b.count[done]
    w.meet(np.isin(np.arange(w.blocks), every))
    text = "they wait at the barrier of a cluster for what never comes"
    r.turn.wait(
        lambda: bool((b.phase[leads] > goal).all()), lambda: r.report("hang", text, who.size, line)
    )
    clocks.acquire(who, b.known)
