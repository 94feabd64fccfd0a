"""The static data of a search for placements: buffers in preorder, and their conflicts.

Sets of buffers are the bits of an int.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.memory.arena.problem import FREE, I64, Problem


@dataclass(frozen=True, slots=True, eq=False)
class SearchPart:
    """Buffers to place, and the sections (maximal sets alive together) they span.

    Section k holds ``entries[starts[k]:starts[k + 1]]``.
    """

    ids: I64
    entries: I64
    starts: I64
    sections: I64


@dataclass(frozen=True, slots=True, eq=False)
class SearchState:
    """A point of the search; its arrays are never modified."""

    least: I64  # offset that a buffer can have, NEVER once it is placed
    remaining: I64  # bytes yet to be placed, by section
    crossing: I64  # unplaced buffers in sections s and s + 1
    left: int  # set of unplaced buffers


@dataclass(frozen=True, slots=True, eq=False)
class SearchFrame:
    """A problem whose buffers are numbered in preorder, with their conflicts."""

    size: I64
    near: tuple[I64, ...]  # buffers alive with it
    near_set: tuple[int, ...]
    twins: tuple[tuple[int, ...], ...]  # with its very life, alignment and no fixed offset
    latest: I64  # highest offset that a buffer can have
    step: int  # all heights are rounded up to no more than a multiple of this
    alignment: I64 | None  # None: whatever lies on another is aligned
    first: list[int]  # section
    last: list[int]
    entries: I64
    starts: I64
    members: tuple[int, ...]  # set of each section
    begin: SearchState


def frame(p: Problem, capacity: int, preorder: I64) -> SearchFrame:
    """Number the buffers of a problem in preorder, and find their conflicts."""
    n = p.count
    q = p.pick(preorder)
    cuts = _section_times(q)
    first, last = np.searchsorted(cuts, q.lower, "left"), np.searchsorted(cuts, q.upper, "left")
    times = np.arange(len(cuts))
    inside = (first <= times[:, None]) & (last > times[:, None])
    where, entries = np.nonzero(inside)
    starts = np.searchsorted(where, times)
    meets = (q.lower < q.upper[:, None]) & (q.upper > q.lower[:, None])
    np.fill_diagonal(meets, val=False)
    largest = int(q.alignment.max())
    free = q.fixed == FREE
    aligned = bool((q.size % largest == 0).all() and (q.fixed[~free] % largest == 0).all())
    twin = meets & (first == first[:, None]) & (last == last[:, None]) & free & free[:, None]
    if not aligned:
        twin &= (q.alignment == q.alignment[:, None]) & (q.size == q.size[:, None])
    change = np.zeros(len(cuts) + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last - 1, -1)
    return SearchFrame(
        size=q.size,
        near=tuple(np.flatnonzero(row) for row in meets),
        near_set=tuple(map(bits_of, meets)),
        twins=tuple(tuple(np.flatnonzero(row).tolist()) for row in twin),
        latest=np.where(free, capacity - q.size, q.fixed),
        step=1 if aligned else largest,
        alignment=None if aligned else q.alignment,
        first=first.tolist(),
        last=last.tolist(),
        entries=entries,
        starts=starts,
        members=tuple(map(bits_of, inside)),
        begin=SearchState(
            np.where(free, 0, q.fixed),
            np.add.reduceat(q.size[entries], starts),
            np.cumsum(change)[:-1],
            (1 << n) - 1,
        ),
    )


def _section_times(p: Problem) -> I64:
    """Return a time in each maximal set of buffers alive together: the last start before an end."""
    starts, ends = np.unique(p.lower), np.unique(p.upper)
    after = np.searchsorted(starts, ends, "left")  # starts before each end
    return starts[np.unique(after) - 1]


def bits_of(which: NDArray[np.bool_]) -> int:
    """Return a set of buffers, given as flags, as the bits of an int."""
    return int.from_bytes(np.packbits(which, bitorder="little").tobytes(), "little")
