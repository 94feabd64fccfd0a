"""Indices that are compiled when a slice turns out not to do."""

from __future__ import annotations

import numpy as np

from didyma.oracle import lanes
from didyma.refimpl.ir.text import parse_loop

LAST = """primfunc @last(a: i64[4], b: i64[4]) writes (a, b) {
  for q in 4 {
    a[q] = b[q]
  }
  alloc at: i64[] local
  for o in 1 parallel {
    for i in 4 {
      at[] = i
    }
  }
  b[at[]] = 1
}
"""


def test_a_value_of_its_own_that_is_whole_by_then_is_read_anew() -> None:
    (f,) = parse_loop(LAST)
    buffers = {"a": np.zeros(4, np.int64), "b": np.zeros(4, np.int64)}
    lanes.run(f, buffers, {})
    assert buffers["b"].tolist() == [0, 0, 0, 1]
