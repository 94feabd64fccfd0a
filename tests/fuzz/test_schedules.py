"""The schedule fuzzer: what it draws, that it is clean, and that planted faults are found."""

from __future__ import annotations

import pickle
from collections import Counter
from statistics import median

import pytest

from didyma.codegen.runtime.registry import engine
from didyma.fuzz.domains.schedules import Schedules
from didyma.fuzz.schedules import cases
from didyma.fuzz.schedules.judge import judge
from tests.fuzz.schedule_faults import FAULTS, first_killed


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


# A seed, and the first cases of it, that find each planted fault.
KILLED = {name: (11, range(40)) for name in FAULTS} | {
    "rfactor takes a difference apart": (3, range(10, 18)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m tests.fuzz.schedule_faults`` says how soon."""
    FAULTS[name](monkeypatch.setattr)
    assert first_killed(*KILLED[name]) is not None
