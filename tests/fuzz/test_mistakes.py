"""Spoilt steps and texts of schedules are refused, and one that is not is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from didyma.codegen.schedule.steps import choose
from didyma.codegen.schedule.steps.apply import apply
from didyma.codegen.schedule.steps.text import ScheduleText, parse_all
from didyma.fuzz.schedules import cases, mistakes
from didyma.fuzz.schedules.cases import TARGET
from didyma.fuzz.schedules.mistakes import SELDOM, broken
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc

CASES = 60


@cache
def drawn() -> list[cases.Case]:
    """Return schedules of at least one step."""
    found = [cases.draw(5, index, forms=forms) for index in range(CASES) for forms in (False, True)]
    return [c for c in found if c.schedule and c.after]


def told() -> Iterator[str]:
    """Yield what is said of the mistakes in each schedule."""
    for n, c in enumerate(drawn()):
        yield broken(c.schedule, (c.subject.func, *(c.after or ())), TARGET, SELDOM * n)


def test_mistakes_in_schedules_are_refused() -> None:
    assert [s for s in told() if s] == []


@pytest.mark.parametrize(
    ("name", "raised", "said"),
    [
        ("apply", None, " is taken"),
        ("apply", ValueError("no"), " ends in ValueError: no"),
        ("apply", DidymaError("parse", "here", got="a", want="b"), " is refused by parse, want "),
        ("run", None, "` is taken with noalias=false"),
    ],
)
def test_what_is_not_refused_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, raised: Exception | None, said: str
) -> None:
    drawn()

    def other(step: Any, f: PrimFunc, target: Any) -> tuple[PrimFunc, ...]:
        if raised is not None:
            raise raised
        return (f,)

    monkeypatch.setattr(mistakes, name, other)
    assert all(said in s for s in told())


def test_an_error_that_leaves_out_the_wrong_word_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(step: Any, f: PrimFunc, target: Any) -> PrimFunc:
        try:
            return apply(step, f, target)
        except DidymaError as e:
            raise DidymaError(e.code, e.where, got="a", want="b") from None

    drawn()
    monkeypatch.setattr(mistakes, "apply", silent)
    assert any("the error does not say absent_0" in s for s in told())


def test_a_second_schedule_of_a_function_that_is_read_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def last(text: str, known: Mapping[str, str]) -> dict[str, ScheduleText]:
        names = {key: name for name, key in known.items()}
        return {names.get(s.function, s.function): s for s in parse_all(text)}

    monkeypatch.setattr(choose, "by_function", last)
    assert all(s.endswith("is read, want name-taken") for s in told())


def test_a_loop_that_is_gone_without_its_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = choose.stepped

    def unexplained(s: ScheduleText, f: PrimFunc, target: Any) -> PrimFunc:
        try:
            return stepped(s, f, target)
        except DidymaError as e:
            raise DidymaError(e.code, e.where, got="a", want="b", line=e.line) from None

    monkeypatch.setattr(choose, "stepped", unexplained)
    assert any(", is refused by " in s for s in told())
