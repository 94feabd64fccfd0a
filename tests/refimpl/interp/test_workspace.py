"""The stages of a function read nothing of its workspace before it is written."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.oracle import lanes
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop

TEXT = """
primfunc @f(x: f32[4], y: f32[4]) writes (y) {
  alloc t: f32[4] global
  for i in N parallel {
    t[i] = x[i] * 2.0:f32
  }
  for j in 4 parallel {
    y[j] = t[j]
  }
}
"""
X = np.arange(4, dtype=np.float32)


def function(stored: int) -> PrimFunc:
    (f,) = parse_loop(TEXT.replace("N", str(stored)))
    return f


def test_both_interpreters_hand_a_workspace_from_stage_to_stage() -> None:
    for run in (loop.run, lanes.run):
        y = np.zeros(4, np.float32)
        run(function(4), {"x": X, "y": y}, {})
        assert y.tolist() == [0, 2, 4, 6]


def test_what_no_stage_has_stored_is_a_fault() -> None:
    with pytest.raises(LoopFault, match="t"):
        loop.run(function(3), {"x": X, "y": np.zeros(4, np.float32)}, {})


def test_what_no_stage_has_stored_is_no_zero_to_the_fast_interpreter() -> None:
    y = np.zeros(4, np.float32)
    lanes.run(function(3), {"x": X, "y": y}, {})
    assert y[3] != 0
