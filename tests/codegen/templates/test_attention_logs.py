"""Logarithms of the sums of exponentials, which kernels of attention store beside their results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.templates import (
    attention,
    attention_mma,
    attention_tma,
    attention_wgmma,
)
from didyma.codegen.templates.language import Text
from tests.codegen.templates.judging import judged

N = dd.dim("n", 1, 42)
POINTS = {
    attention: ("sm_80", "tiled_attention(each=2, height=16, lanes=8, width=16)"),
    attention_mma: ("sm_80", "mma_attention(height=32, tall=16, width=32)"),
    attention_wgmma: ("sm_90a", "wgmma_attention(height=64, width=64)"),
    attention_tma: ("sm_90a", "tma_attention(height=128, order=0, width=64)"),
}


def program(module: ModuleType) -> dd.Program:
    """Return an attention of two heads that share one of keys, of a symbolic length.

    In f32, rows see a window that is empty for the last of them.
    """
    element = dd.f32 if module is attention else dd.bf16
    change = near if module is attention else None

    @dd.trace(element[2, N, 64], element[1, 20, 64], element[1, 20, 64])
    def causal(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.scaled_dot_product_attention(
            q, k, v, None, True, enable_gqa=True, score_mod=change, return_lse=True
        )

    return causal


def near(score: dd.Tensor, *places: dd.Tensor) -> dd.Tensor:
    i, j = places[-2:]
    return dd.where(i - j < 9, score, -float("inf"))


def said(module: ModuleType, text: Text | None = None) -> set[str]:
    """Return what the judge says of a template's kernel, of its own text or another."""
    target, point = POINTS[module]
    template = module.TEMPLATE
    options = dd.Options(target=target).changed({"kernels.codegens": (template.name,)})
    if text is None:
        return judged(program(module), point, options=options, suits=template.space)
    wrong = replace(template, render=partial(module.render, text=text))
    options = options.changed({"kernels.codegens": (wrong,)})
    return judged(program(module), point, wrong, options, template.space, engines=["simt"])


FAULTS = {
    "largest score": (attention, " + top_score[i]", ""),
    "unseen row": (attention, "total[i] == {{ zero }} ? nan_{{ acc }}() : log", "log"),
    "row": (attention_mma, "r % 2 * 8;\n    const f32 log", "r / 2 * 8;\n    const f32 log"),
    "logarithm": (attention_mma, "log_f32(", "sqrt_f32("),
    "unit": (attention_tma, " * {{ unit }}", ""),
}


@pytest.mark.parametrize("module", POINTS)
def test_logarithms_are_right(module: ModuleType) -> None:
    assert said(module) == {""}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    module, old, new = FAULTS[fault]
    assert module.TEXT.source.count(old) == 1
    assert said(module, Text(module.TEMPLATE.name, module.TEXT.source.replace(old, new))) != {""}


def test_one_kernel_stores_both_results() -> None:
    for module in (attention_mma, attention_tma):
        made = compile(program(module).module, dd.Options(target=POINTS[module][0]))
        assert len(made.text.kernels) == 1


def test_gradients_follow_from_what_an_attention_returns() -> None:
    r = np.random.default_rng(0)
    q, k, v, g = (r.normal(size=(2, 9, 16)) for _ in range(4))

    @dd.trace(*[dd.f32[2, 9, 16]] * 4)
    def both(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, g: dd.Tensor) -> tuple[dd.Tensor, ...]:
        out, log = dd.scaled_dot_product_attention(q, k, v, return_lse=True)
        return log, *dd.scaled_dot_product_attention_backward(g, q, k, v, out, log)

    got = dd.compile(both, options=dd.Options(target="sm_80"))(*map(np.float32, (q, k, v, g)))
    scores = q @ k.transpose(0, 2, 1) / 4
    weights = np.exp(scores)
    total = weights.sum(-1, keepdims=True)
    weights /= total
    change = g @ v.transpose(0, 2, 1)
    change = weights * (change - (weights * change).sum(-1, keepdims=True)) / 4
    want = np.log(total[..., 0]), change @ k, change.transpose(0, 2, 1) @ q
    for a, b in zip(got, (*want, weights.transpose(0, 2, 1) @ g), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, atol=1e-5)


def test_what_values_are_computed_of_the_logarithm_is_no_one_kernel() -> None:
    """The values wait for the logarithm, so the attention cannot be one kernel with it."""

    @dd.trace(dd.bf16[2, 70, 64], dd.bf16[2, 70, 64], dd.bf16[2, 70, 64])
    def turned(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        scores = dd.matmul(q, dd.permute(k, (0, 2, 1))).astype(dd.f32)
        top = dd.max(scores, axis=-1, keepdims=True)
        powers = dd.exp(scores - top)
        total = dd.sum(powers, axis=-1, keepdims=True)
        log = dd.log(total) + top
        return dd.matmul((powers / total).astype(dd.bf16), v * log.astype(dd.bf16)), log

    options = dd.Options(target="sm_80")
    assert len(compile(turned.module, options).text.kernels) > 2
    assert dd.check(turned, options=options, engines=["host"], tries=1).agree
