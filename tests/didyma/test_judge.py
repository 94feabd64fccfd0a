"""What goes wrong while judging is a finding of its level; it never takes the command along."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.status import Status

import didyma as dd
from didyma.codegen.options import Options
from didyma.commands import common
from didyma.commands.judge import Task, Verdict, guarded, judge, print_verdict
from didyma.fuzz import levels
from didyma.oracle.report import Finding, Level, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.didyma.cli import EXP, didyma
from tests.fuzz.hurry import put_forward

Progress = Callable[[str], None]
TASK = Task(parse_module(EXP), {}, (1,), ("host",), Options())


def aborts(task: Task, progress: Progress) -> Verdict:
    progress("host")
    os.abort()


def segfaults(task: Task, progress: Progress) -> Verdict:
    progress("host")
    ctypes.string_at(0)
    raise AssertionError


def exits(task: Task, progress: Progress) -> Verdict:
    progress("host")
    os._exit(7)


def hangs(task: Task, progress: Progress) -> Verdict:
    progress("host")
    time.sleep(60)
    raise AssertionError


def fails(task: Task, progress: Progress) -> Verdict:
    raise ZeroDivisionError("in the judge")


def refuses(task: Task, progress: Progress) -> Verdict:
    raise DidymaError("bad-option", "x", got="a", want="b")


def eats(task: Task, progress: Progress) -> Verdict:
    raise MemoryError("Unable to allocate 9 TiB")


def lies(task: Task, progress: Progress) -> Verdict:
    """Judge with an engine whose results are one bit off."""

    class Liar(levels.EngineBackend):
        def run_function(
            self, function: str, inputs: Sequence[Array], env: Mapping[str, int], variant: int = 0
        ) -> tuple[Array, ...]:
            (out,) = super().run_function(function, inputs, env, variant)
            raw = out.view(np.uint32)
            raw[-1, -1] ^= 1 << 12
            return (out,)

    levels.EngineBackend = Liar  # type: ignore[misc]  # this process ends with the judgement
    return judge(task, progress)


@pytest.mark.parametrize(
    ("run", "kind", "reason"),
    [
        (aborts, "crash", "SIGABRT"),
        (segfaults, "crash", "SIGSEGV"),
        (exits, "crash", "exit code 7"),
    ],
)
def test_a_crash_is_a_finding(
    run: Callable[[Task, Progress], Verdict],
    kind: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    v = guarded(TASK, 60, run)
    (f,) = v.report.findings
    assert (f.level, f.kind) == ("host", kind)
    assert reason in f.message
    assert print_verdict(v, json=True) == common.DISAGREE
    assert '"agree": false' in capsys.readouterr().out


def test_a_hang_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    later = put_forward(monkeypatch)

    def update(status: Status, word: str) -> None:
        del status, word
        later(120)

    monkeypatch.setattr(Status, "update", update)
    v = guarded(TASK, 120, hangs)
    (f,) = v.report.findings
    assert (f.level, f.kind) == ("host", "hang")
    assert "120 s" in f.message


def test_a_wrong_engine_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    v = guarded(TASK, 60, lies)
    assert {f.level for f in v.report.findings} == {"host"}
    assert {f.kind for f in v.report.findings} == {"value"}
    assert print_verdict(v, json=False) == common.DISAGREE
    out = capsys.readouterr().out
    assert "DISAGREE" in out
    assert "host: fused_exp_0 (value)" in out


def test_a_failure_of_the_judge_is_none_of_the_program() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: in the judge"):
        guarded(TASK, 60, fails)
    with pytest.raises(DidymaError, match="bad-option"):
        guarded(TASK, 60, refuses)
    with pytest.raises(DidymaError, match="too-large"):
        guarded(TASK, 60, eats)


def test_many_findings_are_cut_for_people_alone(capsys: pytest.CaptureFixture[str]) -> None:
    many = (Finding("loop", f"f{i}", "value", "wrong [bold]") for i in range(30))
    level = Level("loop", findings=tuple(many))
    v = Verdict(Report((level,)), {})
    print_verdict(v, json=False)
    out = capsys.readouterr().out
    assert out.count("wrong [bold]") == 20
    assert "and 10 more" in out
    print_verdict(v, json=True)
    assert capsys.readouterr().out.count("wrong [bold]") == 30


NOTED = """module {
  dims n in [1, 100]
  func @g(%a: f32[n, 8]) -> (%b) attrs(Compiler="mine") {
    %b = exp(%a) : f32[n, 8]
  }
  func @f(%x: f32[n, 8]) -> (%z) {
    %y = sin(%x) : f32[n, 8]
    %z = call(%y, callee="g") : f32[n, 8]
  }
}
"""


def test_a_verdict_notes_how_laws_were_verified_and_what_nothing_implements(
    tmp_path: Path,
) -> None:
    file = tmp_path / "noted.dym"
    file.write_text(NOTED)
    said = didyma("check", file, "--engine", "host", "--tries", "2")
    assert "plan: symbolic laws: " in said.out
    assert "proved" in said.out
    assert "program: without an implementation, so run by the reference: g" in said.out
    rows = {r["name"]: r for r in didyma("check", file, "--tries", "1", "--json").json["levels"]}
    assert rows["plan"]["note"].startswith("symbolic laws: ")
    assert "note" not in rows["graph"]
    assert "symbolic laws: " in repr(dd.check(dd.load(file), tries=1))
