"""Kernels that keep something in variables of their text from one launch to the next."""

from __future__ import annotations

from typing import Any

import pytest

import didyma as dd
from didyma.codegen.runtime.registry import probe
from didyma.judging.asserting import NotCorrectError
from didyma.testing import assert_kernel_correct

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")

n = dd.dim("n", 1, 4096)


@dd.trace(dd.f32[n])
def total(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, keepdims=True)


FIRST = """__device__ float kept;
__device__ int made;
__global__ void first(const float* x, float* y, int n) {
  if (!made) {
    float s = 0;
    for (int k = 0; k < n; ++k) s += x[k];
    kept = s;
    made = 1;
  }
  y[0] = kept;
}
"""
LAST = """__device__ unsigned done;
__device__ float part[4];
__global__ void last(const float* x, float* y, int n) {
  float s = 0;
  for (int k = blockIdx.x; k < n; k += 4) s += x[k];
  part[blockIdx.x] = s;
  __threadfence();
  if (atomicInc(&done, 3) == 3) {
    __threadfence();
    volatile float* all = part;
    y[0] = all[0] + all[1] + all[2] + all[3];
  }
}
"""
APART = """__device__ float part[4];
__global__ void parts(const float* x, int n) {
  float s = 0;
  for (int k = threadIdx.x; k < n; k += 4) s += x[k];
  part[threadIdx.x] = s;
}
__global__ void all(float* y) { y[0] = part[0] + part[1] + part[2] + part[3]; }
"""


def test_a_kernel_that_keeps_its_first_answer_is_wrong() -> None:
    with pytest.raises(NotCorrectError) as e:
        assert_kernel_correct(FIRST, total, block=1, rounds=4, sizes={"n": [7, 70]})
    assert "after one on other inputs has changed" in str(e.value)
    assert "it is right with: y[0] = kept; made = 0;" in str(e.value)


def test_a_count_of_blocks_that_is_not_set_back_is_wrong() -> None:
    assert_kernel_correct(LAST, total, grid=4, block=1, rounds=4, sizes={"n": [7, 70]})
    with pytest.raises(NotCorrectError, match="in a second launch") as e:
        assert_kernel_correct(
            LAST.replace("atomicInc(&done, 3)", "atomicAdd(&done, 1)"),
            total, grid=4, block=1, rounds=4, sizes={"n": [7, 70]},
        )  # fmt: skip
    assert "done = 0;" in str(e.value)


def test_launches_share_the_variables_of_their_text() -> None:
    launches: list[dict[str, Any]] = [
        {"kernel": "parts", "block": 4},
        {"kernel": "all", "block": 1, "arg": {"y": "out"}},
    ]
    asked: dict[str, Any] = {"launches": launches, "rounds": 4, "sizes": {"n": [7, 70]}}
    assert_kernel_correct(APART, total, **asked)
    assert_kernel_correct(APART, total, **asked, structure=True)
