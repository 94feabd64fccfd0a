"""Attention by four warps together: drawn problems, and faults planted in its text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import attention_wgmma
from didyma.codegen.templates.language import Text
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

SEEDS = (1, 2, 9, 13)
LENGTHS = (1, 5, 17, 64, 65, 130)
POINT = "wgmma_attention(height={}, width={})"
TEMPLATE, SUITS = attention_wgmma.TEMPLATE, attention_wgmma.TEMPLATE.space
OPTIONS = dd.Options(target="sm_90a")


@dd.trace(dd.bf16[2, 130, 64], dd.bf16[1, 200, 64], dd.bf16[1, 200, 64], dd.bf16[130, 200])
def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 3, score, -float("inf"))

    out = dd.scaled_dot_product_attention(q, k, v, bias, True, score_mod=near, enable_gqa=True)
    return dd.tanh(out)


@dd.trace(dd.f16[2, 65, 128], dd.f16[2, 210, 128], dd.f16[2, 210, 64])
def plain(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    def larger(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        return score * 4.0

    return dd.scaled_dot_product_attention(q * 4.0, k, v, score_mod=larger)


@dd.trace(dd.f16[2, 65, 64], dd.f16[2, 210, 64], dd.f16[2, 210, 64])
def flat(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_attentions_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f16, dd.bf16)[seed % 2], (64, 128), LENGTHS)
    every = points(request(d.program, OPTIONS, SUITS), TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=OPTIONS, suits=SUITS) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("height", [64, 128])
def test_what_the_faults_are_planted_in_is_right(height: int) -> None:
    program = plain if height == 64 else windowed
    for width in (64, 128):
        point = POINT.format(height, width)
        assert judged(program, point, options=OPTIONS, suits=SUITS) == {""}


FAULTS = {
    "mask": ('the_column="column", the_dot', 'the_column="column + 1", the_dot'),
    "mask of the diagonal": ('the_column="column"', 'the_column="column - 1"'),
    "unseen rows": ("top_score[r] == -inf_f32() ? 0.0f : top_score[r]", "top_score[r]"),
    "no rescaling": ("sums[i] = sums[i] * scale[i / 2 % 2]", "sums[i] = sums[i]"),
    "scale of another row": ("scale[i / 2 % 2]", "scale[i % 2]"),
    "total": ("total[r] * scale[r]", "total[r]"),
    "a thread's total": ("    total[r] = total[r] + shuffle_xor_f32(total[r], 2);\n", ""),
    "largest": ("      most = max_f32(most, shuffle_xor_f32(most, 2));\n", ""),
    "k-tail": (" || ((i64){{ turn }} + 1) * {{ width }} > {{ columns }}", ""),
    "copied tail": ("{{ inside }} ? 8 : 0", "8"),
    "head": ('address(name, ("batch",', 'address(name, ("batch * 2",'),
    "epilogue": ('"row", "feature"), "spoiled', '"row", "feature ^ 1"), "spoiled'),
    "swizzle": ("({{ line }}) % 8) * 8", "({{ line }}) % 4) * 8"),
    "panel of the terms": ("step // 4 * width * 64", "0"),
    "panel of the keys": ("{{ step // 4 * 64 * features + step % 4 * 1024 }}",
                          "{{ step * 1024 + 64 }}"),
    "no wait for copies": ("      cp_async_wait(0);\n      proxy_fence();\n      __syncthreads();",
                           "      proxy_fence();\n      __syncthreads();"),
    "no wait for scores": ("wgmma_wait(1)", "wgmma_wait(2)"),
    "no wait for sums": ("      wgmma_wait(0);\n{{ round", "{{ round"),
    "fence of registers": ("    wgmma_fence();\n{% for step", "{% for step"),
    "fence of copies": ("    cp_async_wait(0);\n    proxy_fence();\n    __syncthreads();\n    if",
                        "    cp_async_wait(0);\n    __syncthreads();\n    if"),
    "barrier": ("      proxy_fence();\n      __syncthreads();", "      proxy_fence();"),
    "refilled": ('keys("after", "stage")', 'keys("after", "(1 - stage)")'),
    "stage of the values": ('values("next", "(1 - stage)")', 'values("next", "stage")'),
    "sees": ('"%s + %d" % (top, lines - 1)', "top"),
    "whole": ("if (seen_by_all &&", "if (1 &&"),
    "rounding": ("narrow2_{{ T }}(score[i * 2], score[i * 2 + 1])",
                 "narrow2_{{ T }}(score[i * 2 + 1], score[i * 2])"),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in attention_wgmma.TEXT.source
    text = Text("wgmma_attention", attention_wgmma.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(attention_wgmma.render, text=text))
    options = OPTIONS.changed({"kernels.codegens": (wrong,)})
    says = (
        judged(p, POINT.format(height, 64), wrong, options, SUITS, engines=["simt"])
        for p, height in ((windowed, 128), (plain, 64), (flat, 64))
    )
    assert any(x != {""} for x in says)


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    @dd.trace(dd.f16[40, 64], dd.f16[190, 64], dd.f16[190, 64])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=(n, 64)).astype(np.float16) for n in (40, 190, 190))
    v[185, 3] = np.inf
    v[66, 9] = np.nan
    options = OPTIONS.changed({"kernels.choices": f"fused_attention_0: {POINT.format(64, 64)}"})
    got = np.asarray(dd.compile(causal, options=options)(q, k, v))
    assert np.isnan(got[:, [3, 9]]).all()
    assert np.isfinite(np.delete(got, [3, 9], 1)).all()


def test_a_compile_takes_it_and_its_products_follow_each_other() -> None:
    """Registers of operands must be whole before a fence, or the assembler splits the products."""

    @dd.trace(dd.bf16[2, 256, 128], dd.bf16[2, 256, 128], dd.bf16[2, 256, 128])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    point = f"fused_attention_0: {POINT.format(128, 128)}"
    made = compile(causal.module, OPTIONS.changed({"kernels.choices": point}))
    assert "k16_bf16_rn(" in made.text.source
    cubin = NvrtcCompiler("sm_90a").compile(made.text)
    (found,) = cubin.resources
    assert (found.spills, found.stack) == (0, 0)
    lines = cubin.ptx.split("wgmma.mma_async")
    between = [x for x in lines[1:-1] if "wgmma.fence" not in x and "wgmma.wait" not in x]
    assert between
    assert not any("prmt" in x or "cvt.rn" in x for x in between)


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    point = POINT.format(128, 64)
    assert judged(windowed, point, options=OPTIONS, suits=SUITS, engines=("ptx",)) == {""}
