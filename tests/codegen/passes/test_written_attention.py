"""Attention as people write it is one kernel, and blocks of transformers are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import didyma as dd
from didyma.codegen.apart import told
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.graph import RESHAPE_ONLY, STAGES
from didyma.refimpl.ir.text import parse_module
from didyma.tracer.types import Element
from tests.codegen.templates.written import forms, powers, scores, softmax
from tests.gpu import backward
from tests.gpu.whole_models import block, encoder, program, whole

OPTIONS = dd.Options(target="sm_90a")
HEADS, LENGTH = dd.f16[2, 4, 64, 80], 64
GROUPED = dd.f16[2, 2, 64, 80]


def kernels(p: dd.Program) -> tuple[int, int]:
    """Return how many kernels a program launches, and how many of them are joined products."""
    made = compile(p.module, OPTIONS, until="lower").fused
    functions = {f.name: f for f in made.functions}
    called = [functions[n.callee] for n in made.entry.nodes if n.callee]
    launched = [f for f in called if RESHAPE_ONLY not in f.attr]
    return len(launched), sum(STAGES in f.attr for f in launched)


def seen() -> dd.Tensor:
    at = dd.arange(LENGTH)
    return dd.reshape(at, (LENGTH, 1)) >= dd.reshape(at, (1, LENGTH))


def by_op(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.softmax(scores(q, k), -1) @ v


def by_hand(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(scores(q, k)) @ v


def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(dd.where(seen(), scores(q, k), -float("inf"))) @ v


def nearly_causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(dd.where(seen(), scores(q, k), -1e4)) @ v


def added(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, more: dd.Tensor) -> dd.Tensor:
    return softmax(scores(q, k) + more) @ v


def padded(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    there = dd.astype(dd.reshape(mask, (2, 1, 1, LENGTH)), dd.f16)
    return softmax(scores(q, k) + (1.0 - there) * -1e4) @ v


def in_f32(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.astype(softmax(dd.astype(scores(q, k), dd.f32)), dd.f16) @ v


def capped(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(dd.tanh(scores(q, k) / 50.0) * 50.0) @ v


def windowed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
        i, j = places[-2:]
        return dd.where(i - j < 16, score, -float("inf"))

    return dd.scaled_dot_product_attention(q, k, v, None, True, score_mod=near, enable_gqa=True)


def repeated(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(scores(q, dd.repeat(k, 2, axis=1))) @ dd.repeat(v, 2, axis=1)


def summed(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    weights = softmax(dd.einsum("bihd,bjhd->bhij", q, k) * 0.1)
    return dd.einsum("bhij,bjhd->bihd", weights, v)


CROSS = [dd.f16[2, 4, 33, 80], dd.f16[2, 4, 70, 80], dd.f16[2, 4, 70, 80]]


@pytest.mark.parametrize(
    ("f", "types"),
    [
        (by_op, [HEADS] * 3), (by_hand, [HEADS] * 3),
        (by_hand, CROSS), (causal, [HEADS] * 3),
        (nearly_causal, [HEADS] * 3), (added, [*[HEADS] * 3, dd.f16[4, LENGTH, LENGTH]]),
        (padded, [*[HEADS] * 3, dd.i64[2, LENGTH]]), (in_f32, [HEADS] * 3),
        (capped, [HEADS] * 3), (windowed, [HEADS, GROUPED, GROUPED]),
        (by_op, [dd.f32[2, 4, LENGTH, 64]] * 3), (causal, [dd.f32[2, 4, LENGTH, 32]] * 3),
        (repeated, [HEADS, GROUPED, GROUPED]), (summed, [dd.f16[2, LENGTH, 4, 80]] * 3),
    ],
)  # fmt: skip
def test_a_written_attention_is_one_kernel(
    f: Callable[..., dd.Tensor], types: Sequence[Element]
) -> None:
    assert kernels(dd.trace(*types)(f)) == (1, 1)


PAIRS = dd.f16[2, 4, LENGTH, LENGTH]
WRITTEN = forms(HEADS, HEADS, HEADS, PAIRS, dd.bool_[2, 4, LENGTH, LENGTH])


@pytest.mark.parametrize("form", WRITTEN)
def test_an_attention_whose_softmax_is_written_otherwise_is_one_kernel(form: str) -> None:
    apart = form == "rows kept"  # whether rows see something is found for all heads at once
    assert kernels(WRITTEN[form]) == (1 + apart, 1)


def without_largest(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    every = dd.exp(scores(q, k))
    return (every / dd.sum(every, axis=-1, keepdims=True)) @ v


def chosen(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    return dd.where(mask, softmax(scores(q, k)), 0.0) @ v


def far(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, by: dd.Tensor) -> dd.Tensor:
    wide = softmax(dd.astype(scores(q, k), dd.f32))
    return dd.astype(wide * by, dd.f16) @ v


def of_another(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    s = scores(q, k)
    return (powers(s) / dd.sum(powers(s * 2.0), axis=-1, keepdims=True)) @ v


def along_queries(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.softmax(scores(q, k), -2) @ v


def of_two(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(scores(q, k) + scores(k, q)) @ v


def of_neighbours(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(scores(q, k) + dd.flip(scores(q, k), axis=-1)) @ v


def of_scores(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    s = scores(q, k)
    return softmax(s) @ (v + dd.sum(s, axis=-1, keepdims=True))


def twice(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    weights = softmax(scores(q, k))
    return (weights * weights) @ v


def with_weights(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    weights = softmax(scores(q, k))
    return weights @ v, weights


def with_sums(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    weights = softmax(scores(q, k))
    return weights @ v, dd.sum(weights, axis=-2)


def rounded(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(scores(dd.tf32(q), dd.tf32(k))) @ dd.tf32(v)


def of_wide_weights(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return softmax(dd.astype(scores(q, k), dd.f32)) @ dd.astype(v, dd.f32)


ODD, WIDE = dd.f16[2, 4, LENGTH, 81], dd.f32[2, 4, LENGTH, 64]


@pytest.mark.parametrize(
    ("f", "types", "why"),
    [
        (without_largest, [HEADS] * 3, "exponentials are not of what scores lack to the largest"),
        (chosen, [*[HEADS] * 3, dd.bool_[2, 4, LENGTH, LENGTH]], "where, of each pair of a query"),
        (far, [*[HEADS] * 3, dd.f32[2, 4, LENGTH, LENGTH]], "may exceed what f16 holds"),
        (of_another, [HEADS] * 3, "exponentials are not divided by their own sum"),
        (along_queries, [HEADS] * 3, "exponentials are not of what scores lack to the largest"),
        (of_two, [HEADS] * 3, "scores are computed of 2 products"),
        (of_neighbours, [HEADS] * 3, "a score depends on others than its own element"),
        (of_scores, [HEADS] * 3, "values depend on scores"),
        (twice, [HEADS] * 3, "multiply takes weights more than once"),
        (with_weights, [HEADS] * 3, "is a result"),
        (with_sums, [HEADS] * 3, "is read by others, too"),
        (by_op, [ODD] * 3, "heads have 81 features, no multiple of 8 up to 256"),
        (by_op, [dd.f64[2, 4, LENGTH, 64]] * 3, "operands are f64, and templates take f16, bf16"),
        (by_op, [dd.f32[2, 4, LENGTH, 80]] * 3, "f32 with multiples of 32 features up to 128"),
        (by_op, [dd.f32[2, 4, 1, 64], WIDE, WIDE], "1 queries of f32 would leave most of a kernel"),
        (of_wide_weights, [HEADS] * 3, "weights are f32, and templates round them to f16 or bf16"),
        (rounded, [WIDE] * 3, "operands are f32, and templates take f16, bf16"),
    ],
)  # fmt: skip
def test_what_is_not_joined_is_told_with_the_reason(
    f: Callable[..., dd.Tensor], types: Sequence[Element], why: str
) -> None:
    p = dd.trace(*types)(f)
    assert kernels(p)[1] == 0
    (said,) = told(compile(p.module, OPTIONS, until="fuse"), OPTIONS)
    assert why in said


def test_nothing_is_told_of_what_is_joined_or_no_attention() -> None:
    def product(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.exp(q) @ dd.matrix_transpose(k) @ v

    joined = [dd.trace(*[HEADS] * 3)(f) for f in (by_op, by_hand, causal, product)]
    for p in (*joined, backward.program(128, 64, causal=True)):
        assert told(compile(p.module, OPTIONS, until="fuse"), OPTIONS) == ()
    apart = OPTIONS.changed({"graph.fuse": False})
    assert told(compile(dd.trace(*[HEADS] * 3)(by_op).module, apart, until="separate"), apart) == ()


@pytest.mark.parametrize(
    ("layers", "wide", "heads", "tokens", "launches"),
    [(1, 768, 12, 197, 9), (1, 1280, 16, 256, 9), (6, 384, 12, 128, 54)],
)
def test_an_encoder_makes_nine_launches_a_layer(
    layers: int, wide: int, heads: int, tokens: int, launches: int
) -> None:
    p = program(whole(encoder(layers, wide, heads), (2, tokens, wide)))
    assert kernels(p) == (launches, layers)


@pytest.mark.parametrize(("wide", "heads"), [(768, 12), (1280, 16), (768, 8)])
def test_a_block_of_a_decoder_makes_nine_launches(wide: int, heads: int) -> None:
    p = program(whole(block(wide, heads, first=True, causal=True), (2, 256, wide)))
    assert kernels(p) == (9, 1)


def test_weighted_sums_of_operands_of_other_ranks_stay_apart() -> None:
    m = parse_module(
        """module {
  func @main(%p0: f16[1, 1, 64], %p1: f16[1, 64, 1], %p2: f16[1, 1, 64], %p3: f16[1, 64, 1],
             %p4: f16[1, 1, 64], %p5: f16[1, 64]) -> (%matmul_2, %matmul_3) {
    %matmul = matmul(%p0, %p1) : f16[1, 1, 1]
    %matmul_1 = matmul(%p2, %p3) : f16[1, 1, 1]
    %exp = exp(%matmul) : f16[1, 1, 1]
    %multiply = multiply(%exp, %matmul_1) : f16[1, 1, 1]
    %matmul_2 = matmul(%multiply, %p4) : f16[1, 1, 64]
    %matmul_3 = matmul(%exp, %p5) : f16[1, 1, 64]
  }
}
"""
    )
    assert compile(m, Options(target="sm_90a")).kernels
