"""The domain of memory plans: random programs, arenas, sizes and traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from didyma.fuzz.allocator.domains import DOMAINS, domain_of, judge_case
from didyma.fuzz.domains.domain import Domain, Judge, Outcome
from didyma.fuzz.groups import Example
from didyma.fuzz.result import Result
from didyma.oracle.report import Finding

HANG_SECONDS = 120.0  # a search for a plan may take long


@dataclass(frozen=True, slots=True)
class Plans(Domain[int]):
    """Memory plans; a case is the seed that everything of it is drawn from.

    ``kinds`` names the kinds of cases (see ``allocator.domains``).  Every ``run_every``-th program
    is also run, none for 0.
    """

    kinds: tuple[str, ...] = tuple(DOMAINS)
    run_every: int = 50

    @property
    def name(self) -> str:
        """The name under which cases are counted."""
        return "memory"

    @property
    def batch(self) -> int:
        """Cases take a millisecond or two."""
        return 16

    def draw(self, seed: int, index: int) -> int:
        """Return the seed of a case: one more for each."""
        return seed + index

    def judge(self) -> Judge[int]:
        """Return the judge of a seed's case."""
        return self.outcome

    def outcome(self, case: int) -> Outcome:
        """Make the case of a seed, and judge it."""
        c = judge_case(case, self.kinds, self.run_every)
        findings = tuple(Finding(c.domain, c.planner, v.check, v.message) for v in c.verdicts)
        return Outcome(findings, size=1, covered=(("domain", c.domain), ("planner", c.planner)))

    def failure(self, case: int, kind: str, message: str) -> Finding:
        """Return a finding of the kind of case that a seed gives; no planner is known."""
        return Finding(domain_of(case, self.kinds), "unknown", kind, message)

    def replay(self, case: int, file: str) -> str:
        """Return the command that judges a case again, and runs it."""
        del file
        words = f"--domain {domain_of(case, self.kinds)} --seed {case} --count 1 --run-every 1"
        return f"python -m didyma.fuzz.allocator {words}"


def record(r: Result) -> dict[str, Any]:
    """Return the result of a campaign as a record of JSON types."""
    return {
        "seed": r.seed,
        "jobs": r.jobs,
        "schedules": r.all.cases,
        "seconds": round(r.seconds, 3),
        "cpu_seconds": round(r.all.cpu, 3),
        "schedules_per_minute_per_core": round(a_minute(r), 1),
        "domains": counts(r, "domain"),
        "planners": counts(r, "planner"),
        "findings": [_finding(e) for e in r.findings],
    }


def a_minute(r: Result) -> float:
    """Return how many cases a minute of one core are generated, planned and judged."""
    return 60 * r.all.cases / r.all.cpu if r.all.cpu else 0.0


def counts(r: Result, key: str) -> dict[str, int]:
    """Return how many cases there were of each ``domain``, or by each ``planner``."""
    return {name: n for (k, name), n in sorted(r.covered.items()) if k == key}


def _finding(e: Example) -> dict[str, Any]:
    findings = (e.finding, *e.others)
    return {
        "domain": e.finding.level,
        "seed": e.case,
        "planner": e.finding.where,
        "replay": e.replay,
        "verdicts": [{"check": f.kind, "message": f.message} for f in findings],
    }
