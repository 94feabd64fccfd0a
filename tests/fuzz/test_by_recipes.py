"""Functions of loops that are scheduled by recipes: what these offer is told, and must be right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.fuzz.schedules import by_recipes, kept
from didyma.fuzz.schedules.cases import Case
from didyma.fuzz.schedules.functions import Subject
from didyma.fuzz.schedules.judge import judge
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop

RUNNING = """
primfunc @f(x: i32[8], y: i32[8]) writes (y) {
  for i0 in 8 parallel {
    let e = x[i0]
    fold (c = 0:i32) over (k0 in i0 + 1) by (t: i32) -> (c + t) {
      yield (x[k0] + VALUE)
    }
    y[i0] = c
  }
}
"""


def case(value: str) -> Case:
    (f,) = parse_loop(RUNNING.replace("VALUE", value))
    return Case(Subject(f, (), 3, small=True, options=(("target", "sm_90a"),)), ())


def test_what_recipes_offer_is_told_and_right() -> None:
    found = judge(case("1:i32"), ())
    assert not found.findings
    assert set(found.counters) == {"text: offers"}
    assert "scan" in by_recipes.told(case("1:i32").subject)
    assert found.counters != judge(case("2:i32"), ()).counters


def test_terms_that_differ_from_element_to_element_are_no_running_fold() -> None:
    assert not judge(case("e"), ()).findings
    assert "scan" not in by_recipes.told(case("e").subject)


def test_kernels_that_do_something_else_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    other = case("2:i32").subject.func

    def wrong(*args: object) -> tuple[PrimFunc, ...]:
        return (other,)

    monkeypatch.setattr(by_recipes, "schedule", wrong)
    (found,) = judge(case("1:i32"), ()).findings
    assert (found.level, found.kind) == ("loop", "value")
    assert found.message.startswith("y is [")


def test_an_error_of_a_recipe_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(by_recipes, "works", broken)
    (found,) = judge(case("1:i32"), ()).findings
    assert (found.kind, "ZeroDivisionError" in found.message) == ("error", True)


def test_a_kept_function_keeps_its_options() -> None:
    c = case("1:i32")
    assert kept.recorded(*kept.record(c)) == c
    again = kept.changed(c, 5)
    assert again == Case(replace(c.subject, seed=again.subject.seed), ())
