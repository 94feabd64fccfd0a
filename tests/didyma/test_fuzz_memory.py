"""``didyma fuzz --memory``: what it prints, and its exit codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from didyma.fuzz.allocator import domains
from didyma.fuzz.allocator.domains import Case
from didyma.fuzz.allocator.judge import Verdict
from tests.didyma.cli import didyma


def test_a_campaign_on_plans_agrees() -> None:
    said = didyma("fuzz", "--memory", "--seconds", "0.2", "--jobs", "1", "--seed", "7", "--json")
    assert said.code == 0
    d = said.json
    assert d["schedules"] >= 50
    assert sum(d["domains"].values()) == d["schedules"]
    assert d["findings"] == []
    spoken = didyma("fuzz", "--memory", "--seconds", "0.2", "--jobs", "1").out
    assert "schedules in" in spoken


def test_a_finding_is_told_with_the_command_that_shows_it_again() -> None:
    judged = domains.judge_case

    def spoilt(seed: int, *others: Any) -> Case:
        c = judged(seed, *others)
        return replace(c, verdicts=(Verdict("run", "planted"),)) if seed == 9 else c

    with mock.patch("didyma.fuzz.allocator.campaign.judge_case", spoilt):
        words = ("fuzz", "--memory", "--seconds", "30", "--jobs", "1", "--stop-after", "1")
        said = didyma(*words)
        assert said.code == 1
        assert "--seed 9 --count 1" in said.out
        assert didyma(*words, "--json").json["findings"][0]["seed"] == 9


def test_an_engine_is_refused() -> None:
    said = didyma("fuzz", "--memory", "--engine", "host", "--json")
    assert said.code == 2
    assert said.json["error"]["code"] == "bad-option"
