"""Real models are reported on one by one, and a run that was cut short goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import didyma as dd
from didyma.onnx.export import to_model
from tests.gpu import models


@dd.trace(dd.f32[2, 3])
def small(x: dd.Tensor) -> dd.Tensor:
    return dd.exp(x) + 1


def test_a_log_keeps_what_was_found_and_is_gone_on_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log, asked = tmp_path / "log.jsonl", ["--engine", "host", "--log", str(tmp_path / "log.jsonl")]
    for name in "ab":
        (tmp_path / f"{name}.onnx").write_bytes(to_model(small.module).SerializeToString())
    known = {"file": "a.onnx", "engine": "host", "line": "a.onnx: disagree", "agrees": False}
    log.write_text(json.dumps(known | {"seconds": 9.5}) + "\n", "utf-8")
    assert models.main([str(tmp_path), *asked]) == 1
    out, err = capfd.readouterr()
    assert "a.onnx: disagree (9.5 s)\nb.onnx: agrees on graph passes loop kernel plan" in out
    assert "b.onnx:\n" in err
    assert " s lower\n" in err
    assert " s host\n" in err
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert [(r["file"], r["agrees"]) for r in rows] == [("a.onnx", False), ("b.onnx", True)]
    assert models.main([str(tmp_path), *asked]) == 1
    again = capfd.readouterr()
    assert (again.out, again.err) == (out, "")


def test_a_model_that_takes_too_long_is_said_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.onnx").write_bytes(to_model(small.module).SerializeToString())
    assert models.main([str(tmp_path), "--engine", "host", "--seconds", "0.01"]) == 1
    assert "a.onnx: not done within 0.01 s" in capfd.readouterr().out
