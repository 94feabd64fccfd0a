"""Attention by tensor cores: drawn problems, planted faults, and tiles that no row sees."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.pipeline import compile
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.templates import attention_mma
from didyma.codegen.templates.attentions import CORNERS, found, masked
from didyma.codegen.templates.language import Text
from didyma.refimpl.interp.loop import run
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.loop import Buffer, PrimFunc, Select, Store
from didyma.refimpl.ir.target import SM_80
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import substitute_expr
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

SEEDS = (1, 2, 9, 11, 20, 21)
POINT = "mma_attention(height=32, tall=16, width=16)"
TEMPLATE, SUITS = attention_mma.TEMPLATE, attention_mma.TEMPLATE.space
OPTIONS = dd.Options(target="sm_80")


@dd.trace(dd.bf16[2, 37, 24], dd.bf16[1, 50, 24], dd.bf16[1, 50, 16], dd.bf16[37, 50])
def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 9, score, -float("inf"))

    out = dd.scaled_dot_product_attention(q, k, v, bias, True, score_mod=near, enable_gqa=True)
    return dd.tanh(out)


@dd.trace(dd.f16[2, 33, 16], dd.f16[2, 45, 16], dd.f16[2, 45, 16])
def plain(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_attentions_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f16, dd.bf16)[seed % 2], (16, 32, 72))
    every = points(request(d.program, OPTIONS, SUITS), TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=OPTIONS, suits=SUITS) == {""}, f"{d.about}: {point}"


FAULTS = {
    "mask": ('the_column="column"', 'the_column="column + 1"'),
    "unseen rows": ("most == -inf_f32() ? 0.0f : most", "most"),
    "sums": ("{{ part }} * scale[{{ 2 * i + loop.index0 // 2 }}]", "{{ part }}"),
    "scale of another row": ("2 * i + loop.index0 // 2", "2 * i"),
    "total": ("total[r] * scale[r]", "total[r]"),
    "a thread's total": ("    total[r] = total[r] + shuffle_xor_f32(total[r], 2);\n", ""),
    "largest": ("        most = max_f32(most, shuffle_xor_f32(most, 2));\n", ""),
    "k-tail": (" && column < {{ columns }}", ""),
    "copied tail": ("{{ inside }} ? {{ lanes }} : 0", "{{ lanes }}"),
    "tail of the terms": (', below("at", own, length)', ', ""'),
    "tail of the query": ('below("at", own_terms, terms)', '""'),
    "head": ('address(name, ("batch",', 'address(name, ("batch * 2",'),
    "epilogue": ('"row", "feature"), "spoiled', '"row", "feature ^ 1"), "spoiled'),
    "swizzle": ('"(step * 2 + lane / 8 % 2)"', '"(step * 2)"'),
    "terms": ('"(step * 2 + lane / 16)"', '"(step * 2)"'),
    "no wait": ("cp_async_wait(0)", "cp_async_wait(1)"),
    "barrier": ("cp_async_wait(0);\n      __syncthreads();", "cp_async_wait(0);"),
    "tile": ("next % 2 * {{ width * length }} + {{ swizzled(\"line\", \"piece\"",
             "{{ swizzled(\"line\", \"piece\""),
    "sees": ('"%s + %d" % (top, lines - 1)', "top"),
    "whole": ("if (seen_by_all &&", "if (visible &&"),
    "first tile": ("i32 turn = -1", "i32 turn = 0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert attention_mma.TEXT.source.count(old) >= 1
    text = Text("mma_attention", attention_mma.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(attention_mma.render, text=text))
    options = OPTIONS.changed({"kernels.codegens": (wrong,)})
    says = (judged(p, POINT, wrong, options, SUITS, engines=["simt"]) for p in (windowed, plain))
    assert any(x != {""} for x in says)


def test_what_the_faults_are_planted_in_is_right() -> None:
    for program in (windowed, plain):
        assert judged(program, POINT, options=OPTIONS, suits=SUITS) == {""}


def test_shared_heads_are_copied_from_where_they_lie() -> None:
    r = request(windowed, OPTIONS, SUITS)
    source = build(r.loop, r.options, Choice.parse(POINT), r.source).text.source
    assert source.count("cp_async16_zfill_bf16(") == 2


def test_values_that_no_row_sees_spoil_results_if_they_are_not_finite() -> None:
    @dd.trace(dd.f16[40, 16], dd.f16[90, 16], dd.f16[90, 16])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=(n, 16)).astype(np.float16) for n in (40, 90, 90))
    v[85, 3] = np.inf
    k[85] = np.nan
    options = OPTIONS.changed({"kernels.choices": f"fused_attention_0: {POINT}"})
    got = dd.compile(causal, options=options)(q, k, v)
    assert dd.interpret(causal, q, k, v).contains(got)
    assert np.isnan(np.asarray(got)[:, 3]).all()
    assert np.isfinite(np.asarray(got)[:, 4]).all()
    source = attention_mma.TEXT.source
    for old, new in (("+ {{ n }}], 1", "], 1"), ("spoiled[feature] != 0 ?", "spoiled[0] > 1 ?")):
        text = Text("mma_attention", source.replace(old, new))
        wrong = replace(TEMPLATE, render=partial(attention_mma.render, text=text))
        got = dd.compile(causal, options=options.changed({"kernels.codegens": (wrong,)}))(q, k, v)
        assert not np.isnan(np.asarray(got)[:, 3]).any(), "the bars do not decide these"


@pytest.mark.parametrize(
    ("causal", "window", "tile", "some", "every"),
    [
        (False, False, (0, 15, 500, 515), True, True),
        (True, False, (16, 31, 1, 16), True, True),
        (True, False, (16, 31, 2, 17), True, False),
        (True, False, (16, 31, 31, 46), True, False),
        (True, False, (16, 31, 32, 47), False, False),
        (False, True, (64, 79, 71, 86), True, True),
        (False, True, (64, 79, 70, 85), True, False),
        (False, True, (64, 79, 40, 56), True, False),
        (False, True, (64, 79, 40, 55), False, False),
        (True, True, (0, 15, 16, 31), False, False),
    ],
)
def test_which_tiles_rows_see(
    causal: bool, window: bool, tile: tuple[int, ...], some: bool, every: bool
) -> None:
    def near(score: dd.Tensor, i: dd.Tensor, j: dd.Tensor) -> dd.Tensor:
        return dd.where(i - j < 9, score, -float("inf"))

    @dd.trace(dd.f16[600, 16], dd.f16[600, 16], dd.f16[600, 16])
    def f(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(
            q, k, v, None, causal, score_mod=near if window else None
        )

    made = compile(f.module, OPTIONS, until="lower")
    ((name, loop),) = made.loops.items()
    p = found(Asked(made.fused.function(name), loop, SM_80))
    assert p is not None
    table = {name: index(n) for name, n in zip(CORNERS, tile, strict=True)}
    for body, holds in (("seen", some), ("whole", every)):
        value = substitute_expr(masked(p)[body].value, table)
        y = np.zeros((), np.int64)
        store = Store("y", (), Select(value, index(1), index(0)))
        run(PrimFunc("f", (Buffer("y", DType.I64, ()),), ("y",), store), {"y": y}, {})
        assert y == holds


def test_attention_of_no_heads_compiles() -> None:
    @dd.trace(dd.f16[0, 4, 64, 80], dd.f16[0, 4, 64, 80], dd.f16[0, 4, 64, 80])
    def attend(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v)

    made = compile(attend.module, dd.Options(target="sm_80"))
    assert len(made.program.kernels) == 1
