"""Templates and codegens as candidates beside recipes: judged, timed, picked, and obeyed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.candidates import Bars
from didyma.codegen import plugins
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule.pointwise import elementwise
from didyma.codegen.schedule.recipes.recipe import Fit, Recipe, Values
from didyma.codegen.schedule.recipes.work import Work
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choice import Choice, build, first, ranked
from didyma.codegen.select.choosers import Request, Tuned
from didyma.codegen.select.selector import Limits, Lost
from didyma.codegen.select.worker import Task, examine
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.tuning import Tuner, isolated, target
from tests.codegen.select.make import inline
from tests.errors.test_codes import says

SIZE = 4096
TEXT = """extern "C" __global__ void twice(const f32 *x, f32 *y) {
  for (i64 k = 0; k < STEPS; k++) {
    i64 i = (blockIdx.x * BLOCK + threadIdx.x) * STEPS + k;
    y[i] = x[i] * FACTOR;
  }
}
"""
ROWS, TERMS = 256, 2000
TIMES_TEXT = """extern "C" __global__ void times(const f32 *x, f32 *y) {
  i64 i = blockIdx.x * BLOCK + threadIdx.x;
  y[i] = x[i] * TERMS;
}
"""
LIMITS = Limits(seconds=6.0, timeout=60.0, candidates=8)


@dd.trace(dd.f32[SIZE])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


def suits(asked: Asked) -> dict[str, tuple[int, ...]] | None:
    return {"steps": (1, 64)} if [n.op for n in asked.function.nodes] == ["add"] else None


def render(asked: Asked, values: Mapping[str, int], factor: str = "2.0f") -> dd.TextKernel:
    del asked
    steps, block = values["steps"], 64
    text = TEXT.replace("STEPS", str(steps)).replace("BLOCK", str(block)).replace("FACTOR", factor)
    return dd.TextKernel(text, ("x",), ("y",), (SIZE // block // steps, 1, 1), (block, 1, 1))


def tripled(asked: Asked, values: Mapping[str, int]) -> dd.TextKernel:
    return render(asked, values, "3.0f")


def too_large(asked: Asked, values: Mapping[str, int]) -> dd.TextKernel:
    made = render(asked, values)
    shared = "__shared__ f32 much[99999];\n  much[threadIdx.x] = 0.0f;\n  for (i64 k"
    return replace(made, source=made.source.replace("for (i64 k", shared))


def more_steps(asked: Asked, values: Mapping[str, int]) -> float:
    del asked
    return -values["steps"]


@dd.trace(dd.f32[ROWS])
def repeated(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(dd.broadcast_to(dd.reshape(x, (ROWS, 1)), (ROWS, TERMS)), axis=1)


def sums(asked: Asked) -> dict[str, tuple[int, ...]] | None:
    return {"block": (32, 64)} if "sum" in [n.op for n in asked.function.nodes] else None


def product(asked: Asked, values: Mapping[str, int]) -> dd.TextKernel:
    """The operand stands in the text under the name that any caller would choose."""
    del asked
    block = values["block"]
    text = TIMES_TEXT.replace("BLOCK", str(block)).replace("TERMS", f"{TERMS}.0f")
    return dd.TextKernel(text, ("x",), ("y",), (ROWS // block, 1, 1), (block, 1, 1))


def fewer_blocks(asked: Asked, values: Mapping[str, int]) -> float:
    del asked
    return -values["block"]


class OneKernel:
    """A codegen without parameters."""

    name = "one-kernel.2"

    def kernel(self, asked: Asked) -> dd.TextKernel | None:
        return render(asked, {"steps": 64}) if suits(asked) else None


TWICE = Template("twice", suits, more_steps, render)
WRONG = Template("wrong", suits, more_steps, tripled)
TIMES = Template("times", sums, fewer_blocks, product)
ONE = OneKernel()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})


def request(options: Options | None = None, program: dd.Program = doubled) -> Request:
    options = options or Options()
    made = compile(program.module, options, until="lower")
    ((name, loop),) = made.loops.items()
    source = made.fused.function(name)
    return Request(name, loop, options, "host", target(engine("host")), {}, source)


def candidates(r: Request) -> list[str]:
    return [str(c) for c in ranked(r.loop, r.options, r.source)]


def test_registered_parts_take_turns_with_recipes() -> None:
    plain = candidates(request())
    with dd.register("templates", "twice", TWICE), dd.register("codegens", ONE.name, ONE):
        r = request()
        found = candidates(r)
        assert found[0] == plain[0] == str(r.usual)
        assert found.index("twice(steps=64)") < found.index("twice(steps=1)") < len(plain)
        assert "one-kernel.2()" in found[: len(plain)]
        assert {*found} - {*plain} == {"twice(steps=64)", "twice(steps=1)", "one-kernel.2()"}
        (kernel,) = build(r.loop, r.options, Choice.parse("twice(steps=64)"), r.source).kernels
        assert isinstance(kernel, ClaimedKernel)
    assert candidates(request()) == plain


def test_what_options_name_is_the_usual_choice() -> None:
    for part, choice in ((TWICE, "twice(steps=64)"), (ONE, "one-kernel.2()")):
        r = request(Options().changed({"kernels.codegens": (part,)}))
        assert str(r.usual) == candidates(r)[0] == choice
        assert str(first(r.loop, r.options)) != choice, "without the graph nobody can ask it"
        exe = dd.compile(doubled, options=r.options)
        assert exe.choices["choices"][r.name]["choice"] == choice


def test_a_wrong_template_is_out_with_its_reason(tmp_path: Path) -> None:
    r = request(Options().changed({"kernels.codegens": (WRONG,)}))
    made = compile(doubled.module, r.options, until="lower")
    pick, found = Tuner(made.fused, Cache(tmp_path / "c.sqlite"), LIMITS, isolate=inline).tune(r)
    reasons = {t.choice: t.reason for t in found.trials}
    assert "elements are wrong" in reasons["wrong(steps=64)"]
    assert "elements are wrong" in reasons["wrong(steps=1)"]
    assert not pick.choice.startswith("wrong")


def test_a_kernel_that_no_target_holds_is_out_with_its_reason(tmp_path: Path) -> None:
    large = Template("large", suits, more_steps, too_large)
    r = request(Options().changed({"kernels.codegens": (TWICE, large)}))
    made = compile(doubled.module, r.options, until="lower")
    limits = Limits(seconds=1.0, timeout=60.0, candidates=4)
    _, found = Tuner(made.fused, Cache(tmp_path / "c.sqlite"), limits, isolate=inline).tune(r)
    reasons = {t.choice: t.reason for t in found.trials}
    for steps in (1, 64):
        assert "399996 bytes" in reasons[f"large(steps={steps})"]


def test_a_child_gets_what_a_call_registered() -> None:
    r = request(program=repeated)
    made = compile(repeated.module, r.options, until="lower")
    judge = Bars(made.fused, r.name, r.loop, {}, seed=5)
    task = Task(r.loop, r.options, "host", {}, 5, r.source, (("didyma.templates", "times", TIMES),))
    said: list[str] = []
    choice = Choice.parse("times(block=32)")
    got = isolated(examine, (task, judge, [choice], 60.0), 200.0, said.append)
    assert not isinstance(got, Lost)
    assert json.loads(said[-1]) == {"choice": str(choice), "reason": ""}


def one_parameter(work: Work) -> dict[str, int]:
    del work
    return {"block": 32}


def no_more(work: Work) -> dict[str, tuple[int, ...]]:
    del work
    return {"block": ()}


def room(work: Work, values: Values) -> tuple[int, int]:
    del work
    return values["block"], 0


def in_warps(work: Work, values: Values) -> PrimFunc:
    facts = work.serial
    facts.block, facts.wide = values["block"], False
    return elementwise(facts, "warps")


def always(work: Work) -> Fit | None:
    del work
    return Fit.TILED


WARPS = Recipe("warps", always, one_parameter, no_more, room, in_warps)


def test_a_tuner_takes_recipes_that_a_call_registered(tmp_path: Path) -> None:
    with dd.register("recipes", "warps", WARPS):
        r = request(Options().changed({"kernels.recipes": ("warps",)}))
        made = compile(doubled.module, r.options, until="lower")
        limits = Limits(seconds=2.0, timeout=200.0, candidates=2)
        _, found = Tuner(made.fused, Cache(tmp_path / "c.sqlite"), limits).tune(r)
    assert {t.choice.partition("(")[0]: t.reason for t in found.trials} == {
        "warps": "",
        "pointwise": "",
    }


def test_a_named_part_that_no_child_can_get_is_refused(tmp_path: Path) -> None:
    def here(work: Work) -> Fit | None:
        return always(work)

    with dd.register("recipes", "warps", replace(WARPS, fit=here)):
        r = request(Options().changed({"kernels.recipes": ("warps",)}))
        made = compile(doubled.module, r.options, until="lower")
        with says("bad-part", "didyma.recipes: warps", "pickle", "an entry point"):
            Tuner(made.fused, Cache(tmp_path / "c.sqlite"), LIMITS).tune(r)


def test_a_template_wins_and_a_later_compile_obeys(tmp_path: Path) -> None:
    """The sum of as many equal numbers is a product, which no recipe knows."""
    cache = Cache(tmp_path / "c.sqlite")
    with dd.register("templates", "times", TIMES):
        r = request(program=repeated)
        made = compile(repeated.module, r.options, until="lower")
        pick = Tuner(made.fused, cache, LIMITS, isolate=inline).measure(r)
        assert pick.choice in ("times(block=32)", "times(block=64)")
        assert pick.seconds < pick.usual
        assert str(Tuned(cache).choose(r)) == pick.choice
        exe = dd.compile(repeated, choose=Tuned(cache))
        record = exe.choices
        assert record["choices"][r.name]["choice"] == pick.choice
        assert f"{TERMS}.0f" in exe.text
        x = np.arange(ROWS, dtype=np.float32)
        assert np.array_equal(exe(x), x * np.float32(TERMS))
        assert dd.compile(repeated, choose=record).text == exe.text
    assert Tuned(cache).choose(r) == r.usual, "the template is gone"
    with says("bad-choice", "times", "one of"):
        dd.compile(repeated, choose=record)
