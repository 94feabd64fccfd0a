"""What running kernel text shares: variables, the active lanes, and access to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt import clusters
from didyma.codegen.runtime.simt.copies import KINDS, Copies, Moved, Place, zeros_like
from didyma.codegen.runtime.simt.meets import Box, Meets, whole
from didyma.codegen.runtime.simt.memory import LaneArray, Lanes, Report, Warps
from didyma.codegen.runtime.simt.turns import Turn
from didyma.refimpl.interp import scalar, scalar_ring
from didyma.refimpl.ir.loop import AtomicOp
from didyma.refimpl.ir.target import PORTABLE

Mask: TypeAlias = NDArray[np.bool_] | None  # None: every lane is active
Value: TypeAlias = Any  # an array of lanes, a NumPy scalar where uniform, a dict for a struct
MOST_ROUNDS = 1 << 24  # of one loop
SECTOR = 32  # bytes that memory gives and takes at once


@dataclass(slots=True)
class Traffic:
    """What threads have done: accesses to global memory, and statements.

    ``read`` and ``written`` are bytes by kernel and parameter: an element that is loaded twice
    counts twice; an atomic update is a load and a store.  ``accesses`` counts the loads and stores
    of threads, one for each wide one, and ``sectors`` the pieces of 32 bytes that these touch, once
    for each warp that executes them.  ``statements`` counts those that threads execute, by kernel;
    ``longest`` is the sum over launches of how many the busiest thread executes.  ``blocks`` counts
    those that have run, by kernel.
    """

    read: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    written: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    accesses: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    sectors: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    launches: Counter[str] = field(default_factory=Counter[str])
    statements: Counter[str] = field(default_factory=Counter[str])
    longest: Counter[str] = field(default_factory=Counter[str])
    blocks: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Run:
    """One launch of some blocks: variables by name, arrays by name, the threads, the reports.

    ``fresh`` marks the lanes in which a variable declared without a value has none yet.
    ``traffic``, if there is one, counts what the kernel does, and ``steps`` the statements that
    each lane has executed.  A loop has at most so many ``rounds``.
    """

    warps: Warps
    axes: Mapping[tuple[str, str], Value]
    variables: dict[str, Value]
    arrays: dict[str, LaneArray]
    report: Callable[[str, str, int, int], None]  # kind, detail, lanes, line
    fresh: dict[str, NDArray[np.bool_]] = field(default_factory=dict[str, NDArray[np.bool_]])
    kernel: str = ""
    traffic: Traffic | None = None
    meets: Meets | None = None  # of kernels whose groups of threads run in turn
    turn: Turn | None = None
    everyone: Lanes = field(init=False)
    copies: Copies = field(init=False)
    steps: Lanes = field(init=False)
    rounds: int = MOST_ROUNDS
    boxes: Mapping[str, Box] = field(default_factory=dict[str, Box])  # of arguments, by name

    def __post_init__(self) -> None:
        self.everyone = np.arange(self.warps.size)
        self.copies = Copies(np.zeros((len(KINDS), self.warps.size), np.int64))
        self.steps = np.zeros(self.warps.size if self.traffic is not None else 0, np.int64)

    def who(self, m: Mask) -> Lanes:
        """Positions of the active lanes."""
        return self.everyone if m is None else np.flatnonzero(m)

    def reporter(self, name: str, line: int) -> Report:
        """Return what reports faults of an intrinsic by its name, at a line."""

        def report(kind: str, detail: str, lanes: int) -> None:
            self.report(kind, f"{detail}, by {name}", lanes, line)

        return report

    def lanes(self, v: Value) -> Lanes:
        """Spread a uniform value over the lanes."""
        spread: Lanes = np.asarray(v)
        if spread.shape == self.everyone.shape:
            return spread
        return np.broadcast_to(spread, (self.warps.size,))


def both(m: Mask, cond: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Lanes that are active and meet a condition."""
    return cond if m is None else m & cond


def assign(r: Run, name: str, new: Value, m: Mask) -> None:
    """Give a variable a value of its type in the active lanes."""
    r.variables[name] = new if m is None else np.where(m, new, r.variables[name])
    if name in r.fresh:
        if m is None:
            del r.fresh[name]
        else:
            r.fresh[name] &= ~m


def assign_lanes(r: Run, name: str, new: Mapping[str, Value], m: Mask) -> None:
    """Give a vector the lanes of another in the active threads."""
    old = r.variables[name]
    r.variables[name] = {p: v if m is None else np.where(m, v, old[p]) for p, v in new.items()}


def _reach(
    r: Run, a: LaneArray, index: Value, m: Mask, line: int, rank: Value | None = None
) -> tuple[Lanes, Lanes, Callable[[str, str, int], None]]:
    who = r.who(m)

    def report(kind: str, detail: str, lanes: int) -> None:
        r.report(kind, detail, lanes, line)

    ranks = None if rank is None else r.lanes(rank)[who].astype(np.int64)
    at, who = a.locate(r.lanes(index)[who].astype(np.int64), r.warps, who, report, ranks)
    return at, who, report


def account(
    r: Run, a: LaneArray, at: Lanes, who: Lanes,
    *, read: int = 0, written: int = 0, first: bool = True,
) -> None:  # fmt: skip
    """Count accesses of some elements by lanes, each read and written so many times.

    ``first`` says that they are not a later part of a wide access, which has no sector of its own:
    wide ones are aligned.
    """
    if r.traffic is not None and a.kind == "global":
        nbytes, place = int(at.size) * a.data.itemsize, (r.kernel, a.name)
        r.traffic.read[place] += read * nbytes
        r.traffic.written[place] += written * nbytes
        if first:
            r.traffic.accesses[place] += int(at.size)
            r.traffic.sectors[place] += (read + written) * _sectors(r.warps, a, at, who)


def _sectors(w: Warps, a: LaneArray, at: Lanes, who: Lanes) -> int:
    """Return how many sectors hold the elements of each warp, summed over the warps."""
    if not at.size:
        return 0
    warp, per = PORTABLE.warp, SECTOR // a.data.itemsize
    warps = who // w.threads * -(-w.threads // warp) + who % w.threads // warp
    found = warps * (a.data.size // per + 1) + at // per
    if (np.diff(found) < 0).any():
        found.sort()
    return 1 + int(np.count_nonzero(np.diff(found)))


def aligned(r: Run, a: LaneArray, index: Value, nbytes: int, m: Mask, line: int) -> None:
    """Check that accesses to neighbours begin at multiples of ``nbytes``, as GPUs ask."""

    def report(kind: str, detail: str, lanes: int) -> None:
        r.report(kind, detail, lanes, line)

    Place(a, r.lanes(index)[r.who(m)].astype(np.int64)).check(nbytes, a.kind, report)


def load(
    r: Run, a: LaneArray, index: Value, m: Mask, line: int, first: bool = True,
    rank: Value | None = None,
) -> Value:  # fmt: skip
    """Read elements, with every check; inactive lanes yield 0.

    ``first`` says that they are not a later part of a wide access.  With a ``rank`` they are those
    of the block in the cluster that has it.
    """
    at, who, report = _reach(r, a, index, m, line, rank)
    begun(r, rank, report)
    a.check_read(at, r.warps, who, report)
    account(r, a, at, who, read=1, first=first)
    elements = a.read(at)
    if who.size == r.warps.size:
        return elements
    out = np.zeros(r.warps.size, elements.dtype)
    out[who] = elements
    return out


def prefetch(r: Run, a: LaneArray, index: Value, m: Mask, line: int) -> None:
    """Check the bounds of elements that will be loaded."""
    _reach(r, a, index, m, line)


def store(
    r: Run, a: LaneArray, index: Value, v: Value, m: Mask, line: int, first: bool = True,
    rank: Value | None = None,
) -> None:  # fmt: skip
    """Write elements, with every check; ``first`` and ``rank`` as of ``load``."""
    at, who, report = _reach(r, a, index, m, line, rank)
    begun(r, rank, report)
    a.check_write(at, r.warps, who, report)
    account(r, a, at, who, written=1, first=first)
    a.write(at, r.lanes(v)[who])


def elsewhere(
    r: Run, a: LaneArray, index: Value, rank: Value, given: Sequence[Value], m: Mask, line: int
) -> Value:
    """Read elements of the blocks of a rank, or write what is given, if anything is."""
    if not given:
        return load(r, a, index, m, line, rank=rank)
    return store(r, a, index, given[0], m, line, rank=rank)


def copy(
    r: Run, name: str, to: LaneArray, index: Value, source: LaneArray, start: Value,
    nbytes: int, count: Value | None, m: Mask, line: int,
) -> None:  # fmt: skip
    """Let active lanes start copies of ``nbytes`` in a row from global to shared memory.

    With a ``count`` only so many of the elements are read, and the others are zero.
    """
    who, many = r.who(m), nbytes // to.data.itemsize
    report = r.reporter(name, line)
    given = r.lanes(many if count is None else count)[who].astype(np.int64)
    if (lost := given > many).any():
        report("out-of-bounds", f"{int(given[lost][0])} of {many} elements", int(lost.sum()))
        return
    targets, sources = (
        Place(a, r.lanes(i)[who].astype(np.int64)) for a, i in ((to, index), (source, start))
    )
    fine = [targets.check(nbytes, "shared", report), sources.check(nbytes, "global", report)]
    every, read = np.ones((who.size, many), np.bool_), np.arange(many) < given[:, None]
    there = targets.located(many, every, r.warps, who, report)
    here = sources.located(many, read, r.warps, who, report)
    if not all(fine) or there is None or here is None:
        return
    source.check_read(*_seen(here, r), report)
    to.check_write(*_seen(there, r), report)
    account(r, source, *here, read=1, first=False)
    if r.traffic is not None:
        place = r.kernel, source.name
        r.traffic.accesses[place] += int((given > 0).sum())
        r.traffic.sectors[place] += _sectors(r.warps, source, *here)
    values = source.read(here[0])
    out = zeros_like(values, every.size)
    out[read.reshape(-1)] = values
    to.write(there[0], out)
    r.copies.start(name, line, who, [Moved(to, *there, True), Moved(source, *here, False)])


def _seen(found: tuple[Lanes, Lanes], r: Run) -> tuple[Lanes, Warps, Lanes]:
    return found[0], r.warps, found[1]


_ATOMIC: dict[AtomicOp, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def atomic(
    r: Run, op: AtomicOp, a: LaneArray, index: Value, v: Value, m: Mask, line: int,
    *, reads: bool = False,
) -> None:  # fmt: skip
    """Update elements, which lanes may read, too; lanes that meet all count."""
    at, who, report = _reach(r, a, index, m, line)
    r.warps.fences.update(a.name, at, r.warps.block[who] + r.warps.first, reads=reads)
    if a.written is not None and not a.written[at].all():
        report("uninitialised", f"{a.kind} {a.name} is updated", int((~a.written[at]).sum()))
    a.check_write(at, r.warps, who, report, atomic=True)
    account(r, a, at, who, read=1, written=1)
    given = r.lanes(v)[who]
    if a.payloads is None:
        _update(op, a.data, at, given.astype(a.data.dtype))
        return
    before, values = a.read(at), scalar_ring.value_of(given)
    _update(op, a.data, at, values)
    scalar_ring.fold(op, a.payloads, at, before, given, a.data[at])


def fetch_add(r: Run, a: LaneArray, index: Value, v: Value, m: Mask, line: int) -> Value:
    """Add to elements; return what they were, as if lanes came in the order of their numbers."""
    at, who, _ = _reach(r, a, index, m, line)
    came = np.argsort(at, kind="stable")
    added = np.zeros(r.warps.size, a.data.dtype)
    given = r.lanes(v)[who].astype(a.data.dtype)[came]
    before = np.cumsum(given, dtype=a.data.dtype) - given
    starts = np.searchsorted(at[came], at[came])
    added[who[came]] = a.data[at[came]] + before - before[starts]
    atomic(r, "add", a, index, v, m, line, reads=True)
    return added


def _update(op: AtomicOp, data: Lanes, at: Lanes, values: Lanes) -> None:
    if op in ("min", "max") and values.dtype.kind == "f" and (values == 0).any():
        for i, x in zip(at, values, strict=True):  # NumPy's extremes leave a zero's sign open
            data[i] = scalar.binary(op, data[i], x)
    else:
        _ATOMIC[op].at(data, at, values)


def begun(r: Run, rank: Value | None, report: Callable[[str, str, int], None]) -> None:
    """Report blocks whose memory others touch before a barrier of the cluster."""
    if rank is not None and (lost := r.warps.touched == 0).any():
        report("race", "a block's memory is touched, which may not have begun", int(lost.sum()))


def ended(r: Run, line: int) -> None:
    """Report blocks whose memory others may still touch when they end."""
    met = r.warps.touched > 0
    if (lost := met[r.warps.alone()]).any():
        detail = "a block's memory is touched, which may have ended"
        r.report("race", detail, int(lost.sum()), line)


def meeting(r: Run, m: Mask, line: int) -> None:
    """Let whole clusters pass; one of which only some threads arrive is a fault."""
    w = r.warps
    if r.meets is not None:
        clusters.meet(r, m, line)
        return
    every = np.ones(w.size, np.bool_) if m is None else m
    w.meet(arrived(r, every, "barrier of a cluster", line, w.cluster))


def publish(r: Run, m: Mask) -> None:
    """Show what the blocks of lanes have written to global memory to blocks that know of it."""
    r.warps.fences.count(np.unique(r.warps.block[r.who(m)]) + r.warps.first)
    for a in r.arrays.values():
        if a.kind == "global" and a.tracked:
            a.publish(r.who(m), r.warps)


def barrier(r: Run, m: Mask, line: int) -> None:
    """Let whole blocks pass; a block of which only some threads arrive is a fault."""
    if m is None:
        r.warps.epoch += 1
        return
    r.warps.epoch[arrived(r, m, "barrier", line)] += 1


def exchange(r: Run, v: Value, mask: int, m: Mask, line: int) -> Value:
    """Give each thread what another of its warp gives; a fault as of a barrier."""
    together(r, m, "exchange", line)
    threads = r.warps.threads
    own = np.arange(r.warps.size) % threads
    partner = own ^ mask
    lost = partner >= threads
    if lost.any():
        detail = f"thread {int(own[lost][0])} of {threads} asks thread {int(partner[lost][0])}"
        r.report("out-of-bounds", detail, int(lost.sum()), line)
    elif not 0 < mask < PORTABLE.warp:
        r.report("out-of-bounds", f"thread 0 asks thread {mask} of another warp", threads, line)
    return r.lanes(v)[np.arange(r.warps.size) - own + np.where(lost, own, partner)]


def vote(r: Run, v: Value, m: Mask, line: int) -> Value:
    """Tell each thread whether some thread of its warp says so; a fault as of a barrier."""
    together(r, m, "vote", line)
    threads = r.warps.threads
    said = np.pad(r.lanes(v).reshape(-1, threads) != 0, ((0, 0), (0, -threads % PORTABLE.warp)))
    some = said.reshape(len(said), -1, PORTABLE.warp).any(2)
    return np.repeat(some, PORTABLE.warp, 1)[:, :threads].reshape(-1)


def together(r: Run, m: Mask, where: str, line: int) -> None:
    """Report threads that are missing: of a block, or of a warp where groups run in turn."""
    if r.meets is not None:
        whole(r, m, where, line)
    elif m is not None:
        arrived(r, m, where, line)


def arrived(
    r: Run, m: NDArray[np.bool_], where: str, line: int, cluster: int = 1
) -> NDArray[np.bool_]:
    """Return which blocks arrive; report those, or clusters of them, of which only a part does."""
    threads = r.warps.threads * cluster
    here = m.reshape(r.warps.blocks // cluster, threads).sum(1)
    partly = (here != 0) & (here != threads)
    if partly.any():
        n = int(here[partly][0])
        detail = f"{n} of {threads} threads of a {'block' if cluster == 1 else 'cluster'}"
        r.report("barrier-divergence", f"{detail} reach the {where}", int(partly.sum()), line)
    return np.repeat(here > 0, cluster)
