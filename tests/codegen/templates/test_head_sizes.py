"""Attention with heads of any multiple of 8 is joined, forward and backward."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.pipeline import compile

SIZES = (40, 80, 256)


@pytest.mark.parametrize("size", SIZES)
def test_attention_is_one_kernel(size: int) -> None:
    @dd.trace(dd.f16[2, 4, 256, size], dd.f16[2, 4, 256, size], dd.f16[2, 4, 256, size])
    def f(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
        return dd.scaled_dot_product_attention(q, k, v, is_causal=True)

    for target in ("sm_80", "sm_90a"):
        made = compile(f.module, dd.Options(target=target))
        assert len(made.kernels) == 1
        products = made.text.source.count("= mma_m16n8k16_f16(")
        boxes = made.text.source.count("tma_load3_f16(")
        assert (boxes > 0, products > 0) == ((size >= 64, size < 64) if "90" in target else (0, 1))


@pytest.mark.parametrize("size", SIZES)
def test_gradients_store_no_scores(size: int) -> None:
    shape = (2, 4, 256, size)

    @dd.trace(*[dd.f16[shape]] * 5, dd.f32[shape[:-1]])
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return tuple(dd.scaled_dot_product_attention_backward(g, q, k, v, o, logs))

    for target in ("sm_80", "sm_90a"):
        made = compile(f.module, dd.Options(target=target))
        both = target == "sm_90a" and 64 <= size <= 128
        assert len(made.kernels) == (3 if both else 4)
