"""Recipes of schedules say of their blocks no less than their kernels take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.recipe import Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz.blocks import block_of, wrong
from didyma.fuzz.domains.lowering import Lowering
from didyma.fuzz.domains.ways import CHOICES, compiled, plain
from didyma.refimpl.ir.text import parse_loop

TEXT = """
kernel @f(x: f32[64], y: f32[64]) writes (y) {
  for b in 2 bound blockIdx.x {
    alloc s: f32[{}] shared
    alloc r: f32[8] local
    for t in 32 bound threadIdx.x {
      s[t] = x[b * 32 + t]
      barrier
      y[b * 32 + t] = s[31 - t]
    }
  }
}
"""


def test_a_block_has_its_threads_and_what_they_share() -> None:
    (k,) = parse_loop(TEXT.replace("{}", "40", 1))
    assert block_of(k) == (32, 160)


def test_points_of_functions_that_are_no_more_are_passed_over() -> None:
    d = Lowering()
    case = next(c for c in map(d.draw, [5] * 60, range(60)) if CHOICES in dict(c.changes))
    made, _ = compiled(case, d.options)
    choices = {"gone": (Point.of("pointwise", block=32, each=1, wide=0),)}
    assert not [*wrong(made, plain(case, d.options), choices)]


def threads(said: tuple[int, int]) -> tuple[int, int]:
    return said[0] - 1, said[1]


def shared(said: tuple[int, int]) -> tuple[int, int]:
    return said[0], said[1] // 2


@pytest.mark.parametrize("less", [threads, shared])
def test_a_recipe_that_says_too_little_is_found(
    less: Callable[[tuple[int, int]], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = Lowering()
    cases = [c for c in map(d.draw, [5] * 60, range(60)) if CHOICES in dict(c.changes)]
    assert not [f for c in cases for f in d.outcome(c).findings]
    said = {r.name: r.block for r in dispatch.RECIPES}

    def slipping(name: str) -> Callable[[Work, Values], tuple[int, int]]:
        return lambda work, values: less(said[name](work, values))

    slips = tuple(replace(r, block=slipping(r.name)) for r in dispatch.RECIPES)
    monkeypatch.setattr(dispatch, "RECIPES", slips)
    assert "block" in {f.where for c in cases for f in d.outcome(c).findings}
