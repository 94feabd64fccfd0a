"""``didyma fuzz --memory``: what it prints, and its exit codes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pytest

from didyma.fuzz.allocator.domains import DOMAINS
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.plans import Case, Plans
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.records import record
from didyma.oracle.report import Finding
from didyma.show.campaign import campaign
from tests.didyma.cli import didyma


def test_a_campaign_on_plans_agrees() -> None:
    said = didyma("fuzz", "--memory", "--seconds", "1", "--jobs", "1", "--seed", "7", "--json")
    assert said.code == 0
    d = said.json
    plans = d["domains"]["planners"]
    assert d["programs"] == plans["cases"] > 0
    assert (d["seed"], d["jobs"]) == (7, 1)
    assert "seed 7" in said.err
    assert sum(plans["covered"]["kinds"].values()) == plans["cases"]
    assert d["findings"] == []
    spoken = didyma("fuzz", "--memory", "--seconds", "0.2", "--jobs", "1")
    assert "planners" in spoken.out
    seed = spoken.err.split()[1]
    assert seed != "0"
    assert f"--seed {seed} --jobs 1" in spoken.out


@dataclass(frozen=True, slots=True)
class Spoilt(Plans):
    """Memory plans of which seed 9 is blamed; seed 11 kills its process, and seed 12 hangs."""

    def outcome(self, case: Case) -> Outcome:
        if case == 11:
            os.abort()
        if case == 12:
            time.sleep(600)
        if case == 9:
            return Outcome((Finding("arena", "best_fit", "run", "planted"),))
        return Plans.outcome(self, case)


def test_a_finding_is_told_with_the_command_that_shows_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan((Spoilt(),), count=11, seed=0, stop_after=1)
    r = run(plan, executor=InlineExecutor())
    assert [e.case for e in r.findings] == [9]
    campaign(record(r, [Spoilt()]))
    assert "--seed 9 --count 1" in capsys.readouterr().out
    assert record(r, [Spoilt()])["findings"][0]["index"] == 9


def test_of_a_domain_without_cases_no_share_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan((Plans(),), count=0, seed=0)
    campaign(record(run(plan, executor=InlineExecutor()), [Plans()]))
    (row,) = (r for r in capsys.readouterr().out.splitlines() if "planners" in r)
    assert row.split("│")[-2].strip() == "-"
    assert "1.0000" not in row


def test_a_crash_or_a_hang_costs_its_case_alone() -> None:
    r = run(Plan((Spoilt(run_every=0),), count=16, seed=0, hang_seconds=5))
    assert r.all.cases == 16
    assert [(e.case, e.finding.kind) for e in r.findings] == [
        (9, "run"), (11, "crash"), (12, "hang"),
    ]  # fmt: skip
    assert "SIGABRT" in r.findings[1].finding.message
    assert {d["level"] for d in record(r, [Plans()])["findings"]} <= {*DOMAINS}


@dataclass(frozen=True, slots=True)
class Drawn(Plans):
    """Memory plans that are not judged: each is a finding."""

    def outcome(self, case: Case) -> Outcome:
        return Outcome((Finding(f"case {case}", "best_fit", "run", "drawn"),))


@pytest.mark.parametrize("jobs", [1, 3])
def test_processes_take_turns_at_the_same_seeds(jobs: int) -> None:
    plan = Plan((Drawn(),), count=10, seed=5, jobs=jobs)
    r = run(plan, executor=InlineExecutor())
    assert sorted(e.case for e in r.findings) == list(range(5, 15))
    assert [e.case for e in r.findings][:jobs] == list(range(5, 5 + jobs))


def test_an_engine_is_refused() -> None:
    said = didyma("fuzz", "--memory", "--engine", "host", "--json")
    assert said.code == 2
    assert said.json["error"]["code"] == "bad-option"
