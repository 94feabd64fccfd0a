"""Gradients of attention by tensor cores: judged, and faults planted in their text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import weighted_mma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.graph import STAGES
from didyma.tracer.types import Element
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged
from tests.didyma.test_gradients import program

TEMPLATE, SUITS = weighted_mma.TEMPLATE, weighted_mma.TEMPLATE.space
OPTIONS = dd.Options(target="sm_80")
SIZES = (2, 1, 1, 37, 40, 32, 72)
POINT = "mma_weighted(height=32, tall=16, width=16)"
CAUSAL = program(dd.f16, SIZES, causal=True)


@pytest.mark.parametrize("point", [POINT, "mma_weighted(height=32, tall=32, width=32)"])
def test_gradients_of_queries_are_right(point: str) -> None:
    assert judged(CAUSAL, point, options=OPTIONS, suits=SUITS) == {""}


FAULTS = {
    "swizzle": ("""{{ swizzled(
                "step * 16 + lane % 16", "%d" % e, features) }}""",
                "(step * 16 + lane % 16) * {{ features }} + {{ e * 8 }}"),
    "wait": ("      cp_async_wait(0);\n", ""),
    "barrier": ("      cp_async_wait(0);\n      __syncthreads();\n", "      cp_async_wait(0);\n"),
    "mask": ("    if (visible) {", "    if (visible && turn < 1) {"),
    "tile that all see": ("top + {{ height }} <= {{ rows }} &&", "seen_by_all ||"),
    "column": ("lane % 4 * 2 + n % 2);", "lane % 4 * 2);"),
    "second product": ('{{ multiply("left", "right", others, "other") }}',
                       '{{ multiply("left", "right", 16, "other") }}'),
    "buffer": ("turn % 2 * {{ width * features }} + {{ swizzled(\n                \"step",
               "{{ swizzled(\n                \"step"),
    "k-tail": ("{{ inside }} ? {{ lanes }} : 0", "{{ lanes }}"),
    "tail of the terms": ('all(below("row", rows, height), below("at", own, length))',
                          'below("row", rows, height)'),
    "dtype of sums": ("o{{ i }}_{{ e }} = mma_{{ product }}(p{{ i }}, v{{ e }}, o{{ i }}_{{ e }});",
                      "o{{ i }}_{{ e }} = mma_{{ product }}(p{{ i }}, v{{ e }}, none);"),
    "epilogue": ("lane % 4 * 2 + n % 2;\n    {{ store", "lane % 4 * 2;\n    {{ store"),
    "rows": ('sums[n]",\n                    mask=below("row", rows, height)',
             'sums[n]",\n                    mask=""'),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in weighted_mma.TEXT.source
    text = Text("mma_weighted", weighted_mma.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(weighted_mma.render, text=text))
    options = OPTIONS.changed({"kernels.codegens": (wrong,)})
    assert judged(CAUSAL, POINT, wrong, options, SUITS, engines=["simt"]) != {""}


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    r = np.random.default_rng(0)
    b, h, own, n, m, d, e = SIZES
    shapes = ((b, h, n, e), (b, h, n, d), (b, own, m, d), (b, own, m, e), (b, h, n, e), (b, h, n))
    given = [r.normal(size=s).astype(np.float16) for s in shapes]
    given[2][1, 0, 39, 5] = np.inf
    chosen = {x: POINT for x in compile(CAUSAL.module, OPTIONS, until="lower").loops if "att" in x}
    made = dd.compile(CAUSAL, options=OPTIONS, choose=chosen, engine="simt")
    got = np.isfinite(np.asarray(made(*given[:5], given[5].astype(np.float32))[0]))
    assert got[0].all()
    assert not got[1, :, :, 5].any()
    assert got[1, :, :, [4, 6]].all()


def test_what_nvrtc_makes_of_the_kernels_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    assert judged(CAUSAL, POINT, options=OPTIONS, suits=SUITS, engines=("ptx",)) == {""}


def stages(program: dd.Program) -> int:
    fused = compile(program.module, dd.Options(target="sm_90a"), until="fuse").fused
    return sum(STAGES in f.attr for f in fused.functions)


def test_layers_of_a_perceptron_are_products_of_their_own() -> None:
    """They are a weighted sum, whose features no block holds."""

    @dd.trace(dd.bf16[4, 64, 768], dd.bf16[3072, 768], dd.bf16[768, 3072])
    def perceptron(x: dd.Tensor, up: dd.Tensor, down: dd.Tensor) -> dd.Tensor:
        return dd.linear(dd.gelu(dd.linear(x, up)), down)

    assert stages(perceptron) == 0


@pytest.mark.parametrize(
    ("dtype", "features", "count"),
    [
        (dd.bf16, 64, 1),
        (dd.f16, 256, 1),
        (dd.bf16, 80, 1),
        (dd.bf16, 84, 0),
        (dd.bf16, 512, 0),
        (dd.f32, 64, 1),
        (dd.f32, 80, 0),
    ],
)
def test_attention_is_one_function_where_a_template_takes_it(
    dtype: Element, features: int, count: int
) -> None:
    @dd.trace(*[dtype[2, 4, 96, features]] * 3)
    def attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, None, True)

    assert stages(attention) == count
