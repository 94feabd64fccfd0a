"""Attention and its gradients in one program, which have a product in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import didyma as dd
from didyma.codegen import apart
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.graph import Node

LENGTH = 40
SIDE = dd.bf16[1, 2, LENGTH, 64]
SMALL = dd.f16[1, 1, 20, 16]
Function = Callable[..., tuple[dd.Tensor, ...]]


def step(g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
    out, logs = dd.scaled_dot_product_attention(q, k, v, None, True, return_lse=True)
    return out, *dd.scaled_dot_product_attention_backward(g, q, k, v, out, logs, True)


def layers(g: dd.Tensor, x: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
    """Return the gradients of two layers of attention that share keys and values."""
    outs, logs = [x], list[dd.Tensor]()
    for _ in range(2):
        out, log = dd.scaled_dot_product_attention(outs[-1], k, v, None, True, return_lse=True)
        outs.append(out)
        logs.append(log)
    every = list[dd.Tensor]()
    for n in (1, 0):
        made = dd.scaled_dot_product_attention_backward(
            g, outs[n], k, v, outs[n + 1], logs[n], True
        )
        g = made.q
        every += [*made]
    return tuple(every)


def shown(g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
    """Return the scores, too."""
    return *step(g, q, k, v), q @ dd.matrix_transpose(k)


def pairs(p: dd.Program, target: str) -> int:
    """Return how many arrays of queries and keys kernels store."""
    made = compile(p.module, dd.Options(target=target), until="lower").fused
    calls: list[Node] = [n for n in made.entry.nodes if n.callee]
    return sum(t.shape[-2:] == (LENGTH, LENGTH) for n in calls for t in n.types)


def reasons(p: dd.Program) -> tuple[str, ...]:
    """Return why products and exponentials stay apart."""
    options = dd.Options(target="sm_90a")
    return apart.told(compile(p.module, options, until="lower"), options)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("program", [step, layers])
def test_attention_and_its_gradients_store_no_scores(program: Function, target: str) -> None:
    assert pairs(dd.trace(*[SIDE] * 4)(program), target) == 0


def test_it_is_told_what_stays_apart_and_nothing_of_gradients_that_do_not() -> None:
    said = {f: reasons(dd.trace(*[SIDE] * 4)(f)) for f in (step, shown)}
    assert said[step] == ()
    assert any(x.endswith("on the way, is a result") for x in said[shown])


def test_scores_that_are_a_result_are_stored_once() -> None:
    assert pairs(dd.trace(*[SIDE] * 4)(shown), "sm_90a") > 0


def test_a_softmax_whose_scores_are_stored_is_no_weighted_sum() -> None:
    def attended(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
        scores = q @ dd.matrix_transpose(k)
        return dd.softmax(scores, -1) @ v, dd.max(scores, -1), dd.exp(scores)

    assert pairs(dd.trace(*[SIDE] * 3)(attended), "sm_90a") > 0


@pytest.mark.parametrize("program", [step, layers])
def test_they_are_right(program: Function) -> None:
    p = dd.trace(*[SMALL] * 4)(program)
    assert dd.check(p, options=dd.Options(target="sm_80"), engines=["host"], tries=1).agree
