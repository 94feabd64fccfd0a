"""Faults that a compiler's optimisation removes are found where a kernel seems correct."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.judge import judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from tests.didyma.judging.kernels import sums

UNSET = """__global__ void sums(const float* x, float* y, int n) {
  float part[2];
  for (int k = 0; k < n; ++k)
    part[0] += x[blockIdx.x * n + k];
  y[blockIdx.x] = part[0];
}
"""


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
def test_a_sum_that_nobody_has_set_is_found_though_the_optimiser_takes_it_for_zero() -> None:
    draw = Draw(rounds=4, most=1 << 10)
    task = make_task(Source(UNSET, "k.cu"), sums.module, Launch("", "r", "1"), draw=draw)
    found = located(judge(task))
    assert not found.wrong
    assert {f.kind for f, _ in found.faults} == {"uninitialised"}
    assert {f.line for f, _ in found.faults} == {4}
