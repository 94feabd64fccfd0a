"""The list of all decisions that the compiler makes, and those that one compile made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from didyma.codegen.decisions import Decision
from didyma.codegen.options import Options
from didyma.codegen.passes import branches, fuse, groups, merge, rows, running, simplify, sweep
from didyma.codegen.pipeline import Planned, Scheduled
from didyma.codegen.schedule import dispatch
from didyma.refimpl.ir.graph import CALL
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import (
    Arena,
    Carry,
    Copy,
    Dispatch,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Reuse,
    View,
)

_PLANS: Mapping[str, str] = MappingProxyType(
    {
        "Reuse": "take over a dead allocation",
        "PlacementAllocate": "take over a part of a dead allocation",
        "Place": "place in an arena",
        "Carry": "hand over what a loop carries",
    }
)
LOOPS = ("while", "scan")
STACK = "an arena on the stack"
INPLACE = "write a result over an operand"
SHOWN = "show a part instead of moving it"
ELIDED = "leave out a copy"


def rules() -> tuple[Decision, ...]:
    """Return every decision: rewrite rules, fusion, classes of schedules, memory plans.

    >>> sorted({d.stage for d in rules()})
    ['fuse', 'plan', 'runs', 'schedule', 'simplify']
    """
    rewrites = (Decision("simplify", r.name, r.matches) for r in simplify.rules(Options()))
    control = (branches.BRANCH, branches.LOOP, branches.SCAN)
    named = {
        "simplify": (simplify.EQUAL_NODES, *control),
        "fuse": (*fuse.DECISIONS, merge.MERGED, rows.JOINED, sweep.SWEPT, groups.SHARED),
        "schedule": dispatch.CLASSES,
        "plan": (*_PLANS.values(), STACK, INPLACE, SHOWN, ELIDED),
    }
    runs = Decision("runs", running.BLOCKED, running.RUNS)
    rest = (Decision(stage, name) for stage, names in named.items() for name in names)
    return (*rewrites, runs, *rest)


def decided(c: Planned) -> Counter[str]:
    """Count the decisions about schedules and memory that a compile made, as its results show them.

    Those of graph passes are heard while it runs.
    """
    return Counter(name for name, _ in places(c))


def places(c: Planned) -> Iterator[tuple[str, str]]:
    """Yield the decisions about schedules and memory, each with the value that it is about.

    That of an arena is a value in it, and that of what a loop carries the first result of a loop.
    It is empty where there is none.
    """
    yield from schedules(c)
    before = [x for p in (c.bare, *c.bare.functions) for x in walk(p.lines)]
    after = [x for p in (c.program, *c.program.functions) for x in walk(p.lines)]
    inside = {x.arena: x.value for x in after if isinstance(x, Place)}
    loops = (n.results[0] for n in c.fused.entry.nodes if n.op in LOOPS and n.results)
    carried = next(loops, "")
    for x in after:
        yield from _plan_of(x, inside, carried)
    viewed = Counter(x.value for x in before if isinstance(x, View))
    shown = Counter(x.value for x in after if isinstance(x, View))
    copied = Counter(x.value for x in before if isinstance(x, Copy))
    still = Counter(x.value for x in after if isinstance(x, Copy))
    yield from ((SHOWN, value) for value in (shown - viewed).elements())
    yield from ((ELIDED, value) for value in (copied - still).elements())


def schedules(c: Scheduled) -> Iterator[tuple[str, str]]:
    """Yield the class of each kernel's schedule, with the value that it is about.

    Kernels that are written as text have none.  The value is the first result of the first call of
    the kernel's function in the entry, and empty where there is none.
    """
    results = {n.callee: n.results[0] for n in reversed(c.fused.entry.nodes) if n.op == CALL}
    for function, kernels in c.kernels.items():
        for k in kernels:
            if isinstance(k, ClaimedKernel):
                continue
            yield str(dict(k.attrs)["schedule"]), results.get(function, "")


def _plan_of(x: Line, inside: Mapping[str, str], carried: str) -> Iterator[tuple[str, str]]:
    match x:
        case Arena() if x.stack:
            yield STACK, inside.get(x.name, "")
        case Launch() | Dispatch() if x.inplace:
            yield INPLACE, x.inplace[0][0]
        case Reuse() | PlacementAllocate() | Place():
            yield _PLANS[type(x).__name__], x.value
        case Carry():
            yield _PLANS["Carry"], carried
        case _:
            return
