"""Barriers in shared memory, barriers of some warps, and the copies of boxes that come to barriers.

As PTX has ``mbarrier``, ``bar.sync`` and ``cp.async.bulk.tensor``.  Bytes move when a copy starts;
what the warps know of each other (``clocks``) says who may touch them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.clocks import BARRIERS, ClockArray, Clocks
from didyma.codegen.runtime.simt.copies import Place, zeros_like
from didyma.codegen.runtime.simt.memory import LaneArray, Lanes, Report
from didyma.codegen.runtime.simt.turns import Turn, run
from didyma.refimpl.ir.group_products import ALIGNMENT, LINE, swizzled
from didyma.refimpl.ir.target import PORTABLE

if TYPE_CHECKING:
    from didyma.codegen.runtime.simt.access import Mask, Run, Value

Branch: TypeAlias = tuple[Callable[["Run", "Mask"], None], "Mask"]

GROUP = 128  # threads that run together
WORDS = 16  # of a description
NAMED = 16  # barriers of a block, of which 0 is that of all threads


@dataclass(slots=True)
class Barrier:
    """A barrier of each block: what ends a phase, what is still to come, and what is known.

    ``heard`` is what those know who have arrived in this phase, ``known`` what those did who ended
    the last.
    """

    count: Lanes
    left: Lanes
    nbytes: Lanes
    phase: Lanes
    heard: Lanes
    known: Lanes

    @staticmethod
    def of(clocks: Clocks) -> Barrier:
        """Return barriers at which nobody has arrived."""
        rows = np.zeros((4, clocks.blocks), np.int64)
        heard = np.zeros((2, clocks.blocks, clocks.now.shape[2]), np.int64)
        return Barrier(*rows, *heard)

    def turn(self, block: Lanes, number: Callable[[Lanes], Lanes] | None = None) -> None:
        """End the phases of blocks that nothing is missing of.

        Copies come to a barrier that is known by the ``number`` of each block.
        """
        done = np.unique(block[(self.left[block] == 0) & (self.nbytes[block] == 0)])
        self.phase[done] += 1
        self.left[done] = self.count[done]
        self.known[done] = np.maximum(self.known[done], self.heard[done])
        if number is not None:
            self.known[done, number(done)] = self.phase[done]
        self.heard[done] = 0


@dataclass(frozen=True, slots=True)
class Box:
    """A description of an array for the copies of boxes: in elements of ``array``."""

    array: LaneArray
    first: int
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    rows: int
    walk: Walk | None = None

    def elements(self, corner: Sequence[int]) -> tuple[Lanes, Lanes]:
        """Return where the elements of a box are, and which of them are in the array."""
        row, column = np.ogrid[: self.rows, :LINE]
        if self.walk is None:
            at = [column + corner[0], row + corner[1], np.full((1, 1), corner[2])]
        else:
            _, x, y, image, *move = corner
            pixels = self.walk.pixels((x, y, image), self.extents, self.rows)
            at = [column + corner[0], *(pixels + np.array([*move, 0])).T[:, :, None]]
        inside = np.ones((self.rows, LINE), np.bool_)
        for i, extent in zip(at, self.extents, strict=True):
            inside &= (i >= 0) & (i < extent)
        place = self.first + sum(i * step for i, step in zip(at, self.steps, strict=True))
        return np.broadcast_to(place, inside.shape).reshape(-1), inside.reshape(-1)


@dataclass(frozen=True, slots=True)
class Walk:
    """How boxes walk over pixels: between corners, along x and then y, by strides."""

    lower: tuple[int, int]
    upper: tuple[int, int]
    strides: tuple[int, int]

    def pixels(
        self, start: tuple[int, int, int], extents: Sequence[int], count: int
    ) -> NDArray[np.int64]:
        """Return the column, line and image of so many pixels, of images of these extents."""
        (x, y, image), found = start, list[tuple[int, int, int]]()
        right, bottom = (n + up for n, up in zip(extents[1:3], self.upper, strict=True))
        for _ in range(count):
            found.append((x, y, image))
            x += self.strides[0]
            if x >= right:
                x, y = self.lower[0], y + self.strides[1]
            if y >= bottom:
                y, image = self.lower[1], image + 1
        return np.array(found, np.int64)


@dataclass(slots=True)
class Meets:
    """What the groups of threads share: arrays, barriers, and descriptions by where they are."""

    clocks: Clocks
    arrays: dict[str, ClockArray] = field(default_factory=dict[str, ClockArray])
    barriers: dict[tuple[str, int], Barrier] = field(default_factory=dict[tuple[str, int], Barrier])
    numbered: dict[int, Barrier] = field(default_factory=dict[int, Barrier])
    boxes: dict[tuple[str, int], Box] = field(default_factory=dict[tuple[str, int], Box])
    turns: list[Turn] = field(default_factory=list[Turn])

    def number(self, key: tuple[str, int]) -> int:
        """Return by what number clocks know a barrier."""
        return [*self.barriers].index(key)

    def barrier(self, number: int) -> Barrier:
        """Return the barrier of some warps that has a number."""
        return self.numbered.setdefault(number, Barrier.of(self.clocks))

    def made(self, key: tuple[str, int]) -> Barrier | None:
        """Return a barrier in shared memory, made if there is room; None if not."""
        if key not in self.barriers and len(self.barriers) == BARRIERS:
            return None
        return self.barriers.setdefault(key, Barrier.of(self.clocks))

    def describe(
        self, key: tuple[str, int], array: LaneArray, first: int, numbers: Sequence[int]
    ) -> None:
        """Note a description: of what array, from where on, its extents, steps and rows."""
        n0, n1, n2, s1, s2, rows = numbers
        self.boxes[key] = Box(array, first, (n0, n1, n2), (1, s1, s2), rows)

    def shared(self, name: str, make: Callable[[Clocks], ClockArray]) -> ClockArray:
        """Return the shared array of a name, made by the first group that declares it."""
        if name not in self.arrays:
            self.arrays[name] = make(self.clocks)
        return self.arrays[name]


def in_turn(whole: Run, body: Callable[[Run, Mask], None]) -> None:
    """Run a kernel whose groups of threads wait for each other."""
    w = whole.warps
    meets = Meets(Clocks(w.blocks, w.threads, w.cluster))
    meets.boxes.update(((name, 0), box) for name, box in whole.boxes.items())
    for first in range(0, w.threads, GROUP):
        mask = np.arange(w.size) % w.threads // GROUP == first // GROUP
        _begin(replace(_copied(whole), meets=meets), whole, body, mask)
    run(meets.turns)


def apart(r: Run, then: Branch, other: Branch) -> None:
    """Run two branches, in which threads wait, side by side; go on once both have ended.

    A branch is what active lanes do, and which lanes those are.
    """
    assert r.turn is not None, "no groups"
    (body, mask), (rest, left) = then, other
    assert mask is not None, "a branch of all lanes"
    one = _copied(r)
    turn = _begin(one, r, body, mask)
    rest(r, left)
    r.turn.wait(lambda: turn.ended, lambda: None)
    for name in r.variables.keys() & one.variables.keys():
        r.variables[name] = _joined(mask, one.variables[name], r.variables[name])
    for name, fresh in r.fresh.items():
        r.fresh[name] = np.where(mask, one.fresh.get(name, False), fresh)


def _copied(r: Run) -> Run:
    variables = {k: copied(v) for k, v in r.variables.items()}
    return replace(r, variables=variables, arrays=dict(r.arrays), fresh=dict(r.fresh))


def copied(v: Value) -> Value:
    """Return a variable that changes of this one leave as it is: only vectors change in place."""
    return v.copy() if _is_struct(v) else v


def _begin(r: Run, like: Run, body: Callable[[Run, Mask], None], mask: Mask) -> Turn:
    assert r.meets is not None, "no groups"
    r.copies, r.steps = like.copies, like.steps
    r.turn = Turn(partial(body, r, mask))
    r.meets.turns.append(r.turn)
    return r.turn


def _joined(mask: NDArray[np.bool_], one: Value, other: Value) -> Value:
    """Return a variable that active lanes have from one branch, and the rest from the other."""
    if _is_struct(other):
        return {part: _joined(mask, one[part], other[part]) for part in other}
    return np.where(mask, np.asarray(one), np.asarray(other))


def _is_struct(v: Value) -> bool:
    return isinstance(v, dict)


def whole(r: Run, m: Mask, where: str, line: int) -> bool:
    """Report warps of which only some threads come; return whether there are none."""
    here = np.ones(r.warps.size, np.bool_) if m is None else m
    warps = np.pad(here.reshape(-1, r.warps.threads), ((0, 0), (0, -r.warps.threads % 32)))
    came = warps.reshape(r.warps.blocks, -1, PORTABLE.warp).sum(2)
    starts = PORTABLE.warp * np.arange(int(came.shape[1]), dtype=np.int64)
    full = np.minimum(PORTABLE.warp, r.warps.threads - starts)
    partly = (came != 0) & (came != full)
    if partly.any():
        detail = f"{int(came[partly][0])} of {PORTABLE.warp} threads of a warp reach the {where}"
        r.report("barrier-divergence", detail, int(partly.sum()), line)
    return not partly.any()


def gather(r: Run, number: int, threads: int, m: Mask, line: int) -> None:
    """Let so many threads of each block wait for each other; the number 0 is that of a block."""
    assert r.meets is not None, "no groups"
    name = f"barrier {number}" if number else "barrier"
    if not whole(r, m, name, line):
        return
    who, clocks = r.who(m), r.meets.clocks
    b = r.meets.barrier(number)
    block = who // r.warps.threads
    here = np.unique(block)
    fresh = here[b.left[here] == b.count[here]]
    b.count[fresh] = b.left[fresh] = threads
    if (b.count[here] != threads).any():
        text = f"{threads} threads wait at {name}, where others wait for {int(b.count[here].max())}"
        r.report("barrier-divergence", text, len(who), line)
        return
    warp = clocks.place(who)[1][:, None]
    own = clocks.first(block)[:, None] + np.arange(clocks.warps)
    if (clocks.now[block[:, None], warp, own] < b.known[block[:, None], own]).any():
        text = f"{name} is taken by threads that those of its last turn may still wait beside"
        r.report("race", text, len(who), line)
    goal = b.phase[here].copy()
    np.subtract.at(b.left, block, 1)
    if (b.left[here] < 0).any():
        text = f"more than {threads} threads reach the {name}"
        r.report("barrier-divergence", text, len(who), line)
        b.left[here] = 0
    clocks.release(who, b.heard)
    b.turn(here)
    _wait(r, lambda: bool((b.phase[here] > goal).all()), f"{name} of {threads} threads", who, line)
    clocks.acquire(who, b.known)
    if not number:
        r.warps.pass_barrier(here, b.phase[here])


def numbered(r: Run, number: Value, threads: Value, m: Mask, line: int) -> None:
    """Let threads wait at the barriers whose numbers they give, each for so many."""
    every, many = (r.lanes(v).astype(np.int64) for v in (number, threads))
    who = r.who(m)
    for n in np.unique(every[who]):
        mine = np.zeros(r.warps.size, np.bool_)
        mine[who[every[who] == n]] = True
        if not 0 < n < NAMED:
            r.report("out-of-bounds", f"barrier {n} of {NAMED}", int(mine.sum()), line)
            continue
        gather(r, int(n), int(many[who[0]]), mine, line)


def _wait(r: Run, ready: Callable[[], bool], what: str, who: Lanes, line: int) -> None:
    assert r.turn is not None, "no groups"
    text = f"they wait at {what} for what never comes"
    r.turn.wait(ready, lambda: r.report("hang", text, len(who), line))


def mbarrier(r: Run, name: str, array: str, index: Value, given: Value, m: Mask, line: int) -> None:
    """Do what one of the functions of barriers in shared memory does, with its last argument."""
    assert r.meets is not None, "no groups"
    who = r.who(m)
    every = r.lanes(index)[who].astype(np.int64)
    numbers = r.lanes(given)[who].astype(np.int64)
    a = r.arrays[array]
    report = r.reporter(name, line)
    block, rank = who // r.warps.threads, None
    if name == "mbarrier_arrive_at":
        rank = numbers
        block = block - block % r.warps.cluster + rank
    at, _ = a.locate(every, r.warps, who, report, rank)
    if at.size < who.size:
        return
    access.begun(r, rank, report)
    if name == "mbarrier_init":
        a.check_write(at, r.warps, who, report)
    else:
        a.check_read(at, r.warps, who, report)
    for i in np.unique(every):
        mine = every == i
        _one(r, name, (array, int(i)), who[mine], block[mine], numbers[mine], report, line)


def _one(
    r: Run, name: str, key: tuple[str, int], who: Lanes, block: Lanes, given: Lanes,
    report: Report, line: int,
) -> None:  # fmt: skip
    meets = r.meets
    assert meets is not None, "no groups"
    if name == "mbarrier_init":
        b = meets.made(key)
        if b is None:
            report("out-of-bounds", f"barrier {BARRIERS} of {BARRIERS}", len(who))
            return
        b.count[block] = b.left[block] = given
        return
    if key not in meets.barriers:
        return  # whose read has been reported
    b = meets.barriers[key]
    if name == "mbarrier_wait":
        parity = given % 2
        what = f"{key[0]}[{key[1]}], parity {int(parity[0])}"
        _wait(r, lambda: bool((b.phase[block] % 2 != parity).all()), what, who, line)
        meets.clocks.acquire(who, b.known)
        return
    if name == "mbarrier_expect":
        np.add.at(b.nbytes, block, given)
    np.subtract.at(b.left, block, 1)
    if (lost := b.left[block] < 0).any():
        most = int(b.count[block][lost][0])
        text = f"{key[0]}[{key[1]}] has more arrivals than the {most} of a phase"
        report("barrier-divergence", text, int(lost.sum()))
        b.left[block] = 0
    meets.clocks.release(who, b.heard, block)
    b.turn(block, partial(meets.clocks.barrier, number=meets.number(key)))


def give(
    r: Run, name: str, to: LaneArray, index: Value, rank: Value, value: Value,
    barrier: tuple[str, Value], m: Mask, line: int,
) -> None:  # fmt: skip
    """Let active lanes store numbers in blocks of ranks, whose barriers count the bytes."""
    meets, report, who = r.meets, r.reporter(name, line), r.who(m)
    assert meets is not None, "no groups"
    assert isinstance(to, ClockArray), "no shared memory"
    at, there, where = (r.lanes(v)[who].astype(np.int64) for v in (index, rank, barrier[1]))
    place, _ = to.locate(at, r.warps, who, report, there)
    if place.size < who.size:
        return
    access.begun(r, there, report)
    values, block = r.lanes(value)[who], who // r.warps.threads
    block = block - block % r.warps.cluster + there
    for i in np.unique(where):
        mine, key = where == i, (barrier[0], int(i))
        b = meets.barriers.get(key)
        if b is None:
            report("uninitialised", f"{key[0]}[{key[1]}] is read", int(mine.sum()))
            continue
        here, number = block[mine], meets.number(key)
        to.check_box(place[mine], who[mine], number, b.phase[here] + 1, report)
        to.write(place[mine], values[mine])
        meets.clocks.boxes[number] = f"{name} of line {line}"
        np.subtract.at(b.nbytes, here, to.data.itemsize)
        b.turn(here, partial(meets.clocks.barrier, number=number))


def describe(
    r: Run, name: str, to: LaneArray, index: Value, source: LaneArray, start: Value,
    given: list[Value], m: Mask, line: int,
) -> None:  # fmt: skip
    """Write the description of an array, which a whole warp does together."""
    assert r.meets is not None, "no groups"
    report = r.reporter(name, line)
    if not whole(r, m, name, line):
        return
    who = r.who(m)[:: PORTABLE.warp]
    places = r.lanes(index)[who].astype(np.int64), r.lanes(start)[who].astype(np.int64)
    fine = Place(to, places[0]).check(128, "global", report)
    fine &= Place(source, places[1]).check(16, "global", report)
    words = (places[0][:, None] + np.arange(WORDS)).reshape(-1)
    at, _ = to.locate(words, r.warps, who.repeat(WORDS), report)
    numbers = [r.lanes(v)[who].astype(np.int64) for v in given]
    nbytes = source.data.itemsize if not source.data.dtype.names else 2
    if any((step * nbytes % 16 != 0).any() for step in numbers[3:5]):
        step = next(int(x) for s in numbers[3:5] for x in s if x * nbytes % 16)
        report("misaligned", f"a stride of {step} elements is no multiple of 16 bytes", who.size)
        fine = False
    if not fine or at.size < who.size * WORDS:
        return
    to.check_write(at, r.warps, who.repeat(WORDS), report)
    for n in range(who.size):
        key = to.name, int(places[0][n])
        r.meets.describe(key, source, int(places[1][n]), [int(x[n]) for x in numbers])


def fetch(
    r: Run, name: str, to: LaneArray, index: Value, maps: LaneArray, place: Value,
    corner: list[Value], barrier: tuple[str, Value], blocks: Value | None, m: Mask, line: int,
) -> None:  # fmt: skip
    """Let active lanes start the copy of a box each, to their own blocks or those of a mask."""
    report = r.reporter(name, line)
    for lane in r.who(m):
        who = np.asarray([lane])
        at, where, bar, *c = (int(r.lanes(v)[lane]) for v in (index, place, barrier[1], *corner))
        described, key = (maps, where), (barrier[0], bar)
        ranks = [None] if blocks is None else _bits(int(r.lanes(blocks)[lane]))
        for rank in ranks:
            _fetch(r, name, (to, at), described, c, key, who, rank, report, line)


def _bits(mask: int) -> list[Lanes]:
    """Return the numbers of the bits of a mask."""
    return [np.asarray([i]) for i in range(mask.bit_length()) if mask >> i & 1]


def holds_box(array: LaneArray, first: int, report: Report) -> TypeGuard[ClockArray]:
    """Return whether a box may lie at an element of an array; where not, report it."""
    if isinstance(array, ClockArray) and not (array.alignment % ALIGNMENT or first % (8 * LINE)):
        return True
    text = f"{array.kind} {array.name}[{first}] is at no multiple of {ALIGNMENT} bytes"
    report("misaligned", f"{text} of shared memory", 1)
    return False


def describes(box: Box, corner: Sequence[int], report: Report) -> bool:
    """Return whether a copy names as many coordinates as its array has; where not, report it."""
    axes = 3 if box.walk is None else 6  # with how far from each pixel it is read
    if len(corner) == axes:
        return True
    report("misaligned", f"{len(corner)} coordinates of a map that has {axes}", 1)
    return False


def _fetch(
    r: Run, name: str, to: tuple[LaneArray, int], described: tuple[LaneArray, int],
    corner: Sequence[int], key: tuple[str, int], who: Lanes, rank: Lanes | None,
    report: Report, line: int,
) -> None:  # fmt: skip
    meets, (target, first), (maps, where) = r.meets, to, described
    assert meets is not None, "no groups"
    box, b = meets.boxes.get((maps.name, where)), meets.barriers.get(key)
    if box is None or b is None:
        lost = f"{maps.name}[{where}]" if box is None else f"{key[0]}[{key[1]}]"
        report("uninitialised", f"{lost} is read", 1)
        return
    if not holds_box(target, first, report) or not describes(box, corner, report):
        return
    source, inside = box.elements(corner)
    every = who.repeat(inside.size)
    ranks = None if rank is None else rank.repeat(inside.size)
    at = swizzled(first + np.arange(inside.size))
    there, _ = target.locate(at, r.warps, every, report, ranks)
    here, mine = box.array.locate(source[inside], r.warps, every[inside], report)
    if there.size < inside.size or here.size < int(inside.sum()):
        return
    box.array.check_read(here, r.warps, mine, report)
    _account(r, box.array, here)
    values = box.array.read(here)
    out = zeros_like(values, inside.size)
    out[inside] = values
    block = who // r.warps.threads
    if rank is not None:
        block = block - block % r.warps.cluster + rank
        access.begun(r, rank, report)
    number = meets.number(key)
    target.check_box(there, every, number, b.phase[block] + 1, report)
    target.write(there, out)
    meets.clocks.boxes[number] = f"{name} of line {line}"
    b.nbytes[block] -= inside.size * 2
    b.turn(block, partial(meets.clocks.barrier, number=number))


def _account(r: Run, a: LaneArray, at: Lanes) -> None:
    if r.traffic is not None:
        r.traffic.read[r.kernel, a.name] += int(at.size) * a.data.itemsize
        r.traffic.accesses[r.kernel, a.name] += 1
