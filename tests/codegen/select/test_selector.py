"""The selector: duplicates, wrong candidates, crashes, hangs, and what is left."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select import choice as choices
from didyma.codegen.select import worker
from didyma.codegen.select.choice import Candidate, Choice, build, distinct, first, ranked
from didyma.codegen.select.race import FEWEST
from didyma.codegen.select.runs import run_once
from didyma.codegen.select.selector import Limits, Lost, Trial, select
from didyma.codegen.select.worker import Say
from didyma.refimpl.errors import DidymaError
from didyma.tuning import isolated
from tests.codegen.lower.judged import primitive
from tests.codegen.make import Graph
from tests.codegen.select.make import impatient, inline, loop, task

FEW = Limits(seconds=1.0, timeout=20.0, candidates=6)
MANY = Limits(seconds=60.0, timeout=20.0, candidates=6)


def right(c: Candidate, engine: Engine) -> str:
    del c, engine
    return ""


def only_columns(c: Candidate, engine: Engine) -> str:
    del engine
    return "" if c.choice.points[0].recipe == "column" else "planted: wrong sums"


def crashes_at_rows(c: Candidate, engine: Engine) -> str:
    if c.choice.points[0].recipe == "row":
        os.abort()
    return right(c, engine)


def hangs_at_columns(c: Candidate, engine: Engine) -> str:
    if c.choice.points[0].recipe == "column":
        time.sleep(60)
    return right(c, engine)


def takes_all_memory(c: Candidate, engine: Engine) -> str:
    if c.choice.points[0].recipe == "serial":
        raise MemoryError
    return right(c, engine)


def test_equal_kernels_are_one_candidate() -> None:
    f = loop(6, 90)
    every = [build(f, Options(), c) for c in ranked(f, Options())]
    found = [*distinct(every)]
    assert len({c.text.source for c in every}) == len(found) < len(every)
    assert found[0] == every[0]


def test_candidates_differ_in_kind_first() -> None:
    f = loop(6, 90)
    order = list(ranked(f, Options()))
    assert order[0] == first(f, Options())
    assert {c.points[0].recipe for c in order[:3]} == {"row", "column", "serial"}
    assert len(order) == len(set(order))


def test_a_candidate_run_once_returns_what_the_loops_do() -> None:
    f, x = loop(), np.arange(540, dtype=np.float32).reshape(6, 90)
    for c in list(ranked(f, Options()))[:3]:
        made = build(f, Options(), c)
        for name in ("host", "simt"):
            (y,) = run_once(engine(name), f, made, [x], {})
            assert np.array_equal(y, x.sum(1))


def test_the_pick_is_right_and_timed() -> None:
    found = select(task(), only_columns, inline, FEW)
    assert found.picked.choice.startswith("column(")
    assert found.usual.choice.startswith("column(")
    assert found.picked.seconds is not None
    wrong = [t for t in found.trials if t.reason]
    assert {t.reason for t in wrong} == {"planted: wrong sums"}
    assert all(t.seconds is None for t in wrong)
    assert found.trials[0].choice == str(first(loop(), Options()))


def test_children_end_when_nobody_waits_for_them() -> None:
    """One thread is interrupted; the children of the others say their next word in vain."""
    begun = threading.Barrier(3)
    ended: list[str] = []

    def interrupted(f: Any, args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        begun.wait()
        if str(args[2][0]) == str(first(loop(), Options())):
            raise KeyboardInterrupt
        try:
            for _ in range(3000):
                say(json.dumps({"choice": str(args[2][0]), "reason": ""}))
                time.sleep(0.01)
        except Exception as e:
            ended.append(type(e).__name__)
            raise
        return None

    with pytest.raises(KeyboardInterrupt):
        select(task(), right, interrupted, replace(MANY, jobs=3))
    assert ended == ["_Stopped"] * 2


def test_what_the_checks_refuse_is_not_timed() -> None:
    """Only what both judges let pass is right, whichever speaks first."""
    timed: list[str] = []

    def watching(f: Any, args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        if f is worker.measure:
            timed.extend(map(str, args[1]))
        return inline(f, args, seconds, say)

    def no_rows(c: Candidate) -> str:
        return "planted: a race" if c.choice.points[0].recipe == "row" else ""

    heard: list[Trial] = []
    found = select(task(), only_columns, watching, MANY, heard=heard.append, checks=no_rows)
    assert timed
    assert all(name.startswith("column(") for name in timed)
    assert found.picked.choice in timed
    assert len({t.choice for t in heard}) == len(heard), "one verdict for each"
    reasons = {t.reason for t in heard if t.choice.startswith("row(")}
    assert reasons <= {"planted: a race", "planted: wrong sums"}


def test_a_child_that_is_lost_at_the_checks_takes_out_one_candidate() -> None:
    def crashing(c: Candidate) -> str:
        if c.choice.points[0].recipe == "row":
            os.abort()
        return ""

    def apart(f: Any, args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        if f is worker.check and str(args[2][0]).startswith("row("):
            say(json.dumps({"begin": str(args[2][0])}))
            return Lost("crash: planted")
        return inline(f, args, seconds, say)

    limits = Limits(seconds=60.0, candidates=3, jobs=3)
    found = select(task(), right, apart, limits, checks=crashing)
    out = {t.choice.partition("(")[0]: t.reason for t in found.trials if t.reason}
    assert out == {"row": "crash: planted"}


def test_no_valid_choice_says_why_each_fell() -> None:
    def wrong(c: Candidate, engine: Engine) -> str:
        del engine
        return f"planted for {c.choice.points[0].recipe}"

    with pytest.raises(DidymaError) as caught:
        select(task(), wrong, inline, MANY)
    assert caught.value.code == "no-valid-choices"
    for recipe in ("row", "column", "serial"):
        assert f"planted for {recipe}" in caught.value.got


def test_what_was_judged_before_is_not_judged_again() -> None:
    heard: list[Trial] = []
    select(task(), only_columns, inline, MANY, heard=heard.append)
    known = {t.text: t.reason for t in heard}
    again: list[Trial] = []
    found = select(task(), right, inline, MANY, known, again.append)
    assert again == []
    assert found.picked.choice.startswith("column(")


def test_time_that_is_over_ends_the_judging() -> None:
    def slow(c: Candidate, engine: Engine) -> str:
        time.sleep(0.3)
        return right(c, engine)

    found = select(task(), slow, inline, Limits(seconds=0.2, candidates=20))
    assert len(found.trials) == 1


@pytest.mark.parametrize(
    ("judge", "recipe", "reason"),
    [(crashes_at_rows, "row", "SIGABRT"), (hangs_at_columns, "column", "no answer")],
)
def test_a_candidate_that_takes_its_child_along_is_out(
    judge: worker.Judge, recipe: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(seconds=300.0, timeout=60.0, candidates=3)
    isolate = impatient(monkeypatch, "column(") if judge is hangs_at_columns else isolated
    found = select(task(), judge, isolate, limits)
    out = {t.choice.partition("(")[0]: t.reason for t in found.trials if t.reason}
    assert list(out) == [recipe]
    assert reason in out[recipe]
    assert found.picked.seconds is not None
    assert not found.picked.choice.startswith(recipe)


def test_too_much_memory_takes_out_one_candidate() -> None:
    found = select(task(), takes_all_memory, inline, Limits(seconds=60, candidates=3))
    assert [t.reason for t in found.trials if t.reason] == ["more memory than there is"]


def test_a_child_that_is_lost_while_timing_takes_out_one_candidate() -> None:
    def losing(f: Any, args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        if f is worker.measure and len(args[1]) == 3:
            say(json.dumps({"begin": str(args[1][1])}))
            return Lost("crash: planted")
        return f(*args, say)

    found = select(task(), right, losing, Limits(seconds=1.0, candidates=3))
    assert [t.reason for t in found.trials] == ["", "crash: planted", ""]
    assert found.picked.choice != found.trials[1].choice


def test_children_that_never_answer_leave_nothing() -> None:
    def lost(f: Any, args: tuple[Any, ...], seconds: float, say: Say) -> Any:
        del f, args, seconds, say
        return Lost("crash: no child starts")

    with pytest.raises(DidymaError, match="no child starts") as caught:
        select(task(), right, lost, MANY)
    assert caught.value.code == "no-valid-choices"
    assert caught.value.got.count("no child starts, before it began") == 1
    assert "__main__" in caught.value.help


def test_a_choice_of_another_function_is_refused() -> None:
    with pytest.raises(DidymaError) as caught:
        build(loop(), Options(), Choice.parse("matmul(tile=16)"))
    assert caught.value.code == "bad-choice"


def test_kernels_of_a_choice_may_do_what_their_target_lets_them() -> None:
    g = Graph()
    x = g.param("x", 2, 300)
    m = primitive(g.module(g("cumulative_sum", x, axis=1, exclusive=False, reverse=False), dims=()))
    given = {"target": "sm_90a", "kernels.waits": True, "graph.long_run": 8}
    made = build(
        lower(m.entry, m), Options().changed(given), Choice.parse("chain(lanes=32, turns=1)")
    )
    assert "chain_" in made.text.source


def test_a_digest_is_of_the_text() -> None:
    a = build(loop(), Options(), first(loop(), Options()))
    b = build(replace(loop(), name="g"), Options(), first(loop(), Options()))
    assert a.digest == b.digest == choices.digest(a.text.source)
    assert Path(a.digest).name == a.digest


def test_each_sample_begins_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    found = select(task(), right, inline, Limits(seconds=1.0, candidates=2, rest=0.25))
    assert found.picked.seconds is not None
    assert set(slept) == {0.25}
    assert len(slept) >= 2 * FEWEST
