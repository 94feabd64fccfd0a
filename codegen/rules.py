"""The list of all decisions that the compiler makes, and those that one compile made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from didyma.codegen.decisions import Decision
from didyma.codegen.options import Options
from didyma.codegen.passes import branches, fuse, groups, merge, running, simplify
from didyma.codegen.pipeline import Planned
from didyma.codegen.schedule import dispatch
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import (
    Arena,
    Carry,
    Copy,
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
        "fuse": (*fuse.DECISIONS, merge.MERGED, groups.SHARED),
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
    found = Counter(str(dict(k.attrs)["schedule"]) for k in chain.from_iterable(c.kernels.values()))
    before = [x for p in (c.bare, *c.bare.functions) for x in walk(p.lines)]
    after = [x for p in (c.program, *c.program.functions) for x in walk(p.lines)]
    found.update(filter(None, map(_plan_of, after)))
    found[SHOWN] += max(0, _views(after) - _views(before))
    copies = (sum(isinstance(x, Copy) for x in lines) for lines in (before, after))
    found[ELIDED] += max(0, next(copies) - next(copies))
    return +found


def _plan_of(x: Line) -> str | None:
    match x:
        case Arena() if x.stack:
            return STACK
        case Launch() if x.inplace:
            return INPLACE
        case Reuse() | PlacementAllocate() | Place() | Carry():
            return _PLANS[type(x).__name__]
        case _:
            return None


def _views(lines: list[Line]) -> int:
    return sum(isinstance(x, View) for x in lines)
