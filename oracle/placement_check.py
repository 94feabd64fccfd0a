"""Judge a placement in one arena: no two buffers alive together may share a byte.

A sweep over time keeps the buffers that are alive, in order of address; a buffer that comes must
end below its upper neighbour and start above its lower one, which is enough while all the others
are disjoint.  Shares nothing with any planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WORD = 512  # buffers to a word of the set; any value is right


@dataclass(frozen=True, slots=True)
class PlacementError:
    """A fault; ``kind`` is one of ``overlap``, ``negative``, ``alignment``, ``moved``,
    ``capacity``, ``peak``, ``count``; ``buffers`` are indices.
    """

    kind: str
    buffers: tuple[int, ...]
    message: str


class _Ranks:
    """A set of small integers, kept as bits, that finds the neighbours of an integer."""

    def __init__(self, count: int) -> None:
        self.words = [0] * (count // WORD + 1)
        self.index = 0  # of the words that are not empty

    def add(self, r: int) -> None:
        self.words[r // WORD] |= 1 << r % WORD
        self.index |= 1 << r // WORD

    def remove(self, r: int) -> None:
        word = self.words[r // WORD] & ~(1 << r % WORD)
        self.words[r // WORD] = word
        if not word:
            self.index &= ~(1 << r // WORD)

    def below(self, r: int) -> int:
        """The greatest member less than r, or -1."""
        k = r // WORD
        word = self.words[k] & ((1 << r % WORD) - 1)
        if not word:
            k = (self.index & ((1 << k) - 1)).bit_length() - 1
            if k < 0:
                return -1
            word = self.words[k]
        return k * WORD + word.bit_length() - 1

    def above(self, r: int) -> int:
        """The least member greater than r, or -1."""
        k = r // WORD
        bit = r % WORD + 1
        word = self.words[k] >> bit << bit
        if not word:
            rest = self.index >> (k + 1)
            if not rest:
                return -1
            k += (rest & -rest).bit_length()
            word = self.words[k]
        return k * WORD + (word & -word).bit_length() - 1


def check(
    lower: Sequence[int],
    upper: Sequence[int],
    size: Sequence[int],
    offsets: Sequence[int],
    *,
    alignment: Sequence[int] = (),
    fixed: Sequence[int] = (),
    capacity: int | None = None,
    peak: int | None = None,
) -> list[PlacementError]:
    """Return the errors of the offsets of buffers alive in [lower, upper); empty when sound.

    ``alignment`` and ``fixed`` (-1: not fixed) have an entry a buffer or none; ``peak`` is the
    peak that the planner states.  A buffer that is placed onto several others is reported once.
    """
    n = len(size)
    if not len(lower) == len(upper) == len(offsets) == n:
        return [PlacementError("count", (), f"{len(offsets)} offsets for {n} buffers")]
    errors: list[PlacementError] = []
    for i in range(n):
        if offsets[i] < 0:
            errors.append(PlacementError("negative", (i,), f"{i} is at {offsets[i]}"))
        if alignment and offsets[i] % alignment[i]:
            text = f"{i} is at {offsets[i]}, no multiple of {alignment[i]}"
            errors.append(PlacementError("alignment", (i,), text))
        if fixed and fixed[i] >= 0 and offsets[i] != fixed[i]:
            text = f"{i} is at {offsets[i]}, but fixed to {fixed[i]}"
            errors.append(PlacementError("moved", (i,), text))
    used = [i for i in range(n) if size[i] > 0 and lower[i] < upper[i]]
    top = max((offsets[i] + size[i] for i in used), default=0)
    if peak is not None and peak != top:
        errors.append(PlacementError("peak", (), f"the peak is {top}, not {peak}"))
    if capacity is not None and top > capacity:
        errors.append(PlacementError("capacity", (), f"the peak is {top} of {capacity}"))
    return errors + _overlaps(lower, upper, size, offsets, used)


def most_alive(lower: Sequence[int], upper: Sequence[int], size: Sequence[int]) -> int:
    """Return the most bytes alive at one time, which every placement needs."""
    change: dict[int, int] = {}
    for a, b, n in zip(lower, upper, size, strict=True):
        if a < b:
            change[a] = change.get(a, 0) + n
            change[b] = change.get(b, 0) - n
    now = most = 0
    for time in sorted(change):
        now += change[time]
        most = max(most, now)
    return most


def _overlaps(
    lower: Sequence[int],
    upper: Sequence[int],
    size: Sequence[int],
    offsets: Sequence[int],
    used: Sequence[int],
) -> list[PlacementError]:
    by_address = sorted(used, key=offsets.__getitem__)
    rank = {i: r for r, i in enumerate(by_address)}
    # At one time the dead go before the new come.
    events = sorted([(upper[i], 0, i) for i in used] + [(lower[i], 1, i) for i in used])
    alive = _Ranks(len(used))
    refused: set[int] = set()
    errors: list[PlacementError] = []
    for time, comes, i in events:
        r = rank[i]
        if not comes:
            if i not in refused:
                alive.remove(r)
            continue
        start, end = offsets[i], offsets[i] + size[i]
        below, above = alive.below(r), alive.above(r)
        j = -1
        if below >= 0 and offsets[by_address[below]] + size[by_address[below]] > start:
            j = by_address[below]
        elif above >= 0 and offsets[by_address[above]] < end:
            j = by_address[above]
        if j >= 0:
            text = f"at time {time}: {i} has [{start}, {end}), {j} has " + (
                f"[{offsets[j]}, {offsets[j] + size[j]})"
            )
            errors.append(PlacementError("overlap", (i, j), text))
            refused.add(i)
        else:
            alive.add(r)
    return errors
