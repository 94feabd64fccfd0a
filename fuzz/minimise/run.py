"""Minimise one case: a campaign on nothing else, which judges it in a process that may crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from didyma.fuzz import campaign
from didyma.fuzz.domains.domain import Domain, Judge, Shrinker
from didyma.fuzz.groups import Example
from didyma.fuzz.result import Result
from didyma.oracle.report import Finding

SECONDS = 30.0  # that a case is made smaller for
HANG_SECONDS = 30.0  # after which a judgement counts as hung


@dataclass(frozen=True, slots=True)
class Single(Domain[Any]):
    """A domain that draws one case of another domain, whatever the seed."""

    domain: Domain[Any]
    case: Any

    @property
    def name(self) -> str:
        """The name of the other domain."""
        return self.domain.name

    def draw(self, seed: int, index: int) -> Any:
        """Return the case."""
        del seed, index
        return self.case

    def judge(self) -> Judge[Any]:
        """Return the judge of the other domain."""
        return self.domain.judge()

    def failure(self, case: Any, kind: str, message: str) -> Finding:
        """Return the finding of the other domain."""
        return self.domain.failure(case, kind, message)

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Any]]]:
        """Return what makes cases of the other domain smaller."""
        return self.domain.shrinkers(finding)

    def size(self, case: Any) -> tuple[int, ...]:
        """Return the size of a case in the other domain."""
        return self.domain.size(case)


@dataclass(frozen=True, slots=True)
class Minimised:
    """The smallest example of a disagreement, and what it took to find it.

    ``example`` is None where the case agrees.  ``judged`` counts the cases tried, ``stopped_by`` is
    the signal that ended the search early, 0 for none.
    """

    example: Example | None
    judged: int
    seconds: float
    stopped_by: int = 0


def minimise(
    domain: Domain[Any],
    case: Any,
    seconds: float = SECONDS,
    progress: Callable[[Result], None] = lambda _: None,
    executor: Executor | None = None,
    hang_seconds: float = HANG_SECONDS,
) -> Minimised:
    """Make a case that disagrees smaller until nothing smaller disagrees, or time is over.

    What is kept is the signature of its first finding: level, kind and reason (``groups.cause``).
    ``progress`` is called with a result whose ``draft`` is the smallest example so far.
    """
    plan = campaign.Plan(
        (Single(domain, case),), count=1, seed=0, hang_seconds=hang_seconds, shrink_seconds=seconds
    )
    r = campaign.run(plan, progress, executor)
    return Minimised(r.draft, 1 + r.tried, r.seconds, r.stopped_by)
