"""Attention within sequences that lie one behind the other."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.registry import probe
from didyma.refimpl.errors import DidymaError

Array = np.ndarray[Any, np.dtype[Any]]
OFFSETS = np.array([0, 40, 40, 131, 150], np.int32)
OF_KEYS = np.array([0, 70, 75, 75, 190], np.int32)  # fewer than queries, or none


def attention(
    q: Array, k: Array, v: Array, rows: Array, keys: Array, *, causal: bool, window: int = 1000
) -> Array:
    """Compute each sequence and head alone, in f64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    out = np.zeros((len(q), q.shape[1], v.shape[2]))
    for a, b, c, d in zip(rows, rows[1:], keys, keys[1:], strict=False):
        seen = np.tri(b - a, d - c, (d - c) - (b - a)) if causal else np.ones((b - a, d - c))
        seen = seen * (1 - np.tri(b - a, d - c, (d - c) - (b - a) - window))
        for h in range(q.shape[1]):
            g = h * k.shape[1] // q.shape[1]
            score = q[a:b, h] @ k[c:d, g].T / np.sqrt(q.shape[2])
            weight = np.exp(score) * seen
            total = weight.sum(1, keepdims=True)
            out[a:b, h] = weight @ v[c:d, g] / np.where(total == 0, 1, total)
    return out


def some(dtype: Any, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("target", ["portable", "sm_80", "sm_90a"])
def test_each_sequence_sees_its_own_keys(target: str, causal: bool) -> None:
    t, of, width = (dd.f32, np.float32, 16)
    if target != "portable":
        t, of, width = (dd.bf16, ml_dtypes.bfloat16, 64)
    n = dd.dim("n", 1, 300)

    @dd.trace(t[n, 2, width], t[n, 1, width], t[n, 1, width], dd.i32[5])
    def own(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
        return dd.varlen_attention(q, k, v, at, is_causal=causal, enable_gqa=True, window=30)

    @dd.trace(t[150, 2, width], t[190, 2, width], t[190, 2, width], dd.i32[5], dd.i64[5])
    def across(
        q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor, keys: dd.Tensor
    ) -> dd.Tensor:
        return dd.varlen_attention(q, k, v, at, keys, causal)

    options = dd.Options(target=target)
    q, k, v = some(of, 150, 2, width), some(of, 150, 1, width), some(of, 150, 1, width) + of(1)
    got = np.asarray(dd.compile(own, options=options, engine="host")(q, k, v, OFFSETS))
    want = attention(q, k, v, OFFSETS, OFFSETS, causal=causal, window=30)
    most = 1e-5 if t is dd.f32 else 2.0**-6
    assert np.abs(got.astype(float) - want).max() < most
    k, v = some(of, 190, 2, width), some(of, 190, 2, width)
    keys = OF_KEYS.astype(np.int64)
    got = np.asarray(dd.compile(across, options=options, engine="host")(q, k, v, OFFSETS, keys))
    want = attention(q, k, v, OFFSETS, keys, causal=causal)
    assert np.abs(got.astype(float) - want).max() < most
    assert (want == 0).any()


SMALL = (dd.f32[12, 2, 4], dd.f32[12, 2, 4], dd.f32[12, 2, 4], dd.i32[4])


@dd.trace(*SMALL)
def small(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return dd.varlen_attention(q, k, v, at, is_causal=True)


@dd.trace(*SMALL)
def unchecked(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return dd.varlen_attention(q, k, v, at, is_causal=True, checked=False)


@pytest.mark.parametrize("offsets", [[1, 5, 7, 12], [0, 7, 5, 12], [0, 5, 7, 11], [0, 5, 7, 13]])
def test_offsets_that_are_none_are_refused(offsets: list[int]) -> None:
    given = [some(np.float32, 12, 2, 4)] * 3
    with pytest.raises(DidymaError, match="offsets_rise") as e:
        dd.compile(small)(*given, np.array(offsets, np.int32))
    assert e.value.code == "dim-out-of-range"


def test_what_is_not_looked_at_is_the_same() -> None:
    given = [some(np.float32, 12, 2, 4)] * 3
    at = np.array([0, 0, 5, 12], np.int32)
    checked = np.asarray(dd.compile(small)(*given, at))
    np.testing.assert_array_equal(checked, np.asarray(dd.compile(unchecked)(*given, at)))
    assert dd.interpret(small, *given, at).contains(checked)


def test_what_nvrtc_makes_of_the_kernels_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")

    @dd.trace(dd.f16[150, 1, 64], dd.f16[150, 1, 64], dd.f16[150, 1, 64], dd.i32[5])
    def f(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
        return dd.varlen_attention(q, k, v, at, is_causal=True)

    q, k, v = (some(np.float16, 150, 1, 64) for _ in range(3))
    made = dd.compile(f, options=dd.Options(target="sm_90a"), engine="ptx")
    assert "tma_attention" in str(made.choices)
    want = attention(q, k, v, OFFSETS, OFFSETS, causal=True)
    assert np.abs(np.asarray(made(q, k, v, OFFSETS)) - want).max() < 2.0**-9


def four(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return dd.varlen_attention(q, k, v, at)


def five(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor, at: dd.Tensor, keys: dd.Tensor) -> dd.Tensor:
    return dd.varlen_attention(q, k, v, at, keys)


WRONG: dict[str, list[tuple[Any, ...]]] = {
    "bad-call": [
        (dd.f32[2, 12, 2, 4], *SMALL[1:]), (*SMALL[:3], dd.i32[4, 1]),
        (dd.f32[11, 2, 4], *SMALL[1:]),
    ],
    "bad-operand": [(*SMALL[:3], dd.f32[4])],
    "shape-mismatch": [(*SMALL, dd.i32[5])],
}  # fmt: skip


@pytest.mark.parametrize("code", WRONG)
def test_what_does_not_fit_is_refused(code: str) -> None:
    for types in WRONG[code]:
        with pytest.raises(DidymaError) as e:
            dd.trace(*types)(four if len(types) == 4 else five)
        assert e.value.code == code
