"""Rounds for which there is no time are told, and a certificate is checked without them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from didyma.codegen.runtime.registry import probe
from didyma.commands import judge_kernel
from didyma.judging.judge import judge
from didyma.judging.request import Request
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "spec.py").write_text(SPEC)
    asked = Request(
        str(tmp_path / "add.cu"), f"{tmp_path / 'spec.py'}::add", grid="cdiv(n, 64)", block="64"
    )
    monkeypatch.setattr(judge_kernel, "judge", partial(judge, seconds=0.0))
    kept = tmp_path / "add.json"
    assert judge_kernel.command(asked, kept, json=True) == 0
    record = json.loads(capsys.readouterr().out)
    assert (len(record["rounds"]), len(record["untried"])) == (1, 15)
    assert judge_kernel.command(asked, None, json=False) == 0
    shown = capsys.readouterr().out
    assert f"no time for 15 rounds: {'; '.join(record['untried'][:3])}" in shown
    monkeypatch.undo()
    assert judge_kernel.check(kept, json=False) == 0
    assert "holds: correct, but for 15 rounds without time" in capsys.readouterr().out
