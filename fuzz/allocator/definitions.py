"""Placements in one arena by the definitions of their planners, written naively.

A planner of few buffers is held to these: its offsets are those that its rule gives, or its peak is
no higher than that of the rules that it promises to try; and a search within a capacity finds a
placement where there is one.  Buffers are taken as ``registry.solve``
gives them: by start, then end, then the largest, then alignment, fixed offset and name.  The rules
are those of the papers and programs that the planners name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from didyma.codegen.memory.arena.canonical import within
from didyma.codegen.memory.arena.problem import FREE, Problem, lower_bound, tight_bound
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes
from didyma.oracle import placement_check

MOST = 14  # buffers that are placed by definition
FEW = 7  # buffers of which the least of all peaks is found
STEPS = 300  # of a search, after which it is not known whether there is a placement


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that is alive from ``lower`` up to but not at ``upper``, with its place in a row."""

    at: int
    lower: int
    upper: int
    size: int
    alignment: int
    fixed: int

    def meets(self, other: Buffer) -> bool:
        """Return whether both are alive at one time."""
        return self.lower < other.upper and other.lower < self.upper

    @property
    def life(self) -> int:
        """The time for which it is alive."""
        return self.upper - self.lower

    @property
    def area(self) -> int:
        """Bytes times time."""
        return self.size * self.life

    def up(self, offset: int) -> int:
        """Return the least offset from a byte on that it may have."""
        return -(-offset // self.alignment) * self.alignment


Offsets: TypeAlias = Mapping[Buffer, int]
Rank: TypeAlias = Callable[[Buffer, int], tuple[int, ...]]  # of a buffer and its crowd


def buffers(p: Problem) -> list[Buffer]:
    """Return the buffers of a problem that have bytes and a life, in the order of the rules."""
    columns = [c.tolist() for c in (p.lower, p.upper, p.size, p.alignment, p.fixed)]
    rows = (Buffer(i, *row) for i, row in enumerate(zip(*columns, strict=True)))
    some = [b for b in rows if b.size and b.life]
    return sorted(
        some, key=lambda b: (b.lower, b.upper, -b.size, b.alignment, b.fixed, p.names[b.at])
    )


def _crowd(b: Buffer, among: Sequence[Buffer]) -> int:
    """Return the most bytes alive at one time of a buffer's life: some buffer begins there."""
    times = {b.lower, *(x.lower for x in among if b.lower < x.lower < b.upper)}
    return max(sum(x.size for x in among if x.lower <= t < x.upper) for t in times)


# What comes first has the lowest rank.
_RANKS: Mapping[str, Rank] = MappingProxyType(
    {
        "heat": lambda b, crowd: (-crowd, -b.life, -b.area),
        "size": lambda b, _: (-b.size, b.lower),
        "size, life": lambda b, _: (-b.size, -b.life),
        "life": lambda b, _: (-b.life, -b.size),
        "area": lambda b, _: (-b.area,),
        "breadth": lambda b, crowd: (-crowd, -b.size, b.lower),
        "heat, area": lambda b, crowd: (-crowd, -b.area, -b.life),
        "life, area": lambda b, crowd: (-b.life, -b.area, -crowd),
    }
)


def fitted(some: Sequence[Buffer], order: str, *, first: bool = False) -> Offsets:
    """Place each into the smallest gap that holds it, the lowest of such: fixed ones first.

    With ``first`` each goes into the lowest gap, however large.
    """
    crowds = {b: _crowd(b, some) for b in some}
    ranked = sorted(some, key=lambda b: _RANKS[order](b, crowds[b]))
    found = {b: b.fixed for b in ranked if b.fixed != FREE}
    for b in (b for b in ranked if b.fixed == FREE):
        taken = [(o, o + x.size) for x, o in found.items() if b.meets(x)]
        starts = {b.up(end) for end in (0, *(end for _, end in taken))}
        room = [
            (min((low for low, _ in taken if low >= o), default=None), o)
            for o in starts
            if all(o + b.size <= low or high <= o for low, high in taken)
        ]
        inner = [((above - o) * (not first), o) for above, o in room if above is not None]
        found[b] = min(inner)[1] if inner else min(o for _, o in room)
    return found


def peak(offsets: Offsets) -> int:
    """Return the end of the highest buffer."""
    return max((o + b.size for b, o in offsets.items()), default=0)


# ---- whole allocations, each a slot; slots lie end to end above what is fixed

Slots: TypeAlias = list[list[Buffer]]


def _end_to_end(some: Sequence[Buffer], slots: Slots) -> Offsets:
    found = {b: b.fixed for b in some if b.fixed != FREE}
    base = peak(found)
    for slot in slots:
        alignment = max(b.alignment for b in slot)
        base = -(-base // alignment) * alignment
        found |= dict.fromkeys(slot, base)
        base += max(b.size for b in slot)
    return found


def _freed(slots: Slots, now: int, place: Mapping[Buffer, int]) -> list[list[Buffer]]:
    """Return the slots whose buffers are dead, those that died last first."""
    dead = [s for s in slots if s[-1].upper <= now]
    return sorted(dead, key=lambda s: (-s[-1].upper, -place[s[-1]]))


def _in_slots(
    some: Sequence[Buffer], pick: Callable[[Buffer, list[list[Buffer]]], list[Buffer] | None]
) -> Slots:
    ranked = sorted((b for b in some if b.fixed == FREE), key=lambda b: (b.lower, -b.size))
    place = {b: some.index(b) for b in some}
    slots: Slots = []
    for b in ranked:
        slot = pick(b, _freed(slots, b.lower, place))
        if slot is None:
            slots.append(slot := [])
        slot.append(b)
    return slots


def none(some: Sequence[Buffer]) -> Offsets:
    """Give each an allocation of its own."""
    return _end_to_end(some, [[b] for b in some if b.fixed == FREE])


def linear_scan(some: Sequence[Buffer]) -> Offsets:
    """Take the allocation that was freed last of those that are large enough."""

    def pick(b: Buffer, free: Slots) -> list[Buffer] | None:
        return next((s for s in free if s[0].size >= b.size), None)

    return _end_to_end(some, _in_slots(some, pick))


def size_class(some: Sequence[Buffer]) -> Offsets:
    """Take what was freed last of one size and alignment; place allocations by their size."""

    def pick(b: Buffer, free: Slots) -> list[Buffer] | None:
        return next((s for s in free if _kind(s[0]) == _kind(b)), None)

    slots = _in_slots(some, pick)
    whole = [replace(s[0], upper=s[-1].upper) for s in slots]
    at = fitted([*whole, *(b for b in some if b.fixed != FREE)], "size")
    shared = {b: at[w] for w, slot in zip(whole, slots, strict=True) for b in slot}
    return {b: shared.get(b, b.fixed) for b in some}


def _kind(b: Buffer) -> tuple[int, int]:
    return b.size, b.alignment


def storage_id(some: Sequence[Buffer]) -> Offsets:
    """Take the least that is large enough, up to 16 times; else the largest, from a 16th on."""
    room: dict[Buffer, tuple[int, int]] = {}  # by a slot's first buffer: bytes, and its number

    def pick(b: Buffer, free: Slots) -> list[Buffer] | None:
        large = min((room[s[0]] for s in free if room[s[0]][0] >= b.size), default=None)
        small = max((room[s[0]] for s in free if room[s[0]][0] < b.size), default=None)
        if large is not None and large[0] <= 16 * b.size:
            taken = large
        elif small is not None and 16 * small[0] >= b.size:
            taken = small
        else:
            room[b] = b.size, len(room)
            return None
        slot = next(s for s in free if room[s[0]] == taken)
        room[slot[0]] = max(taken[0], b.size), taken[1]
        return slot

    return _end_to_end(some, _in_slots(some, pick))


BY_RULE: Mapping[str, Callable[[Sequence[Buffer]], Offsets]] = MappingProxyType(
    {
        "none": none,
        "linear_scan": linear_scan,
        "size_class": size_class,
        "storage_id": storage_id,
        "greedy_by_size": lambda some: fitted(some, "size"),
        "greedy_by_breadth": lambda some: fitted(some, "breadth"),
    }
)
# The rules that a planner tries, of which it keeps the best: exactly that, or one that is better.
TRIED: Mapping[str, Sequence[str]] = MappingProxyType(
    {"best_fit": tuple(_RANKS), "didyma": ("heat", "size", "breadth")}
)


def differing(p: Problem, name: str, offsets: Sequence[int]) -> Iterator[str]:
    """Yield what is not by the rule of a planner in its offsets of few buffers."""
    some = buffers(p)
    if len(some) > MOST or not some:
        return
    got = {b: offsets[b.at] for b in some}
    if name in BY_RULE:
        for b, o in BY_RULE[name](some).items():
            if got[b] != o:
                yield f"{name} puts {p.names[b.at]} at {got[b]}, and its rule at {o}"
    elif name == "hill_climb":
        if peak(got) > (begun := peak(fitted(some, "size", first=True))):
            yield f"{name} has a peak of {peak(got)}, and began with {begun}"
    elif name in TRIED:
        least = min(peak(fitted(some, order)) for order in TRIED[name])
        if peak(got) > least or (name == "best_fit" and peak(got) < least):
            yield f"{name} has a peak of {peak(got)}, and the best of its orders {least}"


def least_peak(p: Problem) -> int | None:
    """Return the least peak of all placements of few buffers; None if fixed ones overlap.

    In a placement that is as low as it can be, each buffer lies on those that it meets and that
    are lower; so all orders by offset are tried.
    """
    some = buffers(p)
    bound = max((_crowd(b, some) for b in some), default=0)
    best: int | None = None

    def rest(placed: list[tuple[Buffer, int]], left: list[Buffer], high: int) -> None:
        nonlocal best
        if best is not None and (high >= best or best == bound):
            return
        if not left:
            best = high
            return
        for b in left:
            floor = max((o + x.size for x, o in placed if b.meets(x)), default=0)
            at = b.up(floor) if b.fixed == FREE else b.fixed
            if at >= floor:
                others = [x for x in left if x is not b]
                rest([*placed, (b, at)], others, max(high, at + b.size))

    rest([], some, 0)
    return best


def searched(p: Problem) -> Iterator[str]:
    """Yield what is wrong with a search for a placement of few buffers within a capacity.

    At the least of all peaks it finds one; beneath, it names buffers that are too many themselves.
    """
    least = least_peak(p) if p.count else None
    if least is None:
        return
    if not lower_bound(p) <= (bound := tight_bound(p)) <= least:
        yield f"the bound is {bound}, and the least peak {least}"
    try:
        found = within(p, least, nodes=STEPS)
    except OutOfNodes:
        return
    except Infeasible:
        yield f"no placement is found within {least} bytes, though there is one"
        return
    columns = (p.lower, p.upper, p.size, found)
    faults = placement_check.check(
        *(c.tolist() for c in columns),
        alignment=p.alignment.tolist(), fixed=p.fixed.tolist(), capacity=least,
    )  # fmt: skip
    yield from (f"{f.kind}: {f.message}" for f in faults)
    try:
        within(p, least - 1, nodes=STEPS)
    except OutOfNodes:
        return
    except Infeasible as e:
        core = least_peak(p.pick(e.core))
        if core is None or core < least:
            yield f"{e.core.tolist()} are named as too many for {least - 1} bytes, and take {core}"
    else:
        yield f"a placement within {least - 1} bytes is found, and the least peak is {least}"
