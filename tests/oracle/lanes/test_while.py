"""Loops without a known end: each lane takes its own number of rounds."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.oracle.lanes import loops
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import loop as laws
from tests.oracle.lanes import both

COLLATZ = """
kernel @collatz(x: i64[n], steps: i64[n]) writes (steps) dims n in [0, 64] {
  for b in (n + 7) // 8 bound blockIdx.x {
    for t in 8 bound threadIdx.x {
      let i = b * 8 + t
      if i < n {
        alloc v: i64[] local
        alloc c: i64[] local
        v[] = x[i]
        c[] = 0
        while v[] > 1 {
          v[] = select(v[] % 2 == 0, v[] // 2, 3 * v[] + 1)
          c[] = c[] + 1
        }
        steps[i] = c[]
      }
    }
  }
}
"""


def steps(x: int) -> int:
    n = 0
    while x > 1:
        x, n = (x // 2 if x % 2 == 0 else 3 * x + 1), n + 1
    return n


def parsed(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f)
    return f


@pytest.mark.parametrize("n", [0, 1, 30])
def test_lanes_stop_apart(n: int) -> None:
    x = np.arange(n, dtype=np.int64)
    out = np.full(n, -1, np.int64)
    both.run(parsed(COLLATZ), {"x": x, "steps": out}, {"n": n})
    assert out.tolist() == [steps(v) for v in range(n)]


UNIFORM = """
kernel @f(x: f32[8], out: f32[8]) writes (out) {
  for t in 8 bound threadIdx.x {
    alloc s: f32[8] shared
    alloc k: i64[] local
    s[t] = x[t]
    k[] = 0
    while %cond {
      s[t] = s[t] + 1.0:f32
      k[] = k[] + 1
    }
    out[t] = s[t]
  }
}
"""


def rounds(cond: str) -> Array:
    out = np.zeros(8, np.float32)
    x = np.arange(8, dtype=np.float32)
    both.run(parsed(UNIFORM.replace("%cond", cond)), {"x": x, "out": out}, {})
    return out - x


def test_one_number_of_rounds_for_all() -> None:
    assert rounds("k[] < 3").tolist() == [3] * 8
    assert rounds("k[] < t").tolist() == list(range(8))
    assert rounds("s[t] < 5.0:f32").tolist() == [5, 4, 3, 2, 1, 0, 0, 0]
    assert rounds("false").tolist() == [0] * 8


def test_what_never_ends_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loop, loops):
        monkeypatch.setattr(module, "MOST_ROUNDS", 100)
    for cond in ("true", "k[] >= 0"):
        with pytest.raises(LoopFault, match="endless"):
            rounds(cond)


def test_a_race_between_rounds_is_seen() -> None:
    racy = UNIFORM.replace("s[t] + 1.0", "s[(t + 1) % 8] + 1.0").replace("%cond", "k[] < 2")
    with pytest.raises(LoopFault, match="race"):
        both.run(parsed(racy), {"x": np.ones(8, np.float32), "out": np.ones(8, np.float32)}, {})


def test_a_lane_that_has_stopped_leaves_its_values_alone() -> None:
    text = COLLATZ.replace(
        "alloc c: i64[] local", "alloc c: i64[] local\n        alloc d: i64[] local"
    )
    text = text.replace("c[] = c[] + 1", "c[] = c[] + 1\n          d[] = c[]")
    text = text.replace("steps[i] = c[]", "steps[i] = d[]")
    x = np.array([4, 2], np.int64)
    out = np.zeros(2, np.int64)
    both.run(parsed(text), {"x": x, "steps": out}, {"n": 2})
    assert out.tolist() == [2, 1]
    with pytest.raises(LoopFault, match="uninitialised"):  # the first takes no round
        both.run(parsed(text), {"x": np.array([1, 4], np.int64), "steps": out}, {"n": 2})
