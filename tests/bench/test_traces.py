"""Damaged traces, the short form; and that a wrong plan of one would be seen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.bench.trace_mutants import absurd, damaged, faults, run


def test_damaged_traces_are_refused_or_planned_rightly(tmp_path: Path) -> None:
    said = Counter(run(tmp_path / "t.csv", damaged(seed), "didyma") for seed in range(300))
    assert said["planned"] > 20
    assert {"bad-trace", "bad-number", "bad-life", "duplicate-buffer"} <= set(said)


def test_long_traces_and_absurd_totals() -> None:
    assert absurd(20_000) < 20


def test_a_wrong_plan_is_told() -> None:
    data = b"id,lower,upper,size\r\na,0,2,8\r\nb,1,3,4\r\n"
    right = {"offsets": {"a": 0, "b": 8}, "peak": 12}
    assert faults(data, json.dumps(right)) == []
    for offsets, peak in (({"a": 0, "b": 7}, 12), ({"a": 0}, 8), ({"a": 0, "b": 8}, 11)):
        assert faults(data, json.dumps({"offsets": offsets, "peak": peak}))
