"""Folds that steps take apart."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.schedule.steps.apply import scheduled
from didyma.codegen.schedule.steps.text import parse
from didyma.oracle import lanes
from didyma.refimpl.ir.text import parse_loop

SUM = """primfunc @total(a: f32[8], b: f32[1]) writes (b) {
  for i in 1 {
    alloc acc: f32[] local
    acc[] = a[0]
    for k in 8 {
      acc[] = acc[] + a[k]
    }
    b[i] = acc[]
  }
}
"""


@pytest.mark.parametrize(
    "steps", ["rfactor acc over k", "bind i to blockIdx.x\nreduce_across acc over k"]
)
def test_parts_of_a_sum_keep_the_sign_of_zero(steps: str) -> None:
    (f,) = parse_loop(SUM)
    g = scheduled(parse(f"schedule @total {{\n{steps}\n}}").steps, f)
    buffers = {"a": np.full(8, -0.0, np.float32), "b": np.zeros(1, np.float32)}
    lanes.run(g, buffers, {})
    assert np.signbit(buffers["b"][0])
