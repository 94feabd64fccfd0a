"""The language of templates: what hooks write, and what is refused with its place."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest

import didyma as dd
from didyma.codegen import plugins
from didyma.codegen.claims import claim
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.pipeline import compile
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.expr import compare, index
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import INDEX, Binary, Const, Select, Var
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import DType
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says

m, n, k = dd.dim("m", 1, 40), dd.dim("n", 1, 40), dd.dim("k", 1, 40)
DOTS = """\
{% set columns = size("right", 2) %}
{{ def_kernel("left", "right") }} {
  const i64 n = blockIdx.x * {{ block }} + threadIdx.x;
  const i64 row = blockIdx.y;
  const i64 batch = blockIdx.z;
  f32 acc = 0.0f;
  for (i64 k = 0; k < {{ size("left", 2) }}; ++k) {
    {{ load("left", "a", ("batch", "row", "k")) }}
    {{ load("right", "b", ("batch", "k", "n"), mask="n < %s" % columns) }}
    acc = acc + a * b;
  }
  {{ store_output(("batch", "row", "n"), "acc", mask="n < %s" % columns) }}
}
"""


@dd.trace(dd.f32[3, m, k], dd.f32[3, k, n], dd.f32[3, m, n])
def batched(x: dd.Tensor, w: dd.Tensor, r: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w) + r


@dd.trace(dd.f32[12, 9])
def squared(x: dd.Tensor) -> dd.Tensor:
    return x @ dd.transpose(x, (1, 0))


def asked(program: Program) -> Asked:
    made = compile(program.module, until="lower")
    ((name, loop),) = made.loops.items()
    return Asked(made.fused.function(name), loop, PORTABLE)


def problem(program: Program) -> Problem:
    found = product(asked(program))
    assert found is not None
    return found


def launch(p: Problem, values: Mapping[str, int]) -> Launch:
    batch, rows, columns = map(p.dim, p.output.extents)
    blocks = (columns + values["block"] - 1) // values["block"]
    return Launch((blocks, rows, batch), (values["block"], 1, 1))


def rendered(source: str = DOTS, program: Program = batched) -> TextKernel:
    p, values = problem(program), {"block": 32}
    return Text("dots", source).render(p, values, launch(p, values))


def template(source: str = DOTS) -> Template:
    def space(a: Asked) -> Mapping[str, tuple[int, ...]] | None:
        return None if product(a) is None else {"block": (32,)}

    def render(a: Asked, values: Mapping[str, int]) -> TextKernel:
        p = product(a)
        assert p is not None
        return Text("dots", source).render(p, values, launch(p, values))

    return Template("dots", space, lambda a, values: 0.0, render)


@pytest.mark.parametrize("program", [batched, squared])
def test_a_text_takes_over_what_the_graph_does_before_and_after(program: Program) -> None:
    options = dd.Options(kernels=dd.KernelOptions(codegens=(template(),)))
    report = dd.check(program, options=options, engines=["simt", "host"], tries=3)
    assert report.agree, report.findings
    assert "acc = acc + a * b;" in dd.compile(program, options=options).text


def test_symbols_that_are_used_are_arguments_and_hide_no_word_of_the_text() -> None:
    kernel = rendered()
    assert re.findall(r"i64 (\w+)[,)]", kernel.source) == ["m", "k", "n"]
    assert "const i64 n_1 = blockIdx.x * 32" in kernel.source
    assert "for (i64 k_1 = 0; k_1 < k; ++k_1) {" in kernel.source
    assert "if (n_1 < n) {" in kernel.source
    claim(kernel, asked(batched).loop, "dots")


def test_an_array_that_two_operands_read_is_one_argument() -> None:
    kernel = rendered(program=squared)
    assert (kernel.reads, len(kernel.writes)) == (("x",), 1)
    assert kernel.source.count("*__restrict__") == 2
    assert "i64" not in kernel.source.split("{")[0], "no size is symbolic"


def test_what_a_text_asks_about_operands() -> None:
    source = DOTS + (
        "// {{ dtype('left') }} {{ size('left', 1) }} {{ stride('left', 1) }}"
        " {{ stride('left', 2) }} {{ stride('right', 1) }} {{ stride('right', 2) }}\n"
    )
    assert rendered(source, squared).source.endswith("// f32 12 9 1 1 9\n")
    assert rendered(source).source.endswith("// f32 m k 1 n 1\n")


def test_one_index_may_stand_for_all_axes() -> None:
    flat = DOTS.replace('("batch", "row", "k")', '"(batch * %s + row) * %s + k" % sizes')
    sizes = '{% set sizes = (size("left", 1), size("left", 2)) %}\n'
    flat = flat.replace('("batch", "row", "n")', '"(batch * %s + row) * %s + n" % results')
    sizes += '{% set results = (size("left", 1), columns) %}\n'
    at = flat.index("{{ def_kernel")
    options = dd.Options(
        kernels=dd.KernelOptions(codegens=(template(flat[:at] + sizes + flat[at:]),))
    )
    report = dd.check(batched, options=options, engines=["simt", "host"], tries=2)
    assert report.agree, report.findings


SCORE = Var("score", DType.F32)
BODIES = {
    "half": Subgraph((SCORE,), Binary("mul", SCORE, Const(0.5, DType.F32))),
    "causal": Subgraph(
        (SCORE, Var("i", INDEX)),
        Select(compare("lt", Var("i", INDEX), index(4)), SCORE, Const(0.0, DType.F32)),
    ),
}


def modified(calls: str, bodies: Mapping[str, Subgraph] = BODIES) -> str:
    p = replace(problem(squared), bodies=bodies)
    source = DOTS.replace("  {{ store_output", f"{calls}  {{{{ store_output")
    return Text("dots", source).render(p, {"block": 32}, launch(p, {"block": 32})).source


def test_several_bodies_stand_in_one_text() -> None:
    calls = """\
  {{ modification("half", "first", score="acc") }}
  {{ modification("causal", "second", i="row + 1", score="first") }}
  {{ modification("half", "third", score="second * 2.0f") }}
"""
    source = modified(calls)
    assert "const f32 first = acc * 0.5f;" in source
    assert "const i64 i = row + 1;" in source
    assert "const f32 second = i < 4 ? first : 0.0f;" in source
    assert "const f32 score = second * 2.0f;" in source
    assert "const f32 third = score * 0.5f;" in source
    with says("bad-template", "no call of modification of causal"):
        modified(calls.replace('"causal"', '"half"').replace('i="row + 1", ', ""))
    with says("bad-template", "template dots, line 13", "causal of score", "causal of score, i"):
        modified(calls.replace('i="row + 1", ', ""))
    with says("bad-template", "the subgraph quarter", "one of half, causal"):
        modified(calls.replace("half", "quarter"))
    with says("bad-template", "left for two things", "a name for each"):
        modified(calls, {**BODIES, "left": BODIES["half"]})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{{ block }}", "{{ blocks }}", ("line 3", "'blocks' is undefined")),
        ("{{ block }}", "{{ block", ("line 3", "TemplateSyntaxError")),
        ("{{ block }}", "{{ block + columns }}", ("line 3", "TypeError")),
        ('"left", "right") }}', '"left", "left") }}', ("line 2", "left twice")),
        ('"left", "right") }}', '"left") }}', ("line 2", "without right", "every operand")),
        ('"left", "right") }}', '"left", "wrong") }}', ("line 2", "operand wrong", "left, right")),
        ('size("left", 2)', 'size("left", 3)', ("line 7", "axis 3 of left", "0 to 2")),
        ('size("left", 2)', 'size("left")', ("line 7", "TypeError")),
        ('("batch", "row", "k")', '("row", "k")', ("line 8", "an index of 2 axes", "3, or")),
        ('"n"), "acc"', '"n")', ("line 12", "0 values to store", "matmul_acc")),
        ('  {{ load("left"', '  {% set x = load("left"', ("line 8",)),
        ('{{ def_kernel("left", "right") }}', "", ("no call of def_kernel",)),
        ('load("left", "a"', 'load("right", "a"', ("no call of load of left",)),
        ("  f32 acc", '{{ def_kernel("left", "right") }}\n  f32 acc', ("line 6", "twice")),
        ("}\n  {{ store", '}\n{{ store_output("n", "acc") }}\n{{ store', ("line 13", "twice")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(
    old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in DOTS
    with says("bad-template", "template dots", *words):
        rendered(DOTS.replace(old, new, 1))


@pytest.mark.parametrize(("count", "uses"), [(0, ""), (2, "{{ x }} {{ x }}")])
def test_what_a_hook_writes_stands_in_the_text_once(count: int, uses: str) -> None:
    line = '    {{ load("left", "a", ("batch", "row", "k")) }}\n'
    assert line in DOTS
    kept = f'{{% set x = load("left", "a", ("batch", "row", "k")) %}}\n{uses}\n'
    with says("bad-template", "line 8", f"the text of load of left {count} times", "it once"):
        rendered(DOTS.replace(line, kept))


def test_a_kernel_that_is_wrong_is_judged_like_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})
    wrong = template(DOTS.replace("a * b", "a * b * 1.5f"))
    with dd.register("templates", "dots", wrong):
        options = dd.Options(kernels=dd.KernelOptions(codegens=("dots",)))
        report = dd.check(squared, options=options, engines=["host"], tries=1)
    assert {f.level for f in report.findings} == {"host"}


def test_a_program_without_templates_does_not_load_their_language() -> None:
    lines = (
        "import sys, didyma as dd",
        "dd.compile(dd.trace(dd.f32[4, 5], dd.f32[5, 6])(lambda x, y: x @ y))",
        "print('jinja2' in sys.modules)",
    )
    got = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert got.stdout.strip() == "False"
