"""Attention whose tiles two threads fetch: drawn problems, and faults planted in its text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import attention_tma
from didyma.codegen.templates.language import Text
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.judging import judged, points, request

SEEDS = (4, 9, 12, 15)  # whose operands lie in runs of 16 bytes
LENGTHS = (1, 5, 17, 64, 65, 130, 257)
POINT = "tma_attention(height={}, order=1, width={})"
TEMPLATE, SUITS = attention_tma.TEMPLATE, attention_tma.TEMPLATE.space
OPTIONS = dd.Options(target="sm_90a")


@dd.trace(dd.bf16[2, 66, 64], dd.bf16[1, 150, 64], dd.bf16[1, 150, 64], dd.bf16[66, 150])
def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 30, score, -float("inf"))

    out = dd.scaled_dot_product_attention(q, k, v, bias, True, score_mod=near, enable_gqa=True)
    return dd.tanh(out)


@dd.trace(dd.f16[2, 65, 128], dd.f16[2, 210, 128], dd.f16[2, 210, 64])
def plain(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    def larger(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        return score * 8.0

    return dd.scaled_dot_product_attention(q, k, v, score_mod=larger)


@dd.trace(dd.f16[1, 66, 64], dd.f16[1, 70, 64], dd.f16[1, 70, 64])
def small(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_attentions_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f16, dd.bf16)[seed % 2], (64, 128), LENGTHS)
    every = points(request(d.program, OPTIONS, SUITS), TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=OPTIONS, suits=SUITS) == {""}, f"{d.about}: {point}"


def test_what_the_faults_are_planted_in_is_right() -> None:
    for program, height in ((plain, 128), (small, 192), (windowed, 128)):
        point = POINT.format(height, 64)
        assert judged(program, point, options=OPTIONS, suits=SUITS) == {""}


RELEASED, WAITED = '{{ arrive("&empty[stage]") }}\n', "        wgmma_wait(1);\n"
MEETS, UNROLLED = "        named_barrier(mine + 1, 128);\n", "        #pragma unroll\n"
FAULTS = {
    "mask": ('the_column="column", the_dot', 'the_column="column + 1", the_dot'),
    "no rescaling": ("sums[i] = sums[i] * scale[i / 2 % 2]", "sums[i] = sums[i]"),
    "total": ("total[r] * scale[r]", "total[r]"),
    "k-tail": (" && column < {{ columns }}", ""),
    "head": ('address(name, ("batch", "0", "0"))', 'address(name, ("0", "0", "0"))'),
    "panel of the terms": ("step // 4 * width * 64", "0"),
    "panel of a box": ("{{ panel * lines * 64 }}", "{{ panel * 64 }}"),
    "chunk of the values": ("chunk * 64 * features", "chunk * 64"),
    "wait for keys": ("        mbarrier_wait(&full[stage], phase);\n", ""),
    "wait for values": ("        mbarrier_wait(&full[2 + before], parity);\n", ""),
    "wait for the last values": ("      mbarrier_wait(&full[2 + stage], phase);\n", ""),
    "wait for the query": ("    mbarrier_wait(&others[0], 0);\n", ""),
    "wait for checkers": ("    mbarrier_wait(&others[1], 0);\n", ""),
    "wait for room": ("        mbarrier_wait(&empty[kind + stage], phase);\n", ""),
    "phase of room": ("u32 phase = 1;", "u32 phase = 0;"),
    "phase that stays": ("          phase = phase ^ 1;\n", ""),
    "released too early": (WAITED + RELEASED, RELEASED + WAITED),
    "released never": (RELEASED, ""),
    "values released too early": (
        '        wgmma_wait(0);\n{{ arrive("&empty[2 + before]") }}\n',
        '{{ arrive("&empty[2 + before]") }}\n        wgmma_wait(0);\n'),
    "few arrivals": ("mbarrier_init(&empty[i], {{ height // 16 }})",
                     "mbarrier_init(&empty[i], {{ height // 32 }})"),
    "bytes": ("mbarrier_expect(&full[stage], {{ width * terms * 2 }})",
              "mbarrier_expect(&full[stage], {{ width * terms }})"),
    "no wait for scores": (WAITED, "        wgmma_wait(2);\n"),
    "fence of registers": ("    wgmma_fence();\n{% for step", "{% for step"),
    "exchange": (MEETS + UNROLLED + "        for (u32 j", UNROLLED + "        for (u32 j"),
    "order": ("? 0 : mine + 1]", "? 0 : mine]"),
    "numbers": ("named_barrier(mine + 1, 128)", "named_barrier(1, 128)"),
    "epilogue": ("i * 32 + lane % 4 * 8;", "i * 32;"),
    "rows": ('"mean", mask=below("row", rows, height)', '"mean", mask=""'),
    "unseen values": ("        if (!wanted) {", "        if (wanted) {"),
    "values beyond the tile": ("first + {{ i * lines }} < left ? 8 : 0", "8"),
    "look at copies under way": ("            cp_async_wait({{ depth - 1 }});\n", ""),
    "look at the last": ("i = 1; i < {{ depth }}", "i = 2; i < {{ depth }}"),
    "lines that are looked at": ("width }} + first + {{ i * lines }};", "width }} + first;"),
}  # fmt: skip


WIDE = ("chunk of the values",)
UNSEEN = ("wait for checkers", "unseen values", "look at copies under way", "look at the last",
          "lines that are looked at")  # fmt: skip


def spoiling(options: dd.Options = OPTIONS) -> bool:
    """Return whether values that are not finite spoil their features, and no others, on simt."""

    @dd.trace(dd.f16[70, 64], dd.f16[330, 64], dd.f16[330, 64])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=(n, 64)).astype(np.float16) for n in (70, 330, 330))
    v[329, 3], v[170, 9], v[130, 60] = np.inf, np.nan, -np.inf
    options = options.changed({"kernels.choices": f"fused_attention_0: {POINT.format(128, 64)}"})
    try:
        got = np.asarray(dd.compile(causal, options=options, engine="simt")(q, k, v))
    except KernelFault:
        return False
    spoiled = [3, 9, 60]
    return bool(np.isnan(got[:, spoiled]).all() & np.isfinite(np.delete(got, spoiled, 1)).all())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in attention_tma.TEXT.source
    text = Text("tma_attention", attention_tma.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(attention_tma.render, text=text))
    options = OPTIONS.changed({"kernels.codegens": (wrong,)})
    if fault in UNSEEN:
        assert not spoiling(options)
        return
    point = POINT.format(128, 128 if fault in WIDE else 64)
    says = (
        judged(p, point, wrong, options, SUITS, engines=["simt"]) != {""}
        for p in (windowed, plain, small)
    )
    assert any(says)


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    assert spoiling()


def test_a_compile_takes_it_and_its_products_follow_each_other() -> None:
    """Registers of operands must be whole before a fence, or the assembler splits the products."""

    @dd.trace(dd.bf16[2, 256, 128], dd.bf16[2, 256, 128], dd.bf16[2, 256, 128])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    made = compile(causal.module, OPTIONS)
    assert "tma_load3_bf16(" in made.text.source
    cubin = NvrtcCompiler("sm_90a").compile(made.text)
    assert not cubin.remarks
    between = [
        x
        for x in cubin.ptx.split("wgmma.mma_async")[1:-1]
        if "wgmma.fence" not in x and "wgmma.wait" not in x
    ]
    assert between
    assert not any("prmt" in x or "cvt.rn" in x for x in between)


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    point = POINT.format(128, 64)
    assert judged(windowed, point, options=OPTIONS, suits=SUITS, engines=("ptx",)) == {""}
