"""Rounds in which a grid has no blocks are named, and certify nothing."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.show import judge_kernel as show
from tests.didyma.judging.kernels import n

COPY = """
__global__ void copy(const float* a, float* b, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = a[i];
}
"""


@dd.trace(dd.f32[n])
def magnitude(a: dd.Tensor) -> dd.Tensor:
    return dd.abs(a)


def judged(grid: str, where: str) -> Judgement:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    draw = Draw(where=(where,), rounds=4)
    return judge(
        make_task(Source(COPY, "k.cu"), magnitude.module, Launch(grid=grid), None, draw),
    )


def test_rounds_in_which_nothing_is_launched_certify_nothing() -> None:
    found = judged("n // 4096", "n < 9")
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.unlaunched == found.cases
    assert not found.checked
    shown = list(show.lines(show.record(found, "k.cu")))
    assert any("no thread was launched in 4 of 4 rounds" in row for row in shown)


def test_what_is_launched_is_judged() -> None:
    found = judged("n // 8", "n > 7 and n < 16")
    assert not found.unlaunched
    assert found.outcome is Outcome.WRONG
