"""Gradients of attention, by their definition in f64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.tracer.types import Element

Array = np.ndarray[Any, np.dtype[Any]]


def gradients(
    g: Array, q: Array, k: Array, v: Array, *, causal: bool, window: int | None
) -> tuple[Array, ...]:
    """Return the output, the logarithms of sums, and the gradients of each operand, one by one."""
    g, q, k, v = (x.astype(np.float64) for x in (g, q, k, v))
    out, logs, of_q = np.zeros(g.shape), np.zeros(g.shape[:-1]), np.zeros(q.shape)
    of_k, of_v = np.zeros(k.shape), np.zeros(v.shape)
    for b, h, i in np.ndindex(*q.shape[:3]):
        own = h * k.shape[1] // q.shape[1]
        first = 0 if window is None else max(0, i - window + 1)
        seen = slice(first, i + 1 if causal else k.shape[2])
        keys, values = k[b, own, seen], v[b, own, seen]
        score = keys @ q[b, h, i] / np.sqrt(q.shape[3])
        logs[b, h, i] = np.log(np.exp(score).sum())
        weight = np.exp(score - logs[b, h, i])
        out[b, h, i] = weight @ values
        change = weight * (values @ g[b, h, i] - out[b, h, i] @ g[b, h, i]) / np.sqrt(q.shape[3])
        of_q[b, h, i] = change @ keys
        of_k[b, own, seen] += np.outer(change, q[b, h, i])
        of_v[b, own, seen] += np.outer(weight, g[b, h, i])
    return out, logs, of_q, of_k, of_v


def program(
    t: Element, sizes: tuple[int, ...], *, causal: bool = False, window: int | None = None
) -> dd.Program:
    """Trace gradients for sizes of batch, heads, heads of keys, queries, keys, depth and width."""
    b, h, own, n, m, d, e = sizes

    @dd.trace(
        t[b, h, n, e], t[b, h, n, d], t[b, own, m, d], t[b, own, m, e], t[b, h, n, e],
        dd.f32[b, h, n],
    )  # fmt: skip
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return dd.scaled_dot_product_attention_backward(
            g, q, k, v, o, logs, causal, enable_gqa=h != own, window=window
        )

    return f


def errors(
    made: Any, of: Any, sizes: tuple[int, ...], *, causal: bool = False, window: int | None = None
) -> list[float]:
    """Return the largest error of each gradient."""
    b, h, own, n, m, d, e = sizes
    r = np.random.default_rng(1)
    shapes = ((b, h, n, e), (b, h, n, d), (b, own, m, d), (b, own, m, e))
    g, q, k, v = (r.normal(size=s).astype(of) for s in shapes)
    out, logs, *want = gradients(g, q, k, v, causal=causal, window=window)
    got = made(g, q, k, v, out.astype(of), logs.astype(np.float32))
    return [
        float(np.abs(np.asarray(x).astype(float) - y).max()) for x, y in zip(got, want, strict=True)
    ]


CASES: dict[str, tuple[tuple[int, ...], bool, int | None]] = {
    "causal, with tails": ((2, 2, 2, 33, 40, 64, 64), True, None),
    "a window, and heads that share keys": ((1, 4, 2, 40, 50, 32, 16), True, 17),
    "all keys, other widths": ((1, 2, 2, 18, 35, 16, 64), False, None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["portable", "sm_80", "sm_90a"])
def test_gradients_are_those_of_the_definition(target: str, case: str) -> None:
    sizes, causal, window = CASES[case]
    t, of, most = (dd.f32, np.float32, 2e-5) if target == "portable" else (
        dd.f16, np.float16, 0.01
    )  # fmt: skip
    p = program(t, sizes, causal=causal, window=window)
    made = dd.compile(p, options=dd.Options(target=target), engine="host")
    rows = made.choices["choices"].values()
    taken = [x for row in rows if (x := row["choice"].split("(")[0]).endswith("_weighted")]
    pair = ["tma_weighted"] if sizes[-2:] == (64, 64) else ["mma_weighted"] * 2
    wanted = {"portable": [], "sm_80": ["mma_weighted"] * 3, "sm_90a": ["mma_weighted", *pair]}
    assert taken == wanted[target]
    assert max(errors(made, of, sizes, causal=causal, window=window)) < most


def test_bars_hold_what_tensor_cores_compute() -> None:
    sizes = (1, 2, 1, 18, 20, 16, 16)
    p = program(dd.bf16, sizes, causal=True)
    report = dd.check(p, options=dd.Options(target="sm_80"), engines=["host"], tries=1)
    assert report.agree
    assert max(errors(dd.compile(p), ml_dtypes.bfloat16, sizes, causal=True)) < 0.1


def test_gradients_of_modified_scores_are_those_of_the_definition() -> None:
    """Scores are capped, and get a term in which no index is like another."""

    def capped(score: dd.Tensor, *at: dd.Tensor) -> dd.Tensor:
        return dd.tanh(score) * 2.0 + term(score, *at)

    def slope(score: dd.Tensor, *at: dd.Tensor) -> dd.Tensor:
        return (1.0 - dd.square(dd.tanh(score))) * 2.0

    def term(score: dd.Tensor, *at: dd.Tensor) -> dd.Tensor:
        b, h, i, j = (dd.astype(x, dd.f16) for x in at)
        return (b - h) * 0.25 + i * 0.125 - j * 0.0625

    @dd.trace(
        *[dd.f16[2, 2, 9, 16]] * 2,
        *[dd.f16[2, 2, 12, 16]] * 2,
        dd.f16[2, 2, 9, 16],
        dd.f32[2, 2, 9],
    )
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return dd.scaled_dot_product_attention_backward(
            g, q, k, v, o, logs, score_mod=capped, score_mod_slope=slope
        )

    r = np.random.default_rng(2)
    g, q, k, v = (r.normal(size=(2, 2, n, 16)).astype(np.float16) for n in (9, 9, 12, 12))
    wide = [x.astype(np.float64) for x in (q, k, v)]
    out, logs = attended(*wide)
    want = [np.zeros(x.shape) for x in wide]
    step = 1e-5
    for x, of in zip(wide, want, strict=True):
        for at in np.ndindex(*x.shape):
            x[at] += step
            more = (attended(*wide)[0] * g).sum()
            x[at] -= 2 * step
            of[at] = (more - (attended(*wide)[0] * g).sum()) / (2 * step)
            x[at] += step
    for target in ("portable", "sm_80"):
        made = dd.compile(f, options=dd.Options(target=target), engine="host")
        got = made(g, q, k, v, out.astype(np.float16), logs.astype(np.float32))
        for x, y in zip(got, want, strict=True):
            assert np.abs(np.asarray(x).astype(float) - y).max() < 0.01


def attended(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """Return the attention of capped scores with a term for each pair, and logarithms of sums."""
    b, h, i, j = np.ogrid[: q.shape[0], : q.shape[1], : q.shape[2], : k.shape[2]]
    score = 2 * np.tanh(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    powers = np.exp(score + (b - h) * 0.25 + i * 0.125 - j * 0.0625)
    return powers @ v / powers.sum(-1, keepdims=True), np.log(powers.sum(-1))


def test_a_modification_of_scores_needs_its_slope() -> None:
    def mod(score: dd.Tensor, *at: dd.Tensor) -> dd.Tensor:
        return dd.tanh(score)

    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return dd.scaled_dot_product_attention_backward(g, q, k, v, o, logs, score_mod=mod)

    with pytest.raises(DidymaError) as e:
        dd.trace(*[dd.f32[1, 2, 3, 4]] * 5, dd.f32[1, 2, 3])(f)
    assert e.value.code == "bad-call"
    assert "score_mod without score_mod_slope" in str(e.value)


WRONG = (
    (dd.f32[2, 3, 4], *[dd.f32[1, 2, 3, 4]] * 4, dd.f32[1, 2, 3]),
    (dd.f16[1, 2, 3, 4], *[dd.f32[1, 2, 3, 4]] * 4, dd.f32[1, 2, 3]),
    (*[dd.f32[3, 4]] * 5, dd.f32[3]),
    (*[dd.f32[1, 2, 3, 4]] * 5, dd.f32[1, 2, 3, 1]),
)


@pytest.mark.parametrize("types", WRONG)
def test_what_does_not_fit_is_refused(types: tuple[Any, ...]) -> None:
    def f(
        g: dd.Tensor, q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, o: dd.Tensor, logs: dd.Tensor
    ) -> tuple[dd.Tensor, ...]:
        return dd.scaled_dot_product_attention_backward(g, q, k, v, o, logs)

    with pytest.raises(DidymaError) as e:
        dd.trace(*types)(f)
    assert e.value.code == "bad-call"
