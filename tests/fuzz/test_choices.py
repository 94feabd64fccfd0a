"""What is no point of a recipe is refused, and what is one is taken: breaches of both are found."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from unittest import mock

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule.dispatch import points, schedule
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.recipe import Recipe
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz import choices
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module

ROWS = """
module {
  func @main(%x: f32[40, 96]) -> (%s) {
    %e = exp(%x) : f32[40, 96]
    %s = sum(%e, axes=(1,), keepdims=false) : f32[40]
  }
}
"""
NORM = """
module {
  func @main(%x: f32[40, 96], %w: f32[40, 96]) -> (%q, %s) {
    %m = mean(%x, axes=(1,), keepdims=true) : f32[40, 1]
    %d = subtract(%x, %m) : f32[40, 96]
    %q = multiply(%d, %w) : f32[40, 96]
    %s = sum(%q, axes=(0,), keepdims=false) : f32[96]
  }
}
"""
LOOPS = compile(parse_module(ROWS), until="lower").loops
check = Recipe.check


def takes_any(self: Recipe, work: Work, point: Point, where: str) -> None:
    del self, work, point, where


def takes_few(self: Recipe, work: Work, point: Point, where: str) -> None:
    check(self, work, point, where)
    if 0 in point.table.values():
        raise DidymaError("bad-choice", where, got=str(point), want="no 0")


def found() -> list[str]:
    return [w for seed in range(12) for w in choices.wrong(LOOPS, Options(), Random(seed))]


def test_points_of_recipes_are_taken_and_others_refused() -> None:
    assert not found()


@pytest.mark.parametrize(("other", "says"), [(takes_any, "not listed"), (takes_few, "is listed")])
def test_a_point_too_many_or_too_few_is_found(other: Callable[..., None], says: str) -> None:
    with mock.patch.object(Recipe, "check", other):
        try:
            assert any(says in w for w in found())
        except (KeyError, ZeroDivisionError):
            assert other is takes_any, "what no recipe expects ends the case"


def test_a_value_that_recipes_cannot_compute_with_is_refused() -> None:
    norm = compile(parse_module(NORM), until="lower").loops
    tried = 0
    for f in norm.values():
        ways = [*points(f, Options())]
        for point in {way[0].recipe: way[0] for way in reversed(ways)}.values():
            for k in point.table:
                none = Point.of(point.recipe, **{**point.table, k: 0})
                if (none,) not in ways:
                    with pytest.raises(DidymaError, match="bad-choice"):
                        schedule(f, Options(), (none,))
                    tried += 1
    assert tried > 10


TURNED = """
module {
  func @main(%x: bf16[64, 64]) -> (%y) {
    %y = permute_dims(%x, axes=(1, 0)) : bf16[64, 64]
  }
}
"""
EMPTY = """
module {
  func @main(%x: bf16[4, 0]) -> (%y) {
    %m = max(%x, axes=(1,), keepdims=true) : bf16[4, 1]
    %d = subtract(%x, %m) : bf16[4, 0]
    %e = exp(%d) : bf16[4, 0]
    %t = sum(%e, axes=(1,), keepdims=true) : bf16[4, 1]
    %y = divide(%e, %t) : bf16[4, 0]
  }
}
"""
NONE = """
module {
  func @main(%x: f32[0, 2]) -> (%v) {
    %m = mean(%x, axes=(1,), keepdims=true) : f32[0, 1]
    %d = subtract(%x, %m) : f32[0, 2]
    %s = square(%d) : f32[0, 2]
    %v = mean(%s, axes=(1,), keepdims=false) : f32[0]
  }
}
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (NONE, {"target": "sm_90a"}),
        (TURNED, {"kernels.block": 32, "kernels.vectorise": False}),
        (EMPTY, {"target": "sm_90a"}),
    ],
)
def test_small_blocks_and_empty_rows_have_points(text: str, options: dict[str, object]) -> None:
    asked = Options().changed(options)
    loops = compile(parse_module(text), asked, until="lower").loops
    assert [*choices.wrong(loops, asked, Random(1))] == []
    assert all(schedule(loop, asked) for loop in loops.values())


def test_a_function_is_scheduled_by_each_recipe_once() -> None:
    (loop,) = LOOPS.values()
    every = [*points(loop, Options())]
    texts = [*choices.made(loop, Options(), every)]
    recipes = {tuple(p.recipe for p in way) for way in every}
    assert 2 < len(recipes) <= len(texts)
    assert len({*texts}) == len(texts)
