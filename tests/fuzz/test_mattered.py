"""A decision matters where a wrong value of it reaches a result that the judge compares."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.pipeline import Fused, compile
from didyma.codegen.rules import places, rules
from didyma.fuzz.graphs import Case
from didyma.fuzz.mattered import ENOUGH, Examiner, matters, perturbed, replaced, reversed_
from didyma.fuzz.steering.draw import draw
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify.graph import verify

TEXT = """module {
  func @main(%x: i32[5], %z: i32[]) -> (%last) {
    %a = negative(%x) : i32[5]
    %b = negative(%a) : i32[5]
    %last = LAST : i32[5]
  }
}"""
RULE = "involution or idempotence"
X = np.array([1, 2, 3, 4, 5], np.int32)


def compiled(last: str) -> tuple[Case, Fused, dict[str, list[str]]]:
    case = Case(parse_module(TEXT.replace("LAST", last)), (), (1, 2))
    heard: dict[str, list[str]] = {}

    def hear(name: str, value: str) -> None:
        heard.setdefault(name, []).append(value)

    return case, compile(case.module, until="fuse", heard=hear), heard


@pytest.mark.parametrize(
    ("last", "x", "z", "shows"),
    [
        ("add(%b, %x)", X, 3, True),
        ("multiply(%b, %z)", X, 3, True),
        ("multiply(%b, %z)", X, 0, False),  # whatever %b is, the product is 0
        (
            "add(%b, %x)",
            np.array([7] * 5, np.int32),
            3,
            False,
        ),  # an exchange of elements would not show
        ("add(%a, %x)", X, 3, False),  # nothing reads %b
    ],
)
def test_a_value_matters_if_it_reaches_a_result(last: str, x: Array, z: int, shows: bool) -> None:
    case, made, _ = compiled(last)
    assert matters(case, (x, np.array(z, np.int32)), made, "b") is shows


def test_a_wrong_value_is_another_everywhere() -> None:
    case, _, _ = compiled("add(%b, %z)")
    for how, want in ((reversed_, [6, 5, 4, 3, 2]), (replaced, [4, 4, 2, 4, 4])):
        wrong = perturbed(case.module, "b", how)
        assert wrong is not None
        verify(wrong)
        (got,) = graph.run(wrong, (X, np.array(1, np.int32)))
        assert got.tolist() == want


def test_decisions_are_examined_until_they_mattered_often_enough() -> None:
    case, made, heard = compiled("add(%b, %x)")
    assert heard[RULE] == ["b"]
    examiner, inputs = Examiner(), (X, np.array(3, np.int32))
    for _ in range(ENOUGH):
        found = set(examiner.keys(case, inputs, made, {RULE: ["b"]}))
        assert found == {("examined", RULE), ("mattered", RULE)}
    assert not list(examiner.keys(case, inputs, made, {RULE: ["b"]}))
    assert not list(examiner.keys(case, inputs, made, {"another": ["of a body"]}))


def test_decisions_about_schedules_and_memory_have_values() -> None:
    known = {d.name for d in rules()}
    valued = 0
    for index in range(12):
        case = draw(6, index)
        made = compile(case.module, until="plan")
        entry = {r for _, m in made.passes for n in m.entry.nodes for r in n.results}
        found = list(places(made))
        assert {name for name, _ in found} <= known
        valued += sum(value in entry for _, value in found)
    assert valued > 40
