"""Memory planners of programs, by name or as objects.

Some reuse whole allocations and decide which buffer takes over whose bytes; the others place
buffers in an arena, and are those of ``didyma.codegen.memory.arena``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from didyma.codegen import plugins
from didyma.codegen.memory.arena.registry import ARENA, ArenaPlanner
from didyma.codegen.memory.liveness import Range
from didyma.codegen.memory.sizes import FitProver
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A value that needs memory, with the steps during which it is in use."""

    name: str
    type: TensorType
    live: Range


@dataclass(frozen=True, slots=True)
class ReusePlan:
    """Which buffers reuse the allocations of others.

    ``over`` maps a buffer without an allocation of its own to the buffer whose allocation it takes
    over.  With ``hold`` allocations stay until the end of their block; otherwise each is freed when
    its last buffer is dead.
    """

    over: Mapping[str, str]
    hold: bool = False


Whole: TypeAlias = Callable[[Sequence[LiveBuffer], FitProver], ReusePlan]


@dataclass(frozen=True, slots=True)
class Planner:
    """A planner of programs: it reuses ``whole`` allocations, or else places in an ``arena``.

    ``seconds`` limits the time for each arena; without it the number of steps is limited.  A
    planner with both plans programs by ``whole`` and traces by ``arena``.
    """

    name: str
    whole: Whole | None = None
    arena: ArenaPlanner | None = None
    seconds: float | None = None


def none(buffers: Sequence[LiveBuffer], sizes: FitProver) -> ReusePlan:
    """Give every buffer an allocation of its own, to the end."""
    del buffers, sizes
    return ReusePlan({}, hold=True)


def linear_scan(buffers: Sequence[LiveBuffer], sizes: FitProver) -> ReusePlan:
    """Reuse whole allocations: by start, most recently freed first, first fit.

    The algorithm of PyTorch NNC's ``AllocBufsWithMemReuse``, for sizes that may be symbolic: an
    allocation fits when it is large enough for every binding of the symbols.
    """
    over: dict[str, str] = {}
    storage: dict[str, TensorType] = {}  # by buffer: the type for which its bytes were allocated
    busy: list[tuple[int, int, LiveBuffer]] = []  # by end
    free: list[LiveBuffer] = []  # the last to be freed is last
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
    return ReusePlan(over)


def size_class(buffers: Sequence[LiveBuffer], sizes: FitProver) -> ReusePlan:
    """Reuse whole allocations of the same key: device, dtype and size, symbols included.

    PyTorch Inductor's ``MemoryPlanningState`` (``codegen/wrapper.py``): the last to be freed under
    a key is the first to be taken.
    """
    del sizes
    over: dict[str, str] = {}
    pool: dict[tuple[object, ...], list[str]] = {}
    busy: list[tuple[int, int]] = []
    keys = [(b.type.device, b.type.dtype, b.type.nbytes) for b in buffers]
    for i in sorted(range(len(buffers)), key=lambda i: (buffers[i].live.start, i)):
        while busy and busy[0][0] < buffers[i].live.start:
            dead = heapq.heappop(busy)[1]
            pool.setdefault(keys[dead], []).append(buffers[dead].name)
        if pool.get(keys[i]):
            over[buffers[i].name] = pool[keys[i]].pop()
        heapq.heappush(busy, (buffers[i].live.end, i))
    return ReusePlan(over)


_WHOLE: dict[str, Whole] = {"none": none, "linear_scan": linear_scan, "size_class": size_class}
PLANNERS: Mapping[str, Planner] = {n: Planner(n, _WHOLE.get(n), a) for n, a in ARENA.items()}
Choice: TypeAlias = str | Planner | ArenaPlanner  # how a caller names or gives a planner


def names() -> tuple[str, ...]:
    """Return Didyma's planners and those that other distributions register."""
    return tuple(dict.fromkeys((*PLANNERS, *plugins.names(plugins.PLANNERS))))


def planner(which: Choice) -> Planner:
    """Return the planner of a name, or of an object that is one.

    DidymaError: ``unknown-planner`` lists the names, ``bad-planner`` for an object that is none,
    ``broken-plugin``.

    >>> planner("linear_scan").name
    'linear_scan'
    """
    if not isinstance(which, str):
        return _checked(which, "planner")
    return PLANNERS[which] if which in PLANNERS else _registered(which)


def _registered(name: str) -> Planner:
    found = plugins.load(plugins.PLANNERS, name)
    if found is None:
        raise DidymaError(
            "unknown-planner", name, got=name, want=f"one of {', '.join(sorted(names()))}"
        )
    return _checked(found, f"{name} of {plugins.origin(plugins.PLANNERS, name)}")


def _checked(found: object, where: str) -> Planner:
    if isinstance(found, ArenaPlanner):
        return Planner(found.name, arena=found)
    if isinstance(found, Planner) and (found.whole or found.arena):
        return found
    got = (
        "a Planner without whole and arena"
        if isinstance(found, Planner)
        else f"a {type(found).__name__}"
    )
    raise DidymaError(
        "bad-planner", where, got=got, want="a name, a Planner that can plan, or an ArenaPlanner",
        help='Planner("mine", whole=function) and ArenaPlanner("mine", function) make them',
    )  # fmt: skip
