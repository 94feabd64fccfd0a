"""What recipes and templates offer is told whole, taken or not."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from dataclasses import replace

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.recipe import Recipe, Values, fits
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz import offers
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_module

MODULE = """module {
  func @f(%x: f32[96, 128], %w: f32[128, 64]) -> (%s) {
    %y = matmul(%x, %w) : f32[96, 64]
    %s = sum(%y, axes=(1,), keepdims=false) : f32[96]
  }
}
"""


@pytest.fixture(name="made")
def _made() -> Compiled:
    return compile(parse_module(MODULE))


def told(made: Compiled) -> list[str]:
    return list(offers.lines(made, Options()))


def test_recipes_and_templates_that_a_compile_does_not_take_are_told(made: Compiled) -> None:
    lines = told(made)
    recipes = {line.split()[2] for line in lines if line[0] in "fms" and line.count(" ") == 2}
    assert len(recipes) > len(made.kernels), recipes
    assert any(line.startswith("tiled_gemm(") for line in lines)
    assert any(line.startswith("TextKernel(") and "tiled_gemm" in line for line in lines)
    assert lines == told(made)


def roomless(r: Recipe) -> Recipe:
    def block(w: Work, values: Values) -> tuple[int, int]:
        return r.block(w, values)[0], 1 << 40

    return replace(r, block=block)


def lawless(r: Recipe) -> Recipe:
    def legal(w: Work, values: Values) -> bool:
        return not r.legal(w, values)

    return replace(r, legal=legal)


def misbuilt(r: Recipe) -> Recipe:
    def build(w: Work, values: Values) -> tuple[PrimFunc, ...]:
        kernel, *more = r.kernels(w, values)
        return replace(kernel, name="other"), *more

    return replace(r, build=build)


@pytest.mark.parametrize("wrong", [roomless, lawless, misbuilt])
def test_a_change_of_a_recipe_that_is_not_taken_shows(
    made: Compiled, wrong: Callable[[Recipe], Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(made)
    work = dispatch.works(next(iter(made.loops.values())), Options())[0]
    suited = sorted(fits(work, dispatch.RECIPES), key=lambda pair: pair[0])
    assert len(suited) > 1
    last = suited[-1][1]
    every = tuple(wrong(r) if r is last else r for r in dispatch.RECIPES)
    monkeypatch.setattr(dispatch, "RECIPES", every)
    assert compile(made.source).text.source == made.text.source
    assert told(made) != before


def test_recipes_are_also_asked_about_a_device_with_little_room(
    made: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, before = Options().device, told(made)
    less = offers.small(device)
    assert device.covers(less)
    assert less.threads < device.threads
    assert less.room < device.room

    def wasteful(r: Recipe) -> Recipe:
        def block(w: Work, values: Values) -> tuple[int, int]:
            threads, shared = r.block(w, values)
            return threads, shared + (w.facts.target == less)

        return replace(r, block=block)

    monkeypatch.setattr(dispatch, "RECIPES", tuple(map(wasteful, dispatch.RECIPES)))
    assert told(made) != before


def test_values_near_the_usual_ones() -> None:
    assert doctest.testmod(offers).attempted > 0
    assert list(offers.near({"a": 1}, {"b": (2,)})) == [{"a": 1}]
