"""The schedule fuzzer: what it draws, that it is clean, and that planted faults are found."""

from __future__ import annotations

import pickle
from collections import Counter
from statistics import median

from didyma.codegen.runtime.registry import engine
from didyma.fuzz.domains.schedules import Schedules
from didyma.fuzz.schedules import cases
from didyma.fuzz.schedules.judge import judge
from tests.mutants import named, planting
from tests.mutants.forking import Say, forked
from tests.mutants.step_slips import FAULTS
from tests.mutants.target import Target


def test_a_case_is_a_function_of_seed_and_index() -> None:
    for index in range(4):
        case = cases.draw(3, index)
        assert case == cases.draw(3, index)
        assert pickle.loads(pickle.dumps(case)) == case
        assert case.result is not None


def test_schedules_are_long_and_refusals_many() -> None:
    drawn = [cases.draw(5, index) for index in range(24)]
    assert median(len(c.schedule) for c in drawn) >= cases.MEDIAN / 2
    assert {r.code for c in drawn for r in c.refused} >= {"dependence", "bad-step", "not-nested"}


def test_a_short_campaign_finds_nothing_and_forces_refused_steps() -> None:
    host, forced = [engine("host")], Counter[str]()
    for index in range(24):
        found = judge(cases.draw(11, index), host)
        assert not found.findings
        forced.update(came for _, came in found.forced)
    assert forced["differs"]


def test_the_report_counts_steps() -> None:
    domain = Schedules(("host",))
    outcome = domain.judge()(case := domain.draw(1, 1))
    counts = domain.summary(Counter(outcome.covered))
    assert sum(counts["steps"].values()) == len(case.schedule)
    assert sum(counts["refused"].values()) == len(case.refused)


PLANTED = (  # named faults that the first cases show
    "a dependence ignored by reorder", "a dependence ignored by join, which fuses loops",
    "a dependence ignored by parallel", "a missing tail guard", "a peeled tail dropped",
    "a stage that is read before it is filled",
)  # fmt: skip


def test_planted_faults_are_found() -> None:
    """``python -m tests.mutants --only steps/`` hunts for more of them, and for longer."""
    chosen = [f for f in FAULTS if f.name in PLANTED]
    assert len(chosen) == len(PLANTED)
    ended = list(forked([named.target(f) for f in chosen], _hunt, 1))
    assert {e.work.name: e.said for e in ended if e.said != ["found"]} == {}


def _hunt(t: Target, say: Say) -> None:
    """Plant a fault in this child, and say whether one of the first cases is wrong."""
    assert t.mutant is not None
    planting.Planter().plant(t.mutant)
    found = any(judge(cases.draw(11, i), ()).findings for i in range(60))
    say("found" if found else "not found")
