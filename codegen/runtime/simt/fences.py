"""What a block knows of others' fences: which writes to global memory it may touch.

A fence shows what its block has written, and what it knows that others have, to who knows of what
the block does next.  That is an atomic update of an element here, of which who reads the element by
an atomic update knows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Lanes: TypeAlias = NDArray[Any]
Known: TypeAlias = dict[int, int]  # by the number of a block, how many of its fences


@dataclass(slots=True)
class Fences:
    """The fences that each block of a launch ``knows``, its own among them.

    ``shown`` is what it knew at its last one, and ``updates`` what updates of an element have told,
    by array and place.
    """

    knows: defaultdict[int, Known] = field(default_factory=lambda: defaultdict(dict))
    shown: dict[int, Known] = field(default_factory=dict[int, Known])
    updates: dict[tuple[str, int], Known] = field(default_factory=dict[tuple[str, int], Known])

    def count(self, blocks: Lanes) -> None:
        """Let blocks have passed one more fence."""
        for block in blocks.tolist():
            own = self.knows[block]
            own[block] = own.get(block, 0) + 1
            self.shown[block] = dict(own)

    def update(self, array: str, at: Lanes, blocks: Lanes, *, reads: bool) -> None:
        """Let blocks update elements one after another, each of which may read what was there."""
        for place, block in zip(at.tolist() if self.shown else (), blocks.tolist(), strict=False):
            element = self.updates.setdefault((array, place), {})
            if reads:
                _learn(self.knows[block], element)
            _learn(element, self.shown.get(block, {}))


def _learn(known: Known, more: Known) -> None:
    for block, count in more.items():
        known[block] = max(count, known.get(block, 0))


@dataclass(slots=True)
class Shown:
    """For each element of an array the block that has shown it, or -1, and at which fence."""

    block: Lanes
    fence: Lanes

    @staticmethod
    def of(size: int) -> Shown:
        """Return that no element is shown yet."""
        return Shown(np.full(size, -1), np.zeros(size, np.int64))

    def show(self, at: Lanes, blocks: Lanes, fences: Fences) -> None:
        """Show elements that blocks have written, at the last fence of each."""
        self.block[at] = blocks
        for block in np.unique(blocks).tolist():
            self.fence[at[blocks == block]] = fences.shown[block][block]

    def unknown(self, at: Lanes, blocks: Lanes, fences: Fences) -> NDArray[np.bool_]:
        """Return which elements others have shown in a way that blocks do not know of."""
        by, fence = self.block[at], self.fence[at]
        lost: NDArray[np.bool_] = (by >= 0) & (by != blocks)
        for one, other in np.unique(np.stack([by[lost], blocks[lost]], 1), axis=0).tolist():
            these = (by == one) & (blocks == other)
            lost[these] = fence[these] > fences.knows[other].get(one, 0)
        return lost
