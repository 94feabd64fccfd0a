"""Find the passes and options that a disagreement needs, and leave out the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

from didyma.codegen.options import Options
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.search import Search, fewest, greedy

Change: TypeAlias = tuple[str, Any]

UNPLANNED = "none"  # the planner that gives each buffer memory of its own


def shrink_options(case: Case) -> Search[Case]:
    """Yield cases that need less of the compiler: without passes, planner and chosen numbers.

    All that can be left out is left out at once; if something of it is needed, as much as may be.
    Then each option that is still chosen gets its usual value.
    """
    usual = Options()
    off: list[Change] = [
        (f.name, False) for f in fields(Options) if f.default is True and f.name != "verify"
    ]
    off.append(("planner", UNPLANNED))
    chosen = dict(case.changes)
    wanted = [c for c in off if chosen.get(c[0], getattr(usual, c[0])) != c[1]]

    def reduced(needed: Sequence[Change]) -> Case:
        left_out = dict(c for c in wanted if c not in needed)
        return replace(case, changes=tuple({**dict(case.changes), **left_out}.items()))

    needed: Sequence[Change] = ()
    if not (yield reduced(())):
        needed = yield from fewest(wanted, reduced)
    yield from greedy(reduced(needed), _usual)


def _usual(case: Case) -> Iterator[Case]:
    """Yield cases in which an option that is neither off nor usual has its usual value."""
    for name, value in case.changes:
        if value is not False and value != UNPLANNED:
            yield replace(case, changes=tuple(c for c in case.changes if c[0] != name))
