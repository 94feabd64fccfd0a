"""Staged buffers that are filled ahead."""

from __future__ import annotations

import pytest

from didyma.codegen.schedule.steps.apply import apply
from didyma.codegen.schedule.steps.records import Pipeline
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_loop

TWO_IN_ONE = """
primfunc @f(x: i64[6, 4], y: i64[6, 4], z: i64[6, 4]) writes (y, z) {
  for i in 6 {
    alloc t: i64[4] local
    for j in 4 {
      t[j] = x[i, j] * 2
    }
    for k in 4 {
      y[i, k] = t[3 - k]
    }
    place u: i64[4] local over t
    for l in 4 {
      u[l] = x[i, l] + 1
    }
    for m in 4 {
      z[i, m] = u[3 - m]
    }
  }
}
"""


def test_no_buffer_is_filled_ahead_whose_memory_another_takes_over() -> None:
    (f,) = parse_loop(TWO_IN_ONE)
    with pytest.raises(DidymaError, match="with memory of its own") as e:
        apply(Pipeline("i", "t", 2), f)
    assert e.value.code == "bad-step"
    (alone,) = parse_loop(
        TWO_IN_ONE.replace("place u: i64[4] local over t", "alloc u: i64[4] local")
    )
    assert "i_ahead" in str(apply(Pipeline("i", "t", 2), alone))
