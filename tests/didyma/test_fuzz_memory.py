"""``didyma fuzz --memory``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from didyma.fuzz.allocator import campaign
from didyma.fuzz.allocator.campaign import worker
from didyma.fuzz.allocator.domains import Case, judge_case
from didyma.fuzz.allocator.judge import Verdict
from didyma.show.campaign import memory_campaign
from tests.didyma.cli import didyma


def test_a_campaign_on_plans_agrees() -> None:
    said = didyma("fuzz", "--memory", "--seconds", "1", "--jobs", "1", "--seed", "7", "--json")
    assert said.code == 0
    d = said.json
    assert d["schedules"] > 0
    assert (d["seed"], d["jobs"]) == (7, 1)
    assert "seed 7" in said.err
    assert sum(d["domains"].values()) == d["schedules"]
    assert d["findings"] == []
    spoken = didyma("fuzz", "--memory", "--seconds", "0.2", "--jobs", "1")
    assert "schedules in" in spoken.out
    seed = spoken.err.split()[1]
    assert seed != "0"
    assert f"--memory --seed {seed}" in spoken.out


def spoilt(seed: int, *others: Any) -> Case:
    """Judge a case, and blame seed 9; seed 11 kills its process, and seed 12 hangs."""
    c = judge_case(seed, *others)
    if seed == 11:
        os.abort()
    if seed == 12:
        time.sleep(600)
    return replace(c, verdicts=(Verdict("run", "planted"),)) if seed == 9 else c


def test_a_finding_is_told_with_the_command_that_shows_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with mock.patch("didyma.fuzz.allocator.campaign.judge_case", spoilt):
        r = campaign.run(campaign.Plan(limit=11, seed=0, jobs=0, stop_after=1))
    assert [c.seed for c in r.findings] == [9]
    memory_campaign(r)
    assert "--seed 9 --count 1" in capsys.readouterr().out
    assert json.loads(r.json())["findings"][0]["seed"] == 9


def spoilt_worker(*args: Any) -> None:
    """Judge as a worker does, where some seeds are spoilt."""
    with mock.patch("didyma.fuzz.allocator.campaign.judge_case", spoilt):
        worker(*args)


def test_a_crash_or_a_hang_costs_its_case_alone() -> None:
    with mock.patch("didyma.fuzz.allocator.campaign.worker", spoilt_worker):
        r = campaign.run(campaign.Plan(limit=16, seed=0, jobs=1, run_every=0, hang_seconds=5))
    assert r.schedules == 16
    assert [(c.seed, c.verdicts[0].check) for c in r.findings] == [
        (9, "run"), (11, "crash"), (12, "hang"),
    ]  # fmt: skip
    assert "SIGABRT" in r.findings[1].verdicts[0].message


def test_processes_take_turns_at_the_same_seeds() -> None:
    plan = campaign.Plan(limit=10, seed=5, jobs=3)
    turns = [list(plan.seeds(slot, 0)) for slot in range(3)]
    assert turns == [[5, 8, 11, 14], [6, 9, 12], [7, 10, 13]]
    assert list(plan.seeds(0, 2)) == [11, 14]
    assert list(replace(plan, jobs=0).seeds(0, 0)) == list(range(5, 15))


def test_an_engine_is_refused() -> None:
    said = didyma("fuzz", "--memory", "--engine", "host", "--json")
    assert said.code == 2
    assert said.json["error"]["code"] == "bad-option"
