"""The domain of memory plans: random programs, arenas, sizes and traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from didyma.fuzz import saved
from didyma.fuzz.allocator import pieces, written
from didyma.fuzz.allocator.domains import DOMAINS, domain_of, judge_case
from didyma.fuzz.allocator.written import Written
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.oracle.report import Finding

Case: TypeAlias = int | Written
PIECES = 16  # draws of small functions beside each case, which take a tenth of a millisecond each
HANG_SECONDS = 120.0  # a search for a plan may take long


@dataclass(frozen=True, slots=True)
class Plans(Domain[Case]):
    """Memory plans; a case is the seed that everything of it is drawn from, or it is written down.

    ``kinds`` names the kinds of cases (see ``allocator.domains``).  Every ``run_every``-th program
    is also run, none for 0.
    """

    kinds: tuple[str, ...] = tuple(DOMAINS)
    run_every: int = 50

    @property
    def name(self) -> str:
        """``planners``."""
        return "planners"

    @property
    def floor(self) -> float:
        """Kinds of cases are many, from single parts of planners to calls of whole programs."""
        return 0.2

    def draw(self, seed: int, index: int) -> Case:
        """Return the seed of a case: one more for each."""
        return seed + index

    def judge(self) -> Judge[Case]:
        """Return the judge of a seed's case."""
        return self.outcome

    def outcome(self, case: Case) -> Outcome:
        """Make the case of a seed, and judge it, after some draws of what all programs share."""
        if isinstance(case, Written):
            c = written.judged(case)
        else:
            wrong = (w for n in range(PIECES) for w in pieces.judged(Random(PIECES * case + n)))
            if (first := next(wrong, None)) is not None:
                return Outcome((Finding("pieces", "runtime", "value", first),), size=1)
            c = judge_case(case, self.kinds, self.run_every)
        findings = tuple(Finding(c.domain, c.planner, v.check, v.message) for v in c.verdicts)
        covered = ("domain", c.domain), ("planner", c.planner)
        return Outcome(findings, size=1, covered=covered, counters=c.counters)

    def failure(self, case: Case, kind: str, message: str) -> Finding:
        """Return a finding of the kind of case that a seed gives; no planner is known."""
        which = "written" if isinstance(case, Written) else domain_of(case, self.kinds)
        return Finding(which, "unknown", kind, message)

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads: the seed of a case, and what was found."""
        if isinstance(case, Written):
            return f"{saved.head(self.name, case.facts)}\n{case.text}"
        head = saved.head(self.name, {"seed": case, "kinds": self.kinds})
        return f"{head}\n{Domain[Case].text(self, case, found, message, seed)}"

    def replay(self, case: Case, file: str) -> str:
        """Return the command that judges a case again, and runs it."""
        if file:
            return f"didyma replay {file}"
        if isinstance(case, Written):
            return ""
        words = f"--domain {domain_of(case, self.kinds)} --seed {case} --count 1 --run-every 1"
        return f"python -m didyma.fuzz.allocator {words}"

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many cases there were of each kind and by each planner."""
        return {"kinds": counts(covered, "domain"), "planners": counts(covered, "planner")}


def counts(covered: Mapping[Key, int], key: str) -> dict[str, int]:
    """Return how many cases there were of each ``domain``, or by each ``planner``."""
    return {name: n for (k, name), n in sorted(covered.items()) if k == key}
