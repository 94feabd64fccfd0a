"""Threads with several results load what all need first; two lanes of eight bytes are an access."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.refimpl.ir.types import DType

OPTIONS = Options().changed({"target": "sm_90a"})


def built(program: Any, point: str, engine: str = "simt") -> Any:
    usual = cast("Any", dd.compile(program, engine=engine, options=OPTIONS))
    (name,) = usual.choices["choices"]
    return cast("Any", dd.compile(program, engine=engine, options=OPTIONS, choose={name: point}))


def scaled(rows: int, length: int) -> Any:
    def roots(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.sqrt(dd.abs(x)) * w

    made: Any = dd.trace(dd.f32[rows, length], dd.f32[length])(roots)
    return made


@pytest.mark.parametrize(("rows", "length"), [(6, 64), (5, 36), (3, 1003), (7, 99)])
@pytest.mark.parametrize("each", [2, 4])
def test_every_bit_is_that_of_one_result_a_thread(rows: int, length: int, each: int) -> None:
    """Whole vectors and those behind them; lengths that divide what a block takes, and others."""
    rng, program = np.random.default_rng(4), scaled(rows, length)
    x = rng.normal(size=(rows, length)).astype(np.float32)
    w = rng.normal(size=length).astype(np.float32)
    one, several = (built(program, f"pointwise(block=32, each={n}, wide=1)") for n in (1, each))
    assert np.array_equal(several(x, w), one(x, w))
    assert dd.interpret(program, x, w).contains(several(x, w))


def test_loads_of_all_turns_come_before_the_first_root() -> None:
    text = built(scaled(64, 4096), "pointwise(block=64, each=2, wide=1)").text
    kernel = text[text.index("__global__") :]
    assert kernel.rindex("load4_f32(&x") < kernel.index("sqrt_f32(")
    assert kernel.count("store4_f32(") == 1
    assert kernel.count("#pragma unroll") == 2


def test_much_is_computed_by_threads_with_two_results() -> None:
    """Of many results alone: few threads would have none."""

    def first(f: Any, n: int) -> str:
        exe = cast("Any", dd.compile(dd.trace(dd.f32[n])(f), engine="simt", options=OPTIONS))
        (chosen,) = exe.choices["choices"].values()
        return str(chosen["choice"])

    def much(x: dd.Tensor) -> dd.Tensor:
        return dd.tanh(x) * dd.exp(x) / dd.sqrt(dd.log(x))

    def little(x: dd.Tensor) -> dd.Tensor:
        return x * 2.0 + 1.0

    assert "each=2" in first(much, 1 << 20)
    assert "each=1" in first(much, 1 << 10)
    assert "each=1" in first(little, 1 << 20)


@pytest.mark.parametrize("n", [64, 65, 4096])
def test_two_elements_of_eight_bytes_are_one_access(n: int) -> None:
    def sums(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return a + b

    add: Any = dd.trace(dd.f64[n], dd.f64[n])(sums)
    exe = cast("Any", dd.compile(add, engine="simt", options=OPTIONS))
    a, b = np.random.default_rng(5).normal(size=(2, n))
    assert np.array_equal(exe(a, b), a + b)
    assert "load2_f64(&a" in exe.text
    assert "load4_f64" not in exe.text


def moved(rows: Any, length: int) -> Any:
    def f(x: dd.Tensor, mean: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
        return dd.astype((dd.astype(x, dd.f32) - mean) * scale, dd.bf16)

    made: Any = dd.trace(dd.bf16[rows, length], dd.f32[length], dd.f32[1, length])(f)
    return made


@pytest.mark.parametrize("rows", [2, 6, 7, dd.dim("n", 0, 40)])
@pytest.mark.parametrize("each", [2, 4])
def test_threads_load_what_rows_share_once_for_several(rows: Any, each: int) -> None:
    """They are rows below each other, of which there may be no whole number of groups."""
    program, rng = moved(rows, 48), np.random.default_rng(6)
    x = rng.normal(size=(rows if isinstance(rows, int) else 13, 48)).astype(DType.BF16.numpy)
    mean, scale = rng.normal(size=(2, 48)).astype(np.float32)
    one, several = (built(program, f"pointwise(block=32, each={n}, wide=1)") for n in (1, each))
    assert np.array_equal(several(x, mean, scale[None]), one(x, mean, scale[None]))
    assert "load4_bf16(&x" in one.text
    assert "load8_bf16(&x" in several.text
    assert "load8_f32(&mean" in several.text


def test_rows_are_below_each_other_where_they_share_larger_elements() -> None:
    def first(program: Any) -> str:
        exe = cast("Any", dd.compile(program, engine="simt", options=OPTIONS))
        (chosen,) = exe.choices["choices"].values()
        return str(chosen["choice"])

    def sums(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x + w

    assert "each=2" in first(moved(4096, 1024))
    assert "each=1" in first(moved(16, 1024))
    assert "each=1" in first(dd.trace(dd.f32[4096, 1024], dd.f32[1024])(sums))
    assert "each=1" in first(dd.trace(dd.bf16[4096, 1024], dd.bf16[1024])(sums))
