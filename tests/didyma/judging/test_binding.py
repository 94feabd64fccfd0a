"""The roles of a kernel's parameters: which arrays they may be."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from tests.errors.test_codes import says

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
n = dd.dim("n", 1, 4096)
FLIP = """__global__ void flip(const unsigned* a, {}* y, int n) {{
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n) y[i] = a[i] ^ 5u;
}}
"""


@dd.trace(dd.i32[n])
def bits(a: dd.Tensor) -> dd.Tensor:
    return dd.bitwise_xor(a, 5)


def verdict(of: str) -> Judgement:
    source, launch = Source(FLIP.format(of), "k.cu"), Launch(grid="cdiv(n, 32)")
    return judge(make_task(source, bits.module, launch, draw=Draw(rounds=6, most=1 << 12)))


def test_a_kernel_may_read_signed_integers_as_words_of_bits() -> None:
    found = verdict("unsigned")
    assert found.outcome is Outcome.CORRECT
    assert not any(b.differ for b in found.others)


def test_a_kernel_may_not_write_integers_of_another_width() -> None:
    with says("spec-mismatch", "parameter y, of i64"):
        verdict("long long")
