"""The domain of schedules: random steps on random functions, which must do the same after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule.steps.text import show, step_name
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome, Shrinker
from didyma.fuzz.domains.graphs import EngineChoice
from didyma.fuzz.minimise.search import greedy
from didyma.fuzz.schedules.cases import Case, Refused, draw, smaller
from didyma.fuzz.schedules.judge import Judged, judge
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import show as show_function

SLOW = frozenset(("simt",))  # it parses the text in Python
SELDOM = 8  # one schedule in so many is judged on slow engines, unless there are no others


@dataclass(frozen=True, slots=True)
class Schedules(Domain[Case]):
    """Schedules of legal steps, judged on engines given by name or as objects.

    With ``forms``, functions are of blocks, vectors, producers, external calls and returns, and the
    definition of the loops judges what passes, steps and engines make of them.

    Steps that were refused on the way are counted, and those that a dependence forbids are taken
    all the same: the refusal was due where the result differs.
    """

    engines: tuple[EngineChoice, ...]
    forms: bool = False

    @property
    def name(self) -> str:
        """``schedules``, or ``forms``."""
        return "forms" if self.forms else "schedules"

    @property
    def floor(self) -> float:
        """Graphs are not scheduled by steps, nor made of these forms: nothing else judges them."""
        return 0.05 if self.forms else 0.1

    def draw(self, seed: int, index: int) -> Case:
        """Return the function and the schedule of a campaign's seed and an index."""
        return draw(seed, index, forms=self.forms)

    def judge(self) -> Judge[Case]:
        """Start the engines; ``unknown-engine`` or EngineMissing if one cannot run here."""
        every = [engine(e) if isinstance(e, str) else e for e in self.engines]
        quick = [e for e in every if e.name not in SLOW]

        def judged(case: Case) -> Outcome:
            seldom = case.subject.seed % SELDOM == 0
            return outcome(case, judge(case, every if not quick or seldom else quick))

        return judged

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what leaves out steps."""
        del finding
        return ((1.0, lambda case: greedy(case, smaller)),)

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of steps."""
        return (len(case.schedule),)

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the function and its schedule, which their text forms read back."""
        head = Domain[Case].text(self, case, found, message, seed).splitlines()[:-1]
        subject = case.subject
        values = f"# values of seed {subject.seed}, sizes {dict(subject.env)}"
        schedule = show(case.schedule, subject.func.name).splitlines()
        commented = [f"# {line}" for line in schedule]
        return "\n".join([*head, values, *commented, show_function(subject.func), ""])

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how often each step was taken, refused by code, and differed when forced."""
        taken = {k[1]: n for k, n in sorted(covered.items()) if k[0] == "taken"}
        refused = {f"{k[1]} {k[2]}": n for k, n in sorted(covered.items()) if k[0] == "refused"}
        forced = {f"{k[1]} {k[2]}": n for k, n in sorted(covered.items()) if k[0] == "forced"}
        return {"steps": taken, "refused": refused, "forced": forced}


def outcome(case: Case, found: Judged) -> Outcome:
    """Return the outcome of a case that was judged."""
    blamed = {step_name(s) for s in case.schedule} if found.findings else frozenset[str]()
    return Outcome(
        tuple(found.findings),
        frozenset(blamed),
        len(case.schedule),
        found.total,
        found.total,
        tuple(keys(case, found.forced)),
        counters=found.counters,
    )


def keys(case: Case, forced: Sequence[tuple[Refused, str]]) -> Iterator[Key]:
    """Yield each step that was taken or refused, as often as it was, and what forcing them did."""
    for s in case.schedule:
        yield "taken", step_name(s)
    for r in case.refused:
        yield "refused", step_name(r.step), r.code
    for r, came in forced:
        yield "forced", step_name(r.step), came
