"""Products of factors that are rounded: their bars, and the option that states them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ml_dtypes import bfloat16

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.contracts import Declared
from didyma.judging.judge import Outcome, judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.factors import FORMATS
from didyma.show import judge_kernel as show
from tests.didyma.judging.kernels import product

needs_ptx = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")

TF32 = r"""
__device__ unsigned bits(const float* x, int row, int column, int rows, int columns) {
  return row < rows && column < columns ? __float_as_uint(x[row * columns + column]) : 0;
}

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * 16 + threadIdx.x / 4, column = blockIdx.x * 8, t = threadIdx.x % 4;
  float d[4] = {};
  for (int k0 = 0; k0 < k; k0 += 8) {
    unsigned a0 = bits(a, row, k0 + t, m, k), a1 = bits(a, row + 8, k0 + t, m, k);
    unsigned a2 = bits(a, row, k0 + t + 4, m, k), a3 = bits(a, row + 8, k0 + t + 4, m, k);
    unsigned b0 = bits(b, k0 + t, column + threadIdx.x / 4, k, n);
    unsigned b1 = bits(b, k0 + t + 4, column + threadIdx.x / 4, k, n);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  for (int j = 0; j < 4; ++j) {
    int i = row + j / 2 * 8, at = column + 2 * t + j % 2;
    if (i < m && at < n) c[i * n + at] = d[j];
  }
}
"""


@needs_ptx
@pytest.mark.parametrize(
    ("edit", "multiply", "right_with"),
    [("d[j]", "f32", "--multiply tf32"), ("d[j]", "tf32", ""), ("d[j] * 1.02f", "f32", "")],
)
def test_products_of_rounded_factors_are_right_where_that_is_stated(
    edit: str, multiply: str, right_with: str
) -> None:
    source = Source(TF32.replace("= d[j]", f"= {edit}"), "k.cu")
    launch, contract = Launch(grid="cdiv(n, 8), cdiv(m, 16)"), Declared(multiply=multiply)
    draw = Draw(rounds=4, most=1 << 11)
    found = judge(make_task(source, product.module, launch, contract, draw))
    assert found.outcome is (Outcome.CORRECT if multiply == "tf32" else Outcome.WRONG)
    assert located(found, seconds=0.1).right_with == right_with
    told = any("--multiply tf32 allows that" in row for row in show.lines(show.record(found, "k")))
    assert told is bool(right_with)


@dd.trace(dd.f32[32, 64], dd.f32[64, 32])
def small(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


Values = npt.NDArray[np.float32]


def to_tf32(x: Values, more: int) -> Values:
    return ((x.view(np.uint32) + np.uint32(more)) & np.uint32(0xFFFFE000)).view(np.float32)


def to_dtype(x: Values, dtype: np.dtype[Any]) -> Values:
    return x.astype(dtype).astype(np.float32)


@pytest.mark.parametrize(
    ("multiply", "rounded"),
    [
        ("tf32", partial(to_tf32, more=0)),
        ("tf32", partial(to_tf32, more=0x1000)),
        ("bf16", partial(to_dtype, dtype=np.dtype(bfloat16))),
        ("f16", partial(to_dtype, dtype=np.dtype(np.float16))),
    ],
)
def test_bars_hold_rounded_factors_and_no_lost_term(
    multiply: str, rounded: Callable[[Values], Values]
) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((32, 64), (64, 32)))
    m = small.module
    given = [bars.exact(x, DType.F32) for x in (a, b)]
    (bar,) = graph.bars(m.entry, m, given, {}, Declared(multiply=multiply).rules, stored=True)

    def right(left: Values) -> npt.NDArray[np.bool_]:
        out = (rounded(left).astype(np.float64) @ rounded(b)).astype(np.float32)
        return bars.judge(bar, out, DType.F32).ok

    assert right(a).all()
    a[:, 3] = 0
    assert right(a).mean() < 0.4  # terms that are small are within the bars


@pytest.mark.parametrize("multiply", FORMATS)
def test_numbers_of_a_format_are_exact_and_others_are_not(multiply: str) -> None:
    few, many = (np.full((32, 64), x, np.float32) for x in (1.5, 1 / 3))
    b = bars.exact(np.ones((64, 32), np.float32), DType.F32)

    def error(x: Values, multiply: str) -> npt.NDArray[np.float64]:
        rules = Declared(multiply=multiply).rules
        return graph.bars(
            small.module.entry, small.module, [bars.exact(x, DType.F32), b], {}, rules
        )[0].e

    assert (error(few, multiply) == error(few, "f32")).all()
    assert (error(many, multiply) > error(many, "f32")).all()


def test_a_number_that_may_be_another_may_be_cut() -> None:
    one = bars.Bar(np.ones(1), np.array([1e-7]))  # the one below is cut to 1 - 2**-11
    assert FORMATS["tf32"].rounded(one).e >= 2.0**-11


HALVES = r"""
#include <cuda_fp16.h>
__device__ float rounded(float x) { return __half2float(__float2half(x)); }
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int t = 0; column < n && t < k; ++t)
    sum += rounded(a[row * k + t]) * rounded(b[t * n + column]);
  if (column < n) c[row * n + column] = sum;
}
"""


@needs_ptx
@pytest.mark.parametrize("multiply", ["f32", "f16", "bf16"])
def test_factors_of_another_format_are_wrong_where_they_are_coarser(multiply: str) -> None:
    launch = Launch(grid="cdiv(n, 32), m")
    contract, draw = Declared(finite=True, multiply=multiply), Draw(rounds=4, most=1 << 11)
    found = judge(make_task(Source(HALVES, "k.cu"), product.module, launch, contract, draw))
    assert found.outcome is (Outcome.WRONG if multiply == "f32" else Outcome.CORRECT)


def test_other_factors_are_refused() -> None:
    with pytest.raises(dd.DidymaError, match="want: one of f32, tf32, bf16, f16"):
        Declared(multiply="f8")
