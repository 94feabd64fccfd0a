"""The schedule fuzzer: what it draws, that it is clean, and that planted faults are found."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from statistics import median

import pytest

from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule.steps import text
from didyma.fuzz.domains.schedules import Schedules
from didyma.fuzz.schedules import cases, kept
from didyma.fuzz.schedules import judge as judging
from didyma.fuzz.schedules.judge import judge
from didyma.fuzz.schedules.topics import TOPICS
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import (
    BlockRealize,
    Broadcast,
    BufferRealize,
    Compute,
    ExternalAllocate,
    ExternalCall,
    Free,
    ProducerRealize,
    Ramp,
    Return,
)
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.walk import exprs, stmts
from tests.mutants import form_slips, named, planting
from tests.mutants.forking import Say, forked
from tests.mutants.step_slips import FAULTS
from tests.mutants.target import Target


def test_a_case_is_a_function_of_seed_and_index() -> None:
    for index in range(4):
        case = cases.draw(3, index)
        assert case == cases.draw(3, index)
        assert pickle.loads(pickle.dumps(case)) == case
        assert case.after is not None
        assert len(case.after) == len(case.schedule)


def test_schedules_are_long_and_refusals_many() -> None:
    drawn = [cases.draw(5, index) for index in range(24)]
    assert median(len(c.schedule) for c in drawn) >= cases.MEDIAN / 2
    assert {r.code for c in drawn for r in c.refused} >= {"dependence", "bad-step", "not-nested"}


def test_a_short_campaign_finds_nothing_and_forces_refused_steps() -> None:
    host, forced = [engine("host")], Counter[str]()
    for index in range(24):
        found = judge(cases.draw(11, index), host)
        assert not found.findings
        forced.update(came for _, came in found.forced)
    assert forced["differs"]


def test_the_report_counts_steps() -> None:
    domain = Schedules(("host",))
    outcome = domain.judge()(case := domain.draw(1, 1))
    counts = domain.summary(Counter(outcome.covered))
    assert sum(counts["steps"].values()) == len(case.schedule)
    assert sum(counts["refused"].values()) == len(case.refused)


def test_the_steps_of_every_topic_are_taken_and_refused() -> None:
    taken, refused = set[str](), set[str]()
    for index in range(1, 160, 2):
        case = cases.draw(7, index)
        if (topic := case.subject.topic) is not None:
            taken |= {topic} if case.schedule else set()
            refused |= {topic} if any(not r.after for r in case.refused) else set()
    assert taken == {*TOPICS}
    assert refused >= {"order", "lanes", "ahead", "as one", "parts", "places", "calls"}


PLANTED = (  # named faults that the first cases show
    "a dependence ignored by reorder", "a dependence ignored by join, which fuses loops",
    "a dependence ignored by parallel", "a missing tail guard", "a peeled tail dropped",
    "a stage that is read before it is filled",
)  # fmt: skip


def test_planted_faults_are_found() -> None:
    """``python -m tests.mutants --only steps/`` hunts for more of them, and for longer."""
    chosen = [f for f in FAULTS if f.name in PLANTED]
    assert len(chosen) == len(PLANTED)
    ended = list(forked([named.target(f) for f in chosen], _hunt, 1))
    assert {e.work.name: e.said for e in ended if e.said != ["found"]} == {}


def test_every_form_is_drawn_and_judged() -> None:
    host, seen = [engine("host")], set[type]()
    for case in (cases.draw(3, index, forms=True) for index in range(40)):
        assert not judge(case, host).findings, show(case.subject.func)
        seen.update(map(type, stmts(case.subject.func.body)))
        seen.update(map(type, exprs(case.subject.func.body)))
    assert seen >= {
        BlockRealize, Ramp, Broadcast, Compute, ProducerRealize, BufferRealize, ExternalAllocate,
        ExternalCall, Free, Return,
    }  # fmt: skip


def test_planted_faults_in_forms_are_found() -> None:
    ended = list(forked([named.target(f) for f in form_slips.FAULTS], _hunt_forms, 1))
    assert {e.work.name: e.said for e in ended if e.said != ["found"]} == {}


def _hunt_forms(t: Target, say: Say) -> None:
    """Plant a fault in this child, and say whether a function of forms shows it."""
    assert t.mutant is not None
    planting.Planter().plant(t.mutant)
    host, drawn = [engine("host")], (cases.draw(5, index, forms=True) for index in range(60))
    try:
        found = any(judge(case, host).findings for case in drawn)
    except KeyError:  # a buffer that is used before it is made: a campaign reports that, too
        found = True
    say("found" if found else "not found")


def _hunt(t: Target, say: Say) -> None:
    """Plant a fault in this child, and say whether one of the first cases is wrong."""
    assert t.mutant is not None
    planting.Planter().plant(t.mutant)
    found = any(judge(cases.draw(11, i), ()).findings for i in range(120))
    say("found" if found else "not found")


def test_a_schedule_whose_text_reads_otherwise_is_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = next(c for i in range(9) if (c := cases.draw(11, i)).schedule)
    read = text.parse

    def parsed(written: str) -> text.ScheduleText:
        return replace(read(written), steps=case.schedule[1:])

    monkeypatch.setattr(text, "parse", parsed)
    (found,) = judge(case, ()).findings
    assert (found.level, found.kind) == ("schedule", "text")


def test_what_refusals_say_and_the_text_of_kernels_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = (cases.draw(5, index) for index in range(24))
    case = kept.brief(next(c for c in drawn if c.schedule and c.refused))
    before = judge(case, []).counters
    shorter = judge(replace(case, schedule=case.schedule[:-1], refused=()), []).counters
    assert before["text: kernels"] != shorter["text: kernels"]
    code = case.refused[0].code

    def refused(*_: object) -> None:
        raise DidymaError(code, "elsewhere", got="another", want="one")

    monkeypatch.setattr(judging, "apply", refused)
    other = judge(replace(case, refused=case.refused[:1]), [])
    assert not other.findings
    monkeypatch.undo()
    same = judge(replace(case, refused=case.refused[:1]), []).counters
    assert {k for k in same if same[k] != other.counters[k]} == {"text: refusals"}


def test_a_kept_schedule_is_held_to_what_was_taken_and_refused() -> None:
    drawn = (cases.draw(5, index) for index in range(24))
    case = kept.brief(next(c for c in drawn if c.schedule and c.refused))
    again = kept.recorded(*kept.record(case))
    assert again == case
    assert not judge(again, []).findings
    refused = case.refused[0]
    lenient = replace(refused, step=case.schedule[refused.after - 1], after=refused.after - 1)
    last = replace(refused, step=case.schedule[-1], after=len(case.schedule) - 1)
    for wrong in (lenient, last) if refused.after else (last,):
        (f,) = judge(replace(again, refused=(wrong,)), []).findings
        assert f.kind == "accepted"
        assert f.message.endswith(f"kept {refused.code}")
    (f,) = judge(replace(again, refused=(replace(refused, code="name-taken"),)), []).findings
    assert f"is {refused.code} after" in f.message
    assert f.message.endswith("kept name-taken")
    (f,) = judge(replace(again, schedule=(refused.step,), refused=()), []).findings
    assert f.kind == "error"


def test_a_kept_schedule_changes_after_some_of_its_steps() -> None:
    case = kept.brief(cases.draw(5, 3))
    some = [kept.changed(case, seed) for seed in range(8)]
    assert some == [kept.changed(case, seed) for seed in range(8)]
    assert len({c.schedule for c in some}) > 3
    assert all(not judge(c, []).findings for c in some)
