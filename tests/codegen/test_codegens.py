"""Parts of a caller's own: templates, codegens, recipes and routines, by name and as objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.routines import Routine
from didyma.codegen.schedule.recipes import row
from didyma.parts import KINDS, parts
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.target import PORTABLE
from tests.errors.test_codes import says

TEXT = """extern "C" __global__ void twice(const f32 *x, f32 *y) {
  i64 i = blockIdx.x * BLOCK + threadIdx.x;
  y[i] = x[i] FACTOR;
}
"""


@dd.trace(dd.f32[64])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


def space(asked: Asked) -> dict[str, tuple[int, ...]] | None:
    """Take functions that add."""
    return {"block": (8, 64, 16)} if [n.op for n in asked.function.nodes] == ["add"] else None


def cost(asked: Asked, values: Any) -> float:
    return asked.target.warp / float(values["block"])


def rendered(factor: str) -> Callable[[Asked, Any], dd.TextKernel]:
    def render(asked: Asked, values: Any) -> dd.TextKernel:
        del asked
        block = values["block"]
        text = TEXT.replace("BLOCK", str(block)).replace("FACTOR", factor)
        return dd.TextKernel(text, ("x",), ("y",), (64 // block, 1, 1), (block, 1, 1))

    return render


TWICE = Template("twice", space, cost, rendered("* 2.0f"))
WRONG = Template("wrong", space, cost, rendered("* 3.0f"))


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})


def chosen(choice: str = "", *codegens: Any, **more: Any) -> Options:
    return Options(kernels=KernelOptions(choices=choice, codegens=codegens), **more)


def blocks(options: Options) -> list[int]:
    return [k.block[0] for k in compile(doubled.module, options).text.kernels]


def test_the_model_ranks_values_without_running_them() -> None:
    asked = Asked(*_function(), PORTABLE)
    assert [str(p) for p in TWICE.points(asked)] == [
        "twice(block=64)", "twice(block=16)", "twice(block=8)",
    ]  # fmt: skip
    assert blocks(chosen("", TWICE)) == [64]
    less = replace(PORTABLE, name="less", threads=20)
    assert blocks(chosen("", TWICE, target=less)) == [16]
    with says("target-lacks", "tiny", "twice(", "threads", "bytes of shared memory"):
        blocks(chosen("", TWICE, target=replace(PORTABLE, name="tiny", threads=4)))


def _function() -> tuple[Function, Any]:
    made = compile(doubled.module, until="lower")
    (f, *_), (loop,) = made.fused.functions, made.loops.values()
    return f, loop


def test_a_choice_names_a_template_and_its_values() -> None:
    with dd.register("templates", "twice", TWICE):
        assert blocks(chosen("fused_add_0: twice(block=16)")) == [16]
        for point in ("twice(block=32)", "twice(tile=8)", "twice()"):
            with says("bad-choice", point, "block of 8, 64, 16"):
                blocks(chosen(f"fused_add_0: {point}"))
    with says("bad-choice", "twice", "one of", "row"):
        blocks(chosen("fused_add_0: twice(block=16)"))


PRODUCT = "tma_gemm(alternate=0, blocks=1, group=8, height={}, slots=0, width={})"


@dd.trace(dd.bf16[72, 64], dd.bf16[64, 72])
def product(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ w


@pytest.mark.parametrize(
    ("choice", "target", "code", "words"),
    [
        ("tma_gem()", "sm_90a", "bad-choice", ("mma_gemm, mma_weighted", "did you mean tma_gemm?")),
        (PRODUCT.format(128, 64), "sm_80", "bad-choice",
         ("for target sm_80", "a function that tma_gemm suits", "it suits this one for sm_90a")),
        (PRODUCT.format(256, 256), "sm_90a", "target-lacks",
         ("width=256", "values for which tma_gemm has a block")),
    ],
)  # fmt: skip
def test_a_choice_that_names_no_kernel_is_told_what_does(
    choice: str, target: str, code: str, words: Sequence[str]
) -> None:
    with says(code, *words):
        dd.compile(product, options=dd.Options(target=target), choose={"fused_matmul_0": choice})


def test_a_template_is_judged_by_its_function() -> None:
    assert dd.check(doubled, options=chosen("", TWICE), engines="host", tries=1).agree
    report = dd.check(doubled, options=chosen("", WRONG), engines="host", tries=1)
    assert {f.level for f in report.findings} == {"host"}


def test_a_template_that_suits_nothing_leaves_the_function_to_others() -> None:
    @dd.trace(dd.f32[64])
    def minus(x: dd.Tensor) -> dd.Tensor:
        return x - 1.0

    plain, asked = compile(minus.module), compile(minus.module, chosen("", TWICE))
    assert plain.text == asked.text


def test_other_objects_and_names_are_refused() -> None:
    for options in (chosen("", 3), Options(kernels=KernelOptions(recipes=(TWICE,)))):  # type: ignore[arg-type]  # the error to test
        with says("bad-part", "want"):
            blocks(options)
    with says("unknown-part", "gemm", "tiled_gemm"):
        blocks(chosen("", "gemm"))
    with dd.register("recipes", "mine", TWICE), says("bad-part", "mine", "Recipe"):
        blocks(Options(kernels=KernelOptions(recipes=("mine",))))
    with says("registered-twice", "row"):
        blocks(Options(kernels=KernelOptions(recipes=(row.RECIPE,))))
    with says("unknown-part", "kitchens", "engines"):
        dd.register("kitchens", "mine", TWICE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_has_one_part(kind: str) -> None:
    before = list(parts())
    own = [p.name for p in before if p.kind == kind and p.origin == "didyma"]
    for name in own[:1]:
        with says("registered-twice", name, "didyma registers it"):
            dd.register(kind, name, object())
    with says("bad-part", "mine", "None"):
        dd.register(kind, "mine", None)
    bad: Any = 3
    for wrong in ("", "a b", "a,b", "a=b", bad):
        with says("bad-part", f"the name {wrong!r}"):
            dd.register(kind, wrong, object())
    with dd.register(kind, "mine", object()):
        assert ("mine", plugins.CALL) in [(p.name, p.origin) for p in parts() if p.kind == kind]
        with says("registered-twice", "mine", plugins.CALL):
            dd.register(kind, "mine", object())
    assert list(parts()) == before


def test_nothing_is_loaded_before_its_name_is_used() -> None:
    def fails() -> object:
        raise OSError("no such device")

    with dd.register("engines", "lost", fails):
        assert dd.check(doubled, engines="host", tries=1).agree
        with says("broken-plugin", "no such device"):
            dd.compile(doubled, engine="lost")


def adds(f: Function) -> bool:
    return [n.op for n in f.nodes] == ["add"]


@pytest.mark.parametrize(("factor", "agrees"), [(2, True), (3, False)])
def test_a_routine_is_judged_by_the_body_of_its_function(factor: int, agrees: bool) -> None:
    def call(x: Any) -> Any:
        return x * np.float32(factor)

    options = dd.Options(graph=dd.GraphOptions(routines=("scale",)))
    with dd.register("routines", "scale", Routine("scale", adds, call)):
        report = dd.check(doubled, options=options, engines="host", tries=1)
        run = dd.compile(doubled, options=options)
        assert (np.asarray(run(np.ones(64, np.float32))) == factor).all()
    assert report.agree == agrees
    assert {f.level for f in report.findings} <= {"extern fused_add_0"}
    with says("unknown-part", "scale"):
        dd.compile(doubled, options=options)


def test_a_graph_claims_a_routine(tmp_path: Path) -> None:
    text = """module {
  func @inner(%x: f32[4]) -> (%y) attrs(Compiler="scale") {
    %y = add(%x, %x) : f32[4]
  }
  func @main(%x: f32[4]) -> (%y) {
    %y = call @inner(%x) : f32[4]
  }
}
"""
    (tmp_path / "x.dym").write_text(text)
    program, calls = dd.load(tmp_path / "x.dym"), list[Any]()

    def call(x: Any) -> Any:
        calls.append(x)
        return x * np.float32(2)

    with dd.register("routines", "scale", Routine("scale", adds, call)):
        assert np.asarray(dd.compile(program)(np.ones(4, np.float32))).tolist() == [2] * 4
    assert len(calls) == 1


def test_the_command_line_starts_without_parts() -> None:
    """The table of words that a shell completes knows the options of every kind."""
    words = (Path(dd.__file__).parent / "words.json").read_text()
    assert {"kernels.codegens", "graph.routines"} <= {*json.loads(words)["options"]}
