"""Find the passes and options that a disagreement needs, and leave out the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from didyma.codegen.options import USUAL
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.search import Search, fewest

Need: TypeAlias = tuple[str, Any]  # a pass that runs, a planner, or an option of another value

PLANNER = "memory.planner"
UNPLANNED = "none"  # the planner that gives each buffer memory of its own
PASSES = tuple(path for path, value in USUAL.items() if value is True and path != "verify")


def shrink_options(case: Case) -> Search[Case]:
    """Yield cases that need less of the compiler: without passes, planner and chosen values.

    All that can be left out is left out at once; if something of it is needed, as much as may be.
    Then the usual planner is tried in the place of one that was chosen.
    """
    needs = needed(case)

    def reduced(some: Sequence[Need]) -> Case:
        names = dict(some)
        off = {name: False for name in PASSES if name not in names}
        unplanned = {} if PLANNER in names else {PLANNER: UNPLANNED}
        chosen = {name: value for name, value in some if value != USUAL[name]}
        return replace(case, changes=tuple({**off, **unplanned, **chosen}.items()))

    few: Sequence[Need] = ()
    if not (yield reduced(())):
        few = yield from fewest(needs, reduced)
    planners = [n for n in few if n[0] == PLANNER]
    if planners:
        yield reduced([*(n for n in few if n not in planners), (PLANNER, USUAL[PLANNER])])


def needed(case: Case) -> list[Need]:
    """Return what a case asks of the compiler beside what every compile does."""
    chosen = dict(case.changes)
    passes = [(name, True) for name in PASSES if chosen.get(name, True)]
    planner = chosen.get(PLANNER, USUAL[PLANNER])
    other = [(k, v) for k, v in chosen.items() if k not in (*PASSES, PLANNER) and v != USUAL[k]]
    return [*passes, *([(PLANNER, planner)] if planner != UNPLANNED else []), *other]
