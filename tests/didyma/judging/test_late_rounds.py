"""Rounds for which there is no time are told, and a certificate is checked without them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from didyma.codegen.runtime.registry import probe
from didyma.commands import judge_kernel
from didyma.judging import judge, launching
from didyma.judging.launching import Ran
from didyma.judging.request import Request
from didyma.judging.task import Task
from didyma.refimpl.ir.types import Array
from tests.didyma.judging.kernels import ADD

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
SPEC = """
import didyma as dd
n = dd.dim("n", 1, 4096)

@dd.trace
def add(a: dd.f32[n], b: dd.f32[n]) -> dd.f32[n]:
    return a + b
"""


def test_rounds_for_which_there_is_no_time_are_named_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "spec.py").write_text(SPEC)
    spec = f"{tmp_path / 'spec.py'}::add"
    asked = Request(str(tmp_path / "add.cu"), spec, grid="cdiv(n, 64)", block="64", seconds=0.0)
    kept = tmp_path / "add.json"
    assert judge_kernel.command(asked, kept, json=True) == 0
    record = json.loads(capsys.readouterr().out)
    assert (len(record["rounds"]), len(record["untried"])) == (1, 15)
    assert judge_kernel.command(asked, None, json=False) == 0
    shown = capsys.readouterr().out
    assert f"no time for 15 rounds: {'; '.join(record['untried'][:3])}" in shown
    assert judge_kernel.check(kept, json=False) == 0
    assert "holds: correct, but for 15 rounds without time" in capsys.readouterr().out


def test_a_round_that_takes_more_than_its_share_has_smaller_sizes_and_is_checked_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "spec.py").write_text(SPEC)
    spec = f"{tmp_path / 'spec.py'}::add"
    asked = Request(str(tmp_path / "add.cu"), spec, grid="cdiv(n, 64)", block="64", seconds=20.0)
    spent = [0.0]

    def run(task: Task, env: Mapping[str, int], arrays: Sequence[Array], schedule: int = 0) -> Ran:
        spent[0] += env["n"] / 100
        return real(task, env, arrays, schedule)

    real = launching.run
    monkeypatch.setattr(launching, "run", run)
    monkeypatch.setattr(judge, "process_time", lambda: spent[0])
    kept = tmp_path / "add.json"
    assert judge_kernel.command(asked, kept, json=True) == 0
    record = json.loads(capsys.readouterr().out)
    kinds = [[r.partition("values: ")[2].partition(" (")[0] for r in record[k]]
             for k in ("rounds", "untried", "smaller")]  # fmt: skip
    assert len(kinds[0]) == 16  # each kind of values has its round
    assert kinds[1] == kinds[2] != []
    assert judge_kernel.command(asked, None, json=False) == 0
    less = len(record["smaller"])
    assert f"no time for {less} rounds, of which {less} ran at smaller" in capsys.readouterr().out
    assert judge_kernel.check(kept, json=False) == 0
    assert "holds: correct" in capsys.readouterr().out
