"""Products of factors that are rounded to TF32: their bars, and the option that states them."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("half", [0, 0x1000])
def test_bars_hold_rounded_and_cut_factors_and_no_lost_term(half: int) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((32, 64), (64, 32)))
    m = small.module
    given = [bars.exact(x, DType.F32) for x in (a, b)]
    (bar,) = graph.bars(m.entry, m, given, {}, Declared(multiply="tf32").rules, stored=True)

    def right(left: np.ndarray) -> np.ndarray:
        factors = [
            ((x.view(np.uint32) + np.uint32(half)) & np.uint32(0xFFFFE000)).view(np.float32)
            for x in (left, b)
        ]
        out = (factors[0].astype(np.float64) @ factors[1]).astype(np.float32)
        return bars.judge(bar, out, DType.F32).ok

    assert right(a).all()
    a[:, 3] = 0
    assert right(a).mean() < 0.2  # terms that are small are within the bars


def test_factors_that_have_few_bits_are_exact() -> None:
    a, b = (np.ones(s, np.float32) * 1.5 for s in ((32, 64), (64, 32)))
    given = [bars.exact(x, DType.F32) for x in (a, b)]
    found = [
        graph.bars(small.module.entry, small.module, given, {}, Declared(multiply=f).rules)[0].e
        for f in ("f32", "tf32")
    ]
    assert (found[0] == found[1]).all()


def test_other_factors_are_refused() -> None:
    with pytest.raises(dd.DidymaError, match="want: one of f32, tf32"):
        Declared(multiply="bf16")
