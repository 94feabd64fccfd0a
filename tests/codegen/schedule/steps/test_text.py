"""The text form of schedules: what it refuses, and where it says that this is."""

from __future__ import annotations

import pytest

from didyma.codegen.schedule.steps.records import Fuse, Reorder, Split, Tail
from didyma.codegen.schedule.steps.text import FORMS, parse, show, show_step
from didyma.refimpl.errors import DidymaError

TEXT = """# how rows are spread
schedule @"a b" {
  split i by 8 peeled into x, y   # a rest
  fuse x, %"i2"
  reorder a, b, c reassociates
}
"""


def test_a_text_is_read_with_its_places() -> None:
    s = parse(TEXT)
    assert s.function == "a b"
    assert s.steps == (
        Split("i", 8, Tail.PEELED, ("x", "y")), Fuse(("x", "i2")), Reorder(("a", "b", "c"), True),
    )  # fmt: skip
    assert s.places == ((3, 3), (4, 3), (5, 3))
    assert parse(show(s.steps, s.function)).steps == s.steps


def test_names_that_nobody_gave_are_shown() -> None:
    assert show_step(Split("k", 4)) == "split k by 4 guarded into k_outer, k_inner"
    assert show_step(Fuse(("i", "j"))) == "fuse i, j into i_j"


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("schedule @f {\n  slice i by 8\n}", "unknown-step", "s.dys:2:3"),
        ("schedule @f {\n  split i 8\n}", "parse", "s.dys:2:11"),
        ("schedule @f {\n  split i by x\n}", "parse", "s.dys:2:14"),
        ("schedule @f {\n  fuse i,\n}", "parse", "s.dys:3:1"),
        ("schedule @f {\n  unroll i", "parse", "s.dys:2:11"),
        ("schedule f {}", "parse", "s.dys:1:10"),
        ("schedule @f {} x", "parse", "s.dys:1:16"),
    ],
)
def test_mistakes_have_a_line_and_a_column(text: str, code: str, where: str) -> None:
    with pytest.raises(DidymaError) as e:
        parse(text, "s.dys")
    assert e.value.code == code
    assert e.value.where == where


def test_an_unknown_step_lists_the_known_ones() -> None:
    with pytest.raises(DidymaError) as e:
        parse("schedule @f {\n  slice i by 8\n}")
    assert all(name in e.value.want for name in FORMS)
