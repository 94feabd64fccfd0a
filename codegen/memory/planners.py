"""Planners: which buffer takes over whose bytes.  All have one signature and no effects."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from codegen.memory.arena.registry import arena_planner
from codegen.memory.liveness import Range
from codegen.memory.sizes import Sizes
from refimpl.errors import DidymaError
from refimpl.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Buffer:
    """A value that needs bytes, with the lines between which it does."""

    name: str
    type: TensorType
    live: Range


@dataclass(frozen=True, slots=True)
class Plan:
    """``over`` names, for a buffer that gets no bytes of its own, the one whose bytes it gets.

    With ``hold`` allocations stay until the program's end; else each goes when its last buffer
    is dead.
    """

    over: Mapping[str, str]
    hold: bool = False


Planner: TypeAlias = Callable[[Sequence[Buffer], Sizes], Plan]


def none(buffers: Sequence[Buffer], sizes: Sizes) -> Plan:
    """Give every buffer bytes of its own, to the end."""
    del buffers, sizes
    return Plan({}, hold=True)


def linear_scan(buffers: Sequence[Buffer], sizes: Sizes) -> Plan:
    """Reuse whole allocations: by start, most recently freed first, first fit.

    The algorithm of PyTorch NNC's ``AllocBufsWithMemReuse``, for sizes that may be symbolic: an
    allocation fits when it is large enough for every binding of the symbols.
    """
    over: dict[str, str] = {}
    storage: dict[str, TensorType] = {}  # of each buffer: the type its bytes were allocated for
    busy: list[tuple[int, int, Buffer]] = []  # by end
    free: list[Buffer] = []  # the last to be freed is last
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].live.start, i))
    for i in order:
        b = buffers[i]
        while busy and busy[0][0] < b.live.start:
            free.append(heapq.heappop(busy)[2])
        for k in reversed(range(len(free))):
            if free[k].type.device == b.type.device and sizes.fits(b.type, storage[free[k].name]):
                taken = free.pop(k)
                over[b.name] = taken.name
                storage[b.name] = storage[taken.name]
                break
        else:
            storage[b.name] = b.type
        heapq.heappush(busy, (b.live.end, i, b))
    return Plan(over)


PLANNERS: dict[str, Planner] = {"none": none, "linear_scan": linear_scan}


def planner(name: str) -> Planner:
    """Return a planner by name; DidymaError ``unknown-planner`` lists the names.

    Names are those of ``arena.ARENA``, where they place buffers in one arena of known sizes.  A
    planner that can do only that has no whole allocations to hand on, and is refused here.
    """
    if name not in PLANNERS:
        arena_planner(name)
        raise DidymaError(
            "arena-planner",
            name,
            got="a planner that places buffers in an arena",
            want=f"for a compile, one of {', '.join(sorted(PLANNERS))}",
            help="`didyma plan` shows what it would do",
        )
    return PLANNERS[name]
