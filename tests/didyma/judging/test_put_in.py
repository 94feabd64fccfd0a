"""Lines of PTX that lack a term are found, by an instruction that is put in."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.judge import Outcome, judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.tracer.tracing import Program

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
n = dd.dim("n", 1, 4096)


@dd.trace(dd.f32[n])
def norms(x: dd.Tensor) -> dd.Tensor:
    return dd.rsqrt(x * x + 1e-3)


@dd.trace(dd.i32[n])
def placed(x: dd.Tensor) -> dd.Tensor:
    return x + dd.arange(n).astype(dd.i32)


KERNEL = """extern "C" __global__ void f(const TYPE* x, TYPE* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= n)
    return;
  TYPE v = x[i];

  y[i] = VALUE;
}
"""


@pytest.mark.parametrize(
    ("spec", "dtype", "value", "put_in"),
    [
        (norms, "float", "rsqrtf(v * v)", "operand 1 + 0.001"),
        (placed, "int", "v", "operand 1 + what line 2 computes"),
    ],
)
def test_what_a_line_lacks_is_put_in(spec: Program, dtype: str, value: str, put_in: str) -> None:
    text = KERNEL.replace("TYPE", dtype).replace("VALUE", value)
    source = Source(NvrtcCompiler("compute_90").ptx(text, "k.cu").ptx, "k.ptx")
    launch = Launch(grid="cdiv(n, 32)", args=("x", "out", "n"))
    found = located(judge(make_task(source, spec.module, launch, draw=Draw(rounds=4))))
    assert found.outcome is Outcome.WRONG
    assert found.suspect is not None
    assert (found.suspect.line, put_in in found.suspect.why) == (7, True), found.suspect
