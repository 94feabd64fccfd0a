"""The problem of placing buffers in one arena, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from didyma.refimpl.errors import DidymaError

I64: TypeAlias = NDArray[np.int64]

FREE = -1  # in ``Problem.fixed``: the planner may choose
LIMIT = 1 << 56  # bytes; sums of what is smaller cannot wrap within an int64


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Buffers to place in one arena; arrays have one entry per buffer.

    A buffer is alive at the times of ``[lower, upper)`` and takes ``size`` bytes at a multiple of
    ``alignment``; ``fixed`` is the offset it must have, or ``FREE``.  Buffers without bytes or
    without a life take part in nothing.  ``capacity`` is what the arena may hold, if it is bounded.
    """

    names: tuple[str, ...]
    lower: I64
    upper: I64
    size: I64
    alignment: I64
    fixed: I64
    capacity: int | None = None

    @property
    def count(self) -> int:
        """Return the number of buffers."""
        return len(self.size)

    def pick(self, which: I64) -> Problem:
        """Return the buffers of these indices, in their order."""
        indices: list[int] = which.tolist()
        return Problem(
            tuple(self.names[i] for i in indices),
            self.lower[which],
            self.upper[which],
            self.size[which],
            self.alignment[which],
            self.fixed[which],
            self.capacity,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """An offset for every buffer, and the end of the highest."""

    offsets: I64
    peak: int


def problem(
    lower: ArrayLike,
    upper: ArrayLike,
    size: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    alignment: ArrayLike = 1,
    fixed: ArrayLike = FREE,
    capacity: int | None = None,
) -> Problem:
    """Return a problem; ``alignment`` and ``fixed`` may be one number for all buffers.

    DidymaError: ``bad-life``, ``bad-size``, ``bad-alignment``, ``bad-offset``, ``bad-capacity``,
    ``duplicate-buffer``, ``fixed-overlap``.

    >>> p = problem([0, 1], [2, 3], [8, 4])
    >>> p.count, lower_bound(p)
    (2, 12)
    """
    low, high, bytes_ = (np.array(x, np.int64).reshape(-1) for x in (lower, upper, size))
    n = len(bytes_)
    p = Problem(
        tuple(names) if names is not None else tuple(map(str, range(n))),
        low,
        high,
        bytes_,
        np.broadcast_to(np.asarray(alignment, np.int64), (n,)).copy(),
        np.broadcast_to(np.asarray(fixed, np.int64), (n,)).copy(),
        capacity,
    )
    for a in (p.lower, p.upper, p.size, p.alignment, p.fixed):
        a.flags.writeable = False
    validate(p)
    return p


def validate(p: Problem) -> None:
    """Raise a DidymaError for the first invalid buffer."""
    _names(p)
    _no(p, p.upper < p.lower, "bad-life", p.upper - p.lower, "a life that ends after it begins")
    _no(p, p.size < 0, "bad-size", p.size, "no fewer than 0 bytes")
    _no(p, p.size > LIMIT, "bad-size", p.size, f"at most {LIMIT} bytes")
    power = (p.alignment > 0) & (p.alignment & (p.alignment - 1) == 0) & (p.alignment <= 1 << 30)
    _no(p, ~power, "bad-alignment", p.alignment, f"a power of two up to {1 << 30}")
    _no(p, (p.fixed < FREE) | (p.fixed > LIMIT), "bad-offset", p.fixed, f"from 0 to {LIMIT}")
    off = (p.fixed != FREE) & (p.fixed & (p.alignment - 1) != 0)
    _no(p, off, "bad-offset", p.fixed, "a multiple of the buffer's alignment")
    total = int(p.size.astype(np.float64).sum())
    if total + int(p.alignment.sum()) > LIMIT:
        raise DidymaError(
            "bad-size", "the sum of all sizes", got=str(total), want=f"at most {LIMIT}"
        )
    if p.capacity is not None and p.capacity < 0:
        raise DidymaError("bad-capacity", "capacity", got=str(p.capacity), want="0 or more")
    _fixed(p)


def _names(p: Problem) -> None:
    if len(set(p.names)) == p.count == len(p.names):
        return
    assert len(p.names) == p.count, "a name for each buffer"
    seen: set[str] = set()
    for name in p.names:
        if name in seen:
            raise DidymaError("duplicate-buffer", name, got="the name twice", want="one buffer")
        seen.add(name)


def _no(p: Problem, bad: NDArray[np.bool_], code: str, got: I64, want: str) -> None:
    if bad.any():
        i = int(bad.argmax())
        raise DidymaError(code, p.names[i], got=str(got[i]), want=want)


def _fixed(p: Problem) -> None:
    """Raise ``fixed-overlap`` if two buffers alive together are fixed to the same byte."""
    which = np.flatnonzero((p.fixed != FREE) & (p.size > 0) & (p.upper > p.lower))
    if not len(which):
        return
    by_offset = which[np.argsort(p.fixed[which], kind="stable")]
    start, end = p.fixed[by_offset], p.fixed[by_offset] + p.size[by_offset]
    indices: list[int] = by_offset.tolist()
    for k, i in enumerate(indices):
        near = by_offset[k + 1 : np.searchsorted(start, end[k])]
        clash = near[(p.lower[near] < p.upper[i]) & (p.upper[near] > p.lower[i])]
        if len(clash):
            j = int(clash[0])
            raise DidymaError(
                "fixed-overlap",
                p.names[j],
                got=f"offsets {p.fixed[i]} and {p.fixed[j]} for {p.names[i]} and {p.names[j]}, "
                "which are alive together",
                want="fixed offsets that can hold at once",
            )


def loads(p: Problem) -> tuple[I64, I64]:
    """Return the times at which the bytes alive change, and the bytes alive from each on."""
    times, at = np.unique(np.concatenate([p.lower, p.upper]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    alive = np.where(p.upper > p.lower, p.size, 0)
    np.add.at(change, at, np.concatenate([alive, -alive]))
    return times, np.cumsum(change)


def lower_bound(p: Problem) -> int:
    """Return a lower bound of any peak: the most bytes alive at once, or the highest fixed end."""
    if not p.count:
        return 0
    used = (p.size > 0) & (p.upper > p.lower) & (p.fixed != FREE)
    return max(int(loads(p)[1].max()), int((p.fixed + p.size)[used].max(initial=0)))


TIMES = 64  # looked at one by one for what alignment costs


def tight_bound(p: Problem) -> int:
    """Return a lower bound of any peak that counts the padding between aligned buffers.

    All offsets are multiples of the least alignment, so that of the buffers alive at once only
    the uppermost can do without its padding.
    """
    bound = lower_bound(p)
    unit = int(p.alignment.min(initial=1 << 30))
    if not p.count or unit == 1:
        return bound
    alive = p.upper > p.lower
    size = np.where(alive, -(-p.size // unit) * unit, 0)
    pad = np.where(alive, size - p.size, 0)
    times, at = np.unique(np.concatenate([p.lower, p.upper]), return_inverse=True)
    load = np.cumsum(np.bincount(at, np.concatenate([size, -size]), len(times))).astype(np.int64)
    for t in np.argsort(-load, kind="stable")[:TIMES].tolist():
        if load[t] <= bound:
            break
        here = (p.lower <= times[t]) & (p.upper > times[t])
        bound = max(bound, int(load[t]) - int(pad[here].max(initial=0)))
    return bound


def require_capacity(p: Problem) -> None:
    """DidymaError ``over-capacity`` if the bound alone is above the capacity; says when, and what
    is alive then.
    """
    if p.capacity is None or (bound := lower_bound(p)) <= p.capacity:
        return
    times, load = loads(p)
    at = int(times[int(load.argmax())])
    live = np.flatnonzero((p.lower <= at) & (p.upper > at) & (p.size > 0))
    live = live[np.argsort(-p.size[live], kind="stable")]
    listed = ", ".join(f"{p.names[i]} ({p.size[i]})" for i in live[:8].tolist())
    more = f" and {len(live) - 8} more" if len(live) > 8 else ""
    raise DidymaError(
        "over-capacity",
        f"time {at}",
        got=f"{load.max()} bytes alive at once: {listed}{more}"
        if load.max() == bound
        else f"a buffer fixed to end at {bound}",
        want=f"a capacity of at least {bound}, not {p.capacity}",
    )


def placement(p: Problem, offsets: I64) -> Placement:
    """Return the placement of these offsets."""
    used = (p.size > 0) & (p.upper > p.lower)
    return Placement(offsets, int((offsets + p.size)[used].max(initial=0)))
