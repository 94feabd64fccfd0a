"""What planners refuse, and how they say so."""

from __future__ import annotations

from pathlib import Path

import pytest

import didyma
from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import problem, solve
from didyma.refimpl.errors import DidymaError

HARD = Path(didyma.__file__).parents[1] / "tests/data/planner/minimalloc/B.1048576.csv"


def refusal(code: str) -> pytest.RaisesExc[DidymaError]:
    return pytest.RaisesExc(DidymaError, check=lambda e: e.code == code)


def test_a_negative_capacity() -> None:
    with refusal("bad-capacity"):
        problem([0], [1], [8], capacity=-1)


def test_a_search_that_runs_out_of_time_says_that_it_proved_nothing() -> None:
    p = trace.parse(HARD.read_text(encoding="utf-8"), str(HARD))
    tight = problem(p.lower, p.upper, p.size, capacity=1048576)
    with refusal("search-limit"):
        solve(tight, "canonical", 0.0)
