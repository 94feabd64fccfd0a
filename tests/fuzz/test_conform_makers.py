"""The suites of codegens, recipes and passes fail parts that are wrong or do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.schedule.pointwise import elementwise
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz import conform_makers
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.loop import Binary, Expr, PrimFunc, Stmt, Store
from didyma.refimpl.ir.walk import map_stmt
from didyma.testing import (
    CodegenConformance,
    EngineConformance,
    PassConformance,
    PeerConformance,
    PlannerConformance,
    RecipeConformance,
)
from tests.errors.test_codes import says

n = dd.dim("n", 1, 4096)


@dd.trace(dd.f32[64])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


@dd.trace(dd.f32[n])
def wave(x: dd.Tensor) -> dd.Tensor:
    return dd.cos(-x)


TEXT = """extern "C" __global__ void twice(const f32 *x, f32 *y) {
  const i64 i = blockIdx.x * 16 + threadIdx.x;
  y[i] = x[i] * 2.0f;
}
"""


def space(asked: Asked) -> dict[str, tuple[int, ...]] | None:
    ops = [node.op for node in asked.function.nodes]
    return (
        {"block": (16,)} if ops == ["add"] and str(asked.loop.params[0].shape) == "(64,)" else None
    )


def template(text: str) -> Template:
    def render(asked: Asked, values: Values) -> dd.TextKernel:
        del asked, values
        return dd.TextKernel(text, ("x",), ("y",), (4, 1, 1), (16, 1, 1))

    return Template("twice", space, lambda asked, values: 1.0, render)


def recipe(*, wrong: bool) -> Recipe:
    def fit(work: Work) -> Fit | None:
        return Fit.TILED if work.kind == "pointwise" and work.fold is None else None

    def build(work: Work, values: Values) -> PrimFunc:
        facts = work.serial
        facts.block, facts.wide = values["block"], False
        made = elementwise(facts, "plain")
        return replace(made, body=_doubled(made.body)) if wrong else made

    return Recipe(
        "plain", fit, lambda work: {"block": 32}, lambda work: {"block": (32,)},
        lambda work, values: (values["block"], 0), build,
    )  # fmt: skip


def _same(e: Expr) -> Expr:
    return e


def _doubled(s: Stmt) -> Stmt:
    if isinstance(s, Store):
        return replace(s, value=Binary("add", s.value, s.value))
    return map_stmt(s, _same, _doubled)


def rewrite(old: str, new: str) -> conform_makers.Pass:
    def run(m: Module) -> Module:
        return replace(m, functions=tuple(map(of_function, m.functions)))

    def of_function(f: Function) -> Function:
        nodes = (replace(x, op=new) if x.op == old else x for x in f.nodes)
        return replace(f, nodes=tuple(nodes))

    return run


def drop_signs(m: Module) -> Module:
    """Let ``cos`` read ``x`` in place of ``negative(x)``."""

    def of(f: Function) -> Function:
        negated = {x.results[0]: x.args for x in f.nodes if x.op == "negative"}
        nodes = (
            replace(x, args=negated.get(x.args[0], x.args)) if x.op == "cos" else x for x in f.nodes
        )
        return replace(f, nodes=tuple(nodes))

    return replace(m, functions=tuple(map(of, m.functions)))


class TestTwice(CodegenConformance):
    codegen = template(TEXT)
    programs = (doubled,)
    graphs = 2


class TestPlain(RecipeConformance):
    recipe = recipe(wrong=False)
    programs = (wave,)
    graphs = 2


class TestSigns(PassConformance):
    graph_pass = drop_signs
    programs = (wave,)
    graphs = 2


@pytest.mark.parametrize(
    ("suite", "place"),
    [
        (EngineConformance, "Mine.engine"),
        (PlannerConformance, "Mine.planner"),
        (PeerConformance, "Mine.peer"),
        (CodegenConformance, "Mine.codegen"),
        (RecipeConformance, "Mine.recipe"),
        (PassConformance, "Mine.graph_pass"),
        (type("Signs", (PassConformance,), {"graph_pass": drop_signs}), "Mine.programs"),
    ],
)
def test_a_suite_without_what_it_judges_is_refused(suite: type, place: str) -> None:
    """It would pass: random graphs are left to others by a part that does nothing."""
    mine: Any = type("Mine", (suite,), {})()
    with says("bad-part", place, "got:  nothing"):
        mine.pytest_generate_tests(SimpleNamespace(fixturenames=("check", "cases")))


def found(suite: Iterator[tuple[str, conform_makers.Check]]) -> list[str]:
    return [text for _, check in suite for text in check()]


def none(work: Work) -> None:
    del work


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT.replace("2.0f", "3.0f"), "elements are wrong"),
        (TEXT.replace("x[i] *", "x[i + 1] *"), "out-of-bounds"),
        (TEXT.replace("y[i]", "y[i / 2]"), "race"),
    ],
)
def test_a_wrong_codegen_fails(text: str, why: str) -> None:
    assert why in "\n".join(found(conform_makers.of_codegen(template(text), [doubled.module], 0)))


def test_a_wrong_recipe_fails() -> None:
    (first, *_) = found(conform_makers.of_recipe(recipe(wrong=True), [wave.module], 0))
    assert "plain(block=32)" in first
    assert "wrong" in first


def test_a_wrong_pass_fails() -> None:
    (first, *_) = found(conform_makers.of_pass(rewrite("cos", "sin"), [wave.module], 0))
    assert "passes run" in first


def test_what_does_nothing_for_its_programs_fails() -> None:
    idle = (
        conform_makers.of_codegen(template(TEXT), [wave.module], 0),
        conform_makers.of_recipe(replace(recipe(wrong=False), fit=none), [wave.module], 0),
        conform_makers.of_pass(rewrite("exp", "log"), [wave.module], 0),
    )
    assert ["nothing was judged" in text for s in idle for text in found(s)] == [True] * 3
