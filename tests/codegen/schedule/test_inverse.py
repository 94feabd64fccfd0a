"""Exponentials that are multiplied by the inverse of their sum, in place of being divided by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from tests.codegen.schedule.test_online import chosen, masked, pinned, program, rows_of, softmax


def weighed(x: dd.Tensor) -> dd.Tensor:
    """What is divided is an exponential of something else."""
    top = dd.max(x, axis=1, keepdims=True)
    return dd.exp(x * 2.0) / dd.sum(dd.exp(x - top), axis=1, keepdims=True)


def unshifted(x: dd.Tensor) -> dd.Tensor:
    """The sum may be as small as exponentials are."""
    return dd.exp(x) / dd.sum(dd.exp(x), axis=1, keepdims=True)


def shifted(x: dd.Tensor) -> dd.Tensor:
    """So may this one, where all elements are far below zero."""
    top = dd.maximum(dd.max(x, axis=1, keepdims=True), 0.0)
    e = dd.exp(x - top)
    return e / dd.sum(e, axis=1, keepdims=True)


def share(x: dd.Tensor) -> dd.Tensor:
    """What is divided is no exponential."""
    top = dd.max(x, axis=1, keepdims=True)
    return x / dd.sum(dd.exp(x - top), axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("f", "online", "found"),
    [
        (softmax, "online=2, ", 1), (masked, "online=0, ", 1), (weighed, "online=2, ", 1),
        (unshifted, "", 0), (shifted, "", 0), (share, "online=2, ", 0),
    ],
)  # fmt: skip
def test_sums_that_are_no_less_than_one_are_inverted(
    f: Callable[..., Any], online: str, found: int
) -> None:
    p = program(f)
    options = chosen(p, f"looped(groups=1, lanes=32, {online}wide=4)")
    assert dd.compile(p, engine="simt", options=options).text.count("= 1.0f / ") == found


@pytest.mark.parametrize(("keep", "found"), [(0, 1), (1, 0)])
def test_sums_of_exponentials_that_threads_keep_are_not_inverted(keep: int, found: int) -> None:
    p = program(softmax)
    options = chosen(p, f"rows(groups=1, keep={keep}, lanes=32, online=0, wide=4)")
    text = dd.compile(p, engine="simt", options=options).text
    assert (text.count("= 1.0f / "), text.count("exp_flush_f32(")) == (found, found)


@pytest.mark.parametrize("dtype", [dd.f32, dd.f64, dd.bf16])
@pytest.mark.parametrize("f", [softmax, masked, weighed])
def test_special_values_are_those_of_quotients_where_threads_hold_rows(
    f: Callable[..., Any], dtype: Any
) -> None:
    p = program(f, dtype, 16)
    keep = "" if f is weighed else "keep=0, "
    options = chosen(p, f"rows(groups=1, {keep}lanes=32, online=0, wide=2)")
    for engine in ("host", "simt"):
        exe = dd.compile(p, engine=engine, options=options)
        for seed in range(2):
            x = rows_of(seed).astype(dtype.dtype.numpy)
            assert dd.interpret(p, x).contains(exe(x)), engine


@pytest.mark.parametrize("dtype", [dd.f32, dd.f64, dd.bf16])
@pytest.mark.parametrize("f", [softmax, masked, weighed])
def test_special_values_are_those_of_quotients(f: Callable[..., Any], dtype: Any) -> None:
    p = program(f, dtype, 16)
    for engine, online in (("host", 0), ("simt", 2)):
        exe = dd.compile(p, engine=engine, options=pinned(p, online, wide=2))
        for seed in range(2):
            x = rows_of(seed).astype(dtype.dtype.numpy)
            assert dd.interpret(p, x).contains(exe(x)), engine


@pytest.mark.parametrize("off", [-2.5, 2.5])
def test_bars_hold_for_exponentials_that_are_off_by_more_than_libraries(off: float) -> None:
    """A quotient of what is off by 4 ulp would fit into them; here a product with 2.5 does."""
    p = program(softmax, dd.f32, 64)
    x = np.random.default_rng(3).standard_normal((64, 96)).astype(np.float32) * 4
    d = (x - x.max(1, keepdims=True)).astype(np.float64)
    true = np.exp(d)
    e = np.where(d == 0, 1, true + off * np.spacing(true.astype(np.float32))).astype(np.float32)
    total = np.cumsum(true.astype(np.float32), axis=1, dtype=np.float32)[:, -1:]
    assert dd.interpret(p, x).contains(e * (np.float32(1) / total))


def test_the_ring_agrees() -> None:
    p = program(softmax)
    report = dd.check(p, engines=["host", "simt"], options=pinned(p, 2), tries=2)
    assert report.agree, [str(f) for f in report.findings]
