"""Attention by tiles of keys: drawn problems, planted faults, and its place among choices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.pipeline import compile
from didyma.codegen.select.choice import Choice, build, ranked
from didyma.codegen.templates import attention
from didyma.codegen.templates.language import Text
from didyma.oracle import chains
from didyma.refimpl.ir.graph import STAGES
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array
from tests.codegen.templates.draw_attention import drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request
from tests.errors.test_codes import says

SEEDS = (0, 1, 3, 10, 14, 18, 19, 20, 27, 35, 37, 47)  # each mask, dtype, rank, and what follows
POINT = "tiled_attention(each=2, height=16, lanes=8, width=16)"
TEMPLATE, SUITS = attention.TEMPLATE, attention.TEMPLATE.space
GPU = dd.Options(target="sm_90a")


@dd.trace(dd.f32[4, 37, 8], dd.f32[2, 50, 8], dd.f32[2, 50, 12], dd.f32[37, 50])
def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 9, score, -float("inf"))

    out = dd.scaled_dot_product_attention(q, k, v, bias, score_mod=near, enable_gqa=True)
    return dd.tanh(out)


@dd.trace(*[dd.f32[2, 70, 64]] * 3)
def copied(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Have rows that are fetched asynchronously, and keys that no row of a tile sees."""
    return dd.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_attentions_are_right(seed: int) -> None:
    d = drawn(seed)
    every = points(request(d.program, suits=SUITS), TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, suits=SUITS) == {""}, f"{d.about}: {point}"


FAULTS = {
    "mask": ('the_column="column",\n                        the_dot',
             'the_column="column + 1",\n                        the_dot'),
    "unseen tile": ("most == -inf_{{ acc }}() ? {{ zero }} : most", "most"),
    "sums": ("sums[n] * scale[n / {{ own }}]", "sums[n]"),
    "total": ("total[i] * scale[i]", "total[i]"),
    "largest": ("      top_score[i] = most;\n", ""),
    "k-tail": ("row < {{ rows }} && column < {{ columns }}) {\n        {{ modification(\"score\"",
               "row < {{ rows }}) {\n        {{ modification(\"score\""),
    "last tile": ("+ {{ width - 1 }}) / {{ width }}; ++turn", ") / {{ width }}; ++turn"),
    "head": ('"one", ("batch",', '"one", ("batch / 4 * 4",'),
    "epilogue": ('("batch", "row", "feature"), "mean', '("batch", "row", "feature ^ 1"), "mean'),
    "rows": ('mask=all(below("row", rows, height), ', "mask=all('', "),
    "largest of all lanes": ("max_{{ acc }}(most, shuffle_xor_{{ acc }}(most, {{ by }}))", "most"),
    "total of all lanes": ("total[i] + shuffle_xor_{{ acc }}(total[i], {{ by }})", "total[i]"),
    "tile is read": ("    __syncthreads();\n    const i64 start", "    const i64 start"),
    "keys are read": ("    __syncthreads();\n{{ fill_keys", "{{ fill_keys"),
    "wait for keys": ('"cp_async_wait(0);"', '""'),
    "wait for values": ('"cp_async_wait(1);"', '""'),
    "barrier of values": ('    __syncthreads();\n{{ "    if (wanted) {"', '{{ "    if (wanted) {"'),
    "order of features": ("{{ lanes }}) * {{ run }} + n % {{ run }}", "{{ lanes }}) * {{ run }}"),
}  # fmt: skip
COPIED = (
    "wait for keys",
    "wait for values",
    "barrier of values",
    "order of features",
)  # which ``copied`` shows
WIDE = "tiled_attention(each=4, height=32, lanes=8, width=16)"
CHOSEN = GPU.changed({
    "kernels.codegens": ("tiled_attention",), "kernels.choices": f"fused_attention_0: {WIDE}",
})  # fmt: skip


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert attention.TEXT.source.count(old) == 1
    text = Text("tiled_attention", attention.TEXT.source.replace(old, new))
    wrong = replace(TEMPLATE, render=partial(attention.render, text=text))
    if fault in COPIED:
        assert judged(copied, WIDE, wrong, GPU, SUITS, engines=["simt"]) != {""}
    else:
        assert judged(windowed, POINT, wrong, suits=SUITS, engines=["simt"]) != {""}


def test_what_the_faults_are_planted_in_is_right() -> None:
    assert judged(windowed, POINT, suits=SUITS) == {""}
    assert "cp_async16" in compile(copied.module, CHOSEN).text.source
    assert judged(copied, WIDE, None, GPU, SUITS) == {""}


def test_values_that_no_row_of_a_tile_sees_count() -> None:
    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=(2, 70, 64)).astype(np.float32) for _ in range(3))
    v[0, 69, 3], v[0, 40, 9], v[1, 5, 60] = np.inf, np.nan, -np.inf
    got = np.asarray(dd.compile(copied, options=CHOSEN, engine="simt")(q, k, v))
    assert dd.interpret(copied, q, k, v).contains(got)
    assert np.isnan(got[0, 0, [3, 9]]).all()


def test_rows_that_see_nothing_and_values_without_end_are_as_the_graph_says() -> None:
    @dd.trace(dd.f32[9, 4], dd.f32[21, 4], dd.f32[21, 4], dd.bool_[9, 21])
    def masked(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, seen: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, seen)

    r = np.random.default_rng(0)
    q, k, v = (r.normal(size=s).astype(np.float32) for s in ((9, 4), (21, 4), (21, 4)))
    seen = r.random((9, 21)) < 0.5
    seen[3] = False
    seen[5, :16] = False
    k[2] = np.inf
    v[7, 1] = np.inf
    options = dd.Options(kernels=dd.KernelOptions(choices=f"fused_attention_0: {POINT}"))
    got = dd.compile(masked, options=options)(q, k, v, seen)
    assert dd.interpret(masked, q, k, v, seen).contains(got)
    assert np.isnan(np.asarray(got)[3]).all()


def test_an_attention_is_one_function_of_stages_which_recipes_compute_in_turn() -> None:
    made = compile(windowed.module, until="schedule")
    ((name, kernels),) = made.kernels.items()
    assert STAGES in made.fused.function(name).attr
    assert len(kernels) == 3
    apart = compile(windowed.module, dd.Options(graph=dd.GraphOptions(attention=False)))
    assert len(apart.loops) > 1
    assert dd.check(windowed, engines=["simt", "host"], tries=2).agree


def test_what_others_read_is_stored() -> None:
    @dd.trace(dd.f32[9, 4], dd.f32[21, 4], dd.f32[21, 4])
    def weights(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        w = dd.softmax(q @ dd.transpose(k, (1, 0)))
        return w, w @ v

    made = compile(weights.module, until="lower")
    assert not any(STAGES in f.attr for f in made.fused.functions)


def test_choices_name_the_kernel_of_tiles_beside_the_kernels_of_stages() -> None:
    r = request(windowed, suits=SUITS)
    first, *others = ranked(r.loop, r.options, r.source)
    assert [p.recipe for p in first.points] == ["matmul", "rows", "matmul"]
    assert POINT in map(str, others)
    with says("bad-choice", "lanes of 8, 16, 32"):
        build(r.loop, r.options, Choice.parse(POINT.replace("lanes=8", "lanes=4")), r.source)


def test_the_chain_of_additions_is_that_of_a_tile_and_of_the_tiles() -> None:
    n = dd.dim("n", 1, 5000)

    @dd.trace(dd.f32[3, 8], dd.f32[n, 8], dd.f32[n, 8])
    def long(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v)

    r = request(long, suits=SUITS)
    (kernel,) = build(r.loop, r.options, Choice.parse(POINT), r.source).kernels
    assert chains.longest([kernel], {"n": 4800}) == 16 + 300 * attention.RESCALED
    few = chains.longest([kernel], {"n": 2})
    assert few == chains.longest([loops(kernel)], {"n": 2}), "no longer than adding one by one"
    assert few is not None
    assert few < 16


def test_a_target_without_room_is_refused() -> None:
    small = replace(PORTABLE, name="small", threads=64, shared=8192)
    r = request(windowed, suits=SUITS)
    assert r.source is not None
    asked = Asked(r.source, r.loop, small)
    assert all(attention.block(asked, p.table)[0] <= 64 for p in TEMPLATE.points(asked))
    assert len(points(r, TEMPLATE)) > len(list(TEMPLATE.points(asked)))


def softmax(s: Array) -> Array:
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def test_heads_share_keys_by_groups_as_numpy_says() -> None:
    r = np.random.default_rng(1)
    q, k, v = (r.normal(size=(1, h, n, 4)).astype(np.float32) for h, n in ((6, 5), (2, 7), (2, 7)))

    @dd.trace(dd.f32[1, 6, 5, 4], dd.f32[1, 2, 7, 4], dd.f32[1, 2, 7, 4])
    def grouped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    many = (np.repeat(x.astype(np.float64), 3, axis=1) for x in (k, v))
    key, value = many
    want = softmax(q @ np.swapaxes(key, -1, -2) / 2) @ value
    options = dd.Options(kernels=dd.KernelOptions(choices=f"fused_attention_1: {POINT}"))
    for how in (dd.Options(), options):
        got = np.asarray(dd.compile(grouped, options=how)(q, k, v))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_heads_that_cannot_be_grouped_are_refused() -> None:
    def grouped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    with says("bad-call", "6 heads of queries and 4 of keys", "a multiple"):
        dd.trace(dd.f32[6, 5, 4], dd.f32[4, 7, 4], dd.f32[4, 7, 4])(grouped)
    with says("bad-call", "tensors [..., heads, length, depth]"):
        dd.trace(dd.f32[5, 4], dd.f32[7, 4], dd.f32[7, 4])(grouped)
