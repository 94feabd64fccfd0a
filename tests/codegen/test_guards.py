"""Parts of somebody else that raise, or return what they may not, are named by an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.memory.arena.registry import ArenaPlanner
from didyma.codegen.memory.planners import Planner
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.routines import Routine
from didyma.codegen.schedule.dispatch import points
from didyma.codegen.schedule.recipes import pointwise
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.select.choice import ranked
from didyma.codegen.select.choosers import choose_all
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.loop import PrimFunc
from tests.codegen.make import Graph
from tests.errors.test_codes import says

ONES = """extern "C" __global__ void ones(const f32 *a, f32 *b) { b[blockIdx.x] = 1.0f; }"""
LAWLESS = "L-store"  # the law of the kernel below


def text(asked: Asked, values: object = None) -> dd.TextKernel:
    return dd.TextKernel(ONES, reads=("a",), writes=("b",), grid=(64, 1, 1), block=(1, 1, 1))


def first(work: Work) -> Fit | None:
    return Fit.TILED


RECIPE = replace(pointwise.RECIPE, name="mine", fit=first)
TEMPLATE = Template("mine", lambda a: {"n": (1, 2)}, lambda a, v: 1.0, text, lambda a, v: (1, 0))


@dataclass(frozen=True)
class Maker:
    """A codegen of one kernel, or of none."""

    kernel: Callable[[Asked], Any]
    name: str = "mine"


@dataclass(frozen=True)
class Offerer(Maker):
    """A codegen that offers kernels at points."""

    points: Callable[[Asked], Any] = lambda asked: [Point.of("mine")]
    at: Callable[[Asked, Point], Any] = text


@dataclass(frozen=True)
class Picker:
    """A chooser."""

    choose: Callable[..., Any]


def wave() -> Module:
    """Return a program of two kernels, with a value between them that needs memory."""
    g = Graph()
    x = g("cos", g.param("x", 64))
    return g.module(g("add", g("cumulative_sum", x, axis=0, exclusive=False, reverse=False), x))


def every(changes: dict[str, Any]) -> None:
    """Compile the program, and go through all choices of its functions, as a tuner does."""
    options = Options().changed(changes)
    made = compile(wave(), options)
    for name, loop in made.loops.items():
        list(points(loop, options))
        list(ranked(loop, options, made.fused.function(name)))


def raising(*args: object) -> Any:
    raise RuntimeError("nothing works")


def fails(where: str, wrong: object, use: Callable[[Callable[..., Any]], object]) -> None:
    """Use a function that raises, and one that returns what is wrong; each must be named."""

    def returning(*args: object) -> Any:
        return wrong

    for f, got in ((raising, "RuntimeError: nothing works"), (returning, repr(wrong))):
        with says("failed-part", where, got):
            use(f)


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("fit", 3), ("default", {"block": "many"}), ("default", {"a b": 1}), ("default", None),
        ("space", {"block": 3}), ("block", (32,)), ("block", (32, -1)), ("build", ()),
        ("legal", None),
    ],
)  # fmt: skip
def test_a_function_of_a_recipe_that_fails_is_named(member: str, wrong: object) -> None:
    def use(f: Callable[..., Any]) -> None:
        changed: dict[str, Any] = {member: f}
        mine: Recipe = replace(RECIPE, **changed)
        every({"kernels.recipes": (mine,)})

    fails(f"recipe mine, {member}", wrong, use)


def test_a_law_that_a_kernel_breaks_names_the_recipe_too() -> None:
    def build(work: Work, values: Values) -> PrimFunc:
        (made,) = pointwise.RECIPE.kernels(work, values)
        return replace(made, outputs=())

    with pytest.raises(dd.DidymaError) as caught:
        every({"kernels.recipes": (replace(RECIPE, build=build),)})
    assert caught.value.code == LAWLESS
    assert caught.value.__notes__ == ["in recipe mine, build"]


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("space", {"n": 3}), ("space", 3), ("cost", "cheap"), ("cost", float("nan")),
        ("render", "a kernel"), ("block", 1),
    ],
)  # fmt: skip
def test_a_function_of_a_template_that_fails_is_named(member: str, wrong: object) -> None:
    def use(f: Callable[..., Any]) -> None:
        changed: dict[str, Any] = {member: f}
        every({"kernels.codegens": (replace(TEMPLATE, **changed),)})

    fails(f"template mine{'' if member == 'space' else '(n=1)'}, {member} for @", wrong, use)


def test_a_function_of_a_codegen_that_fails_is_named() -> None:
    def use(made: object) -> None:
        every({"kernels.codegens": (made,)})

    none: Callable[[Asked], Any] = lambda asked: None  # noqa: E731  # the least that makes nothing
    fails("codegen mine, kernel", 3, lambda f: use(Maker(f)))

    def late(asked: Asked) -> Iterator[Any]:
        yield Point.of("mine")
        raising()

    wrong: tuple[tuple[Callable[[Asked], Any], str], ...] = (
        (raising, "RuntimeError: nothing works"), (late, "RuntimeError: nothing works"),
        (lambda asked: 3, "not iterable"), (lambda asked: ["x"], "'x', of type str"),
    )  # fmt: skip
    for offered, got in wrong:
        with says("failed-part", "codegen mine, points", got):
            use(Offerer(none, points=offered))

    name = next(iter(compile(wave(), until="lower").loops))
    chosen = {"kernels.choices": f"{name}: mine()"}
    fails(
        "codegen mine, at", None,
        lambda f: every({**chosen, "kernels.codegens": (Offerer(none, at=f),)}),
    )  # fmt: skip


def test_a_routine_that_does_not_say_what_suits_it_is_named() -> None:
    def use(f: Callable[..., Any]) -> None:
        with dd.register("routines", "mine", Routine("mine", f, abs)):
            every({"graph.routines": ("mine",)})

    fails("routine mine, suits", "yes", use)


def test_a_planner_that_fails_is_named() -> None:
    def use(mine: ArenaPlanner | Planner) -> None:
        every({"memory.planner": mine})

    fails("planner mine, run", None, lambda f: use(ArenaPlanner("mine", f)))
    fails("planner mine, whole", {}, lambda f: use(Planner("mine", whole=f)))


def test_a_chooser_that_fails_is_named() -> None:
    made = compile(wave(), until="lower")

    def use(f: Callable[..., Any]) -> None:
        choose_all(made.loops, Options(), Picker(f), "host", "cpu")

    fails("chooser Picker, choose", None, use)


def test_a_pass_that_raises_or_changes_what_a_program_is_called_with_is_named() -> None:
    def twice(m: Module) -> Module:
        return replace(m, functions=(replace(m.entry, results=m.entry.results * 2),))

    for wrong, got in ((raising, "RuntimeError: nothing works"), (twice, "(f32[64], f32[64])")):
        with says("bad-pass", wrong.__name__, got):
            compile(wave(), Options().changed({"graph.passes": (wrong,)}))


def test_parts_that_work_are_left_as_they_are() -> None:
    def same(m: Module) -> Module:
        return m

    every({"kernels.recipes": (RECIPE,), "graph.passes": (same,)})
    every({"kernels.codegens": (Maker(lambda asked: None),)})
