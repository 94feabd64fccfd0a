"""A campaign that finds something at once and would make it smaller for ever, to be killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.domain import Outcome, Shrinker
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.options import shrink_options
from didyma.fuzz.minimise.search import Search
from didyma.oracle.report import Finding


def slowly(case: Case) -> Search[Case]:
    """Yield what ``shrink_options`` does, and then wait."""
    yield from shrink_options(case)
    time.sleep(600)


@dataclass(frozen=True, slots=True)
class Wrong(Graphs):
    """Graphs that are all wrong."""

    def judge(self) -> Callable[[Case], Outcome]:  # type: ignore[override]  # no GraphJudge
        """Find the same of every case."""
        finding = Finding("host", "fused_0", "value", "got 1, want 2")
        return lambda _: Outcome((finding,), frozenset({"add"}))

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what leaves out options and never ends."""
        del finding
        return ((1.0, slowly),)


if __name__ == "__main__":
    plan = Plan((Wrong(("host",)),), seed=1, shrink_seconds=600.0, findings=Path(sys.argv[1]))
    run(plan, executor=InlineExecutor())
