"""Which lanes may touch an element without being ordered: the race check of loop programs.

A lane is a point in the space of the enclosing parallel, vectorised and bound loops, outermost
first.  An event of *level* p orders all lanes that agree on the first p axes: a barrier has the
number of block axes as its level, the start and the end of a loop its depth.  Two accesses by
lanes that first differ at axis p are unordered exactly if no event of level p or less came
between them, so it is enough to count, for each p, the events of level at most p: the *stamp*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.ir.loop import Stmt
from didyma.refimpl.ir.types import Array

Mask: TypeAlias = Array | None  # which lanes are active; None is all
Stamp: TypeAlias = tuple[Any, ...]  # of ints, or arrays over blocks where a barrier left some out
# Elements of a copy, bytes of one, bytes between copies.
CopyLayout: TypeAlias = tuple[int, int, int]
AccessKind: TypeAlias = Literal["read", "write", "atomic"]

LOG_LIMIT = 1 << 23  # elements kept before a log is checked and forgotten


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """One access in the text of a program, unequal to every other; ``stmt`` is its statement."""

    stmt: Stmt


class Lanes:
    """The lanes that run now: the size of each axis (1 where its loop is not entered)."""

    __slots__ = ("shape", "stamp")

    def __init__(self, depth: int) -> None:
        self.shape: tuple[int, ...] = (1,) * depth
        self.stamp: Stamp = (0,) * depth

    def resize(self, axis: int, size: int) -> None:
        """Give an axis its size."""
        self.shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])

    def order(self, level: int, active: Array | int = 1) -> None:
        """Advance the clocks from a level on; ``active`` says, over the blocks, which take part."""
        s = self.stamp
        self.stamp = (*s[:level], *(t + active for t in s[level:]))

    def meet(self) -> None:
        """Set all clocks to the latest, at the end of a nest, whose blocks may differ in them.

        Another nest may have another number of blocks.
        """
        self.stamp = tuple(int(np.max(t)) for t in self.stamp)


@dataclass(frozen=True, eq=False)
class LaneAccess:
    """A touch of a buffer by all active lanes; ``at`` broadcasts to ``shape``."""

    kind: AccessKind
    at: Array
    shape: tuple[int, ...]
    mask: Mask
    stamp: Stamp
    origin: Origin

    def repeats(self, at: Array, mask: Mask, stamp: Stamp) -> bool:
        """Return whether a later touch of the same origin is this one again."""
        return self.at is at and self.mask is mask and self.stamp is stamp

    def in_bytes(self, layout: CopyLayout) -> LaneAccess:
        """Return the same touch counted in bytes, along one more axis."""
        numel, width, stride = layout
        copy, element = np.divmod(self.at, numel)
        at = (copy * stride + element * width)[..., None] + np.arange(width)
        mask = None if self.mask is None else self.mask[..., None]
        shape = (*self.shape, width)
        stamp = tuple(t if isinstance(t, int) else t[..., None] for t in self.stamp)
        return LaneAccess(self.kind, at, shape, mask, stamp, self.origin)

    @cached_property
    def touched(self) -> tuple[Array, Array]:
        """Element and lane of each active lane's touch."""
        at = np.broadcast_to(self.at, self.shape).reshape(-1)
        if self.mask is None:
            return at, np.arange(at.size)
        lanes = np.flatnonzero(np.broadcast_to(self.mask, self.shape))
        return at[lanes], lanes

    def flat(self, prefix: int) -> tuple[Array, Array]:
        """Element and lane (by its first ``prefix`` axes) of each active lane's touch."""
        at, lanes = self.touched
        inner = math.prod(self.shape[prefix:])
        return at, lanes if inner == 1 else lanes // inner


class Log:
    """Accesses to one buffer that are not yet known to be harmless.

    A log that grows past ``LOG_LIMIT`` is checked and begun anew, so a race between an access
    before and one after that point is missed.
    """

    __slots__ = ("accesses", "elements", "latest", "layout", "name", "numel")

    def __init__(
        self,
        name: str,
        numel: int,
        layout: CopyLayout | None = None,
        accesses: Sequence[LaneAccess] = (),
    ) -> None:
        self.name = name
        self.numel = numel
        self.layout = layout  # of the buffer, if accesses are kept in bytes
        self.accesses = list(accesses)
        self.latest: dict[Origin, LaneAccess] = {}
        self.elements = 0

    def record(self, kind: AccessKind, at: Any, lanes: Lanes, mask: Mask, origin: Origin) -> None:
        """Note an access, unless it repeats the latest one, as in a loop over another axis."""
        latest = self.latest.get(origin)
        if latest is not None and latest.repeats(at, mask, lanes.stamp):
            return
        access = LaneAccess(kind, at, lanes.shape, mask, lanes.stamp, origin)
        self.latest[origin] = access
        self.accesses.append(access if self.layout is None else access.in_bytes(self.layout))
        self.elements += at.size
        if self.elements > LOG_LIMIT:
            self.settle()

    def passed_on(self, layout: CopyLayout, name: str, heir: CopyLayout) -> Log:
        """Return the log of another buffer on the same bytes, of these accesses in bytes.

        ``layout`` is this buffer's, ``heir`` the other's.
        """
        if self.layout is not None:
            return Log(name, self.numel, heir, self.accesses)
        return Log(name, self.numel * layout[1], heir, [a.in_bytes(layout) for a in self.accesses])

    def settle(self) -> None:
        """Raise LoopFault ``race`` if two recorded accesses race, else forget them."""
        accesses = list(self.accesses)
        self.accesses.clear()
        self.latest.clear()
        self.elements = 0
        if not _may_race(accesses):
            return
        finer = -1
        for p in range(len(accesses[0].stamp) - 1, -1, -1):
            groups = _intervals(accesses, p)
            if len(groups) == finer:  # the same intervals as with finer lanes: checked already
                continue
            finer = len(groups) if _counted_alike(accesses, p) else -1
            for group in groups:
                if _may_race(group):
                    self._check(group, p)

    def _check(self, group: Sequence[LaneAccess], p: int) -> None:
        """Raise if an element written in an interval was touched by two lanes."""
        touched = [a.flat(p + 1) for a in group]
        if not _counted_alike(
            group, p
        ):  # blocks counted different events: keep their intervals apart by address
            low = min(int(np.min(a.stamp[p])) for a in group)
            touched = [
                (at + self.numel * _per_lane(a, a.stamp[p] - low), lane)
                for a, (at, lane) in zip(group, touched, strict=True)
            ]
        size = max(int(at.max(initial=0)) for at, _ in touched) + 1
        owner = np.empty(size, np.int64)
        for at, lane in touched:
            owner[at] = lane
        shared = [at[owner[at] != lane] for at, lane in touched]
        elements = np.concatenate(shared)
        if not elements.size:
            return
        marks = {kind: np.zeros(size, bool) for kind in ("read", "write", "atomic")}
        for a, (at, _) in zip(group, touched, strict=True):
            marks[a.kind][at] = True
        racing = marks["write"] | (marks["atomic"] & marks["read"])
        bad = elements[racing[elements]]
        if bad.size:
            self._raise(int(bad[0]), group, touched)

    def _raise(
        self, element: int, group: Sequence[LaneAccess], touched: Sequence[tuple[Array, Array]]
    ) -> None:
        who: list[str] = []
        stmt = group[0].origin.stmt
        for a, (at, lane) in zip(group, touched, strict=True):
            lanes = lane[at == element]
            if lanes.size:
                stmt = a.origin.stmt if a.kind != "read" or not who else stmt
                who.append(f"{a.kind} by {', '.join(str(i) for i in lanes[:3])}")
        where = f"{self.name}, element {element % self.numel}"
        raise stmt_fault("race", stmt, f"{where}: lanes that nothing orders: {'; '.join(who)}")


def _may_race(accesses: Sequence[LaneAccess]) -> bool:
    kinds = {a.kind for a in accesses}
    return "write" in kinds or {"atomic", "read"} <= kinds


def _counted_alike(accesses: Sequence[LaneAccess], p: int) -> bool:
    return all(isinstance(a.stamp[p], int) for a in accesses)


def _per_lane(a: LaneAccess, ticks: Any) -> Array:
    full = np.broadcast_to(np.asarray(ticks), a.shape)
    return full.reshape(-1) if a.mask is None else full[np.broadcast_to(a.mask, a.shape)]


def _intervals(accesses: Sequence[LaneAccess], p: int) -> list[list[LaneAccess]]:
    """Group accesses between which no event of level p or less came."""
    if not _counted_alike(accesses, p):
        return [list(accesses)]
    groups: dict[int, list[LaneAccess]] = {}
    for a in accesses:
        groups.setdefault(a.stamp[p], []).append(a)
    return list(groups.values())
