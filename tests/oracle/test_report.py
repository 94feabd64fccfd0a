"""The word for a judgement: "agree" is never said where nothing was checked."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.checking import Checked
from didyma.codegen.options import Options
from didyma.commands import common
from didyma.commands.judge import Verdict, print_verdict
from didyma.fuzz.domains.graphs import GraphJudge
from didyma.fuzz.graphs import Case
from didyma.oracle.compare import Comparison
from didyma.oracle.report import Agreement, Finding, Level, Report, Setting, merged
from didyma.refimpl.ir.text import parse_module
from didyma.tracer.tracing import Program

SOME, NONE, EMPTY = Comparison(3, 4, 0.5), Comparison(0, 4, 0.0), Comparison(0, 0, 0.0)
WRONG = Finding("host", "f", "value", "wrong")


def level(name: str, *seen: Comparison, subject: str = "") -> Level:
    return Level(name, seen, subject=subject)


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [
        ((), Agreement.UNCHECKED),
        ((level("graph"),), Agreement.UNCHECKED),
        ((level("graph", EMPTY),), Agreement.UNCHECKED),
        ((level("graph", NONE),), Agreement.UNCHECKED),
        ((Level("plan", checks=9),), Agreement.UNCHECKED),
        ((level("graph", SOME), level("loop")), Agreement.AGREE),
        ((level("graph", SOME), level("host", NONE, subject="host")), Agreement.UNCHECKED),
        ((level("graph", SOME), level("host", SOME, subject="host")), Agreement.AGREE),
        (
            (
                level("graph", SOME),
                level("onnxruntime", NONE, subject="onnxruntime"),
                level("onnxruntime, by kernel", SOME, subject="onnxruntime"),
            ),
            Agreement.AGREE,
        ),
        (
            (level("graph", SOME), level("onnxruntime", NONE, subject="onnxruntime")),
            Agreement.UNCHECKED,
        ),
        ((level("graph", SOME), Level("host", findings=(WRONG,))), Agreement.DISAGREE),
        ((Level("host", findings=(WRONG,)),), Agreement.DISAGREE),
    ],
)
def test_the_outcome(
    levels: tuple[Level, ...], outcome: Agreement, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(levels)
    assert report.outcome is outcome
    assert report.agree is (outcome is Agreement.AGREE)
    exits = {Agreement.AGREE: 0, Agreement.DISAGREE: 1, Agreement.UNCHECKED: common.NOTHING_RAN}
    assert print_verdict(Verdict(report, {}), json=False) == exits[outcome]
    title, *_ = capsys.readouterr().out.splitlines()
    assert title.strip() == outcome
    assert print_verdict(Verdict(report, {}), json=True) == exits[outcome]


def test_a_level_says_what_it_checked() -> None:
    assert level("loop").outcome is Agreement.UNCHECKED
    assert level("loop", NONE, EMPTY).outcome is Agreement.UNCHECKED
    assert level("loop", NONE).checked_share == level("loop").checked_share == 0
    assert Level("plan", checks=1).outcome is Agreement.AGREE
    assert level("loop", NONE, SOME).checked_share == 3 / 8
    assert Report(()).checked_share == 0


def test_what_is_unchecked_is_no_finding_of_a_campaign() -> None:
    m = parse_module("module {\n  func @main(%x: f32[0]) -> (%x) {\n  }\n}")
    report = dd.check(Program(m))
    assert report.outcome is Agreement.UNCHECKED
    assert GraphJudge([], Options())(Case(m, (), (1,))).findings == ()


def test_a_program_without_kernels_is_judged_by_its_results() -> None:
    m = parse_module("module {\n  func @main(%x: f32[3]) -> (%x) {\n  }\n}")
    report = dd.check(Program(m))
    assert report.agree
    assert {v.name for v in report.levels if not v.agree} <= {"graph", "loop", "kernel"}


def test_rounds_are_merged_level_by_level() -> None:
    one = Report((level("host", SOME, subject="host"), level("host", NONE, subject="host")))
    two = Report((Level("host", (SOME,), (WRONG,), 2.0, 1, "host"),), refused="n = 9", refusals=1)
    both = merged([one, two, one], Setting(seed=4, rounds=("a", "b", "c")))
    first, second = both.levels
    assert (first.rounds, first.seconds, first.unjudged, first.total) == (3, 2.0, 1, 12)
    assert (second.rounds, second.total) == (2, 8)
    assert (both.refused, both.refusals, both.findings) == ("n = 9", 1, (WRONG,))


def test_a_report_is_shown_in_a_few_lines() -> None:
    rng = np.random.default_rng(0)
    setting = Setting({"n": 3, "m": 4}, frozenset("m"), ("host",), 7, ("normal", "mixed"))
    levels = [level(f"level {i}", Comparison(3, 4, float(rng.random()))) for i in range(10)]
    levels += [Level("host", findings=(Finding("host", "f", "value", "x" * 999),) * 30)]
    shown = repr(Checked(tuple(levels), "too long", setting, 1)).splitlines()
    assert len(shown) <= 20
    assert max(map(len, shown)) <= 200
    assert shown[0] == "Report: DISAGREE, 2 rounds, seed 7"
    assert shown[1] == "  sizes: n = 3 (default), m = 4"
    assert "and 27 more findings" in shown[-1]
    assert repr(Report(tuple(levels))).startswith("Report: DISAGREE, host: f: xxx")
