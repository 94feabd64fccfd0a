"""Loops without a known end as kernel text: the same rounds on every engine."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.codegen.runtime.simt.engine import Simt
from didyma.oracle import lanes
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import loop as laws
from tests.codegen.emit.test_runs import launch

TEXT = """
kernel @rounds(x: i64[50], y: f32[50], out: i64[50], z: f32[50]) writes (out, z) {
  for b in 4 bound blockIdx.x {
    for t in 16 bound threadIdx.x {
      let i = b * 16 + t
      if i < 50 {
        alloc v: i64[] local
        alloc c: i64[] local
        alloc s: f32[] local
        v[] = x[i]
        c[] = 0
        s[] = y[i]
        while %cond {
          v[] = select(v[] % 2 == 0, v[] // 2, 3 * v[] + 1)
          c[] = c[] + 1
          s[] = s[] * 0.5:f32 + 1.0:f32
        }
        out[i] = c[]
        z[i] = s[]
      }
    }
  }
}
"""
PLAIN = "v[] > 1"
NEEDS_STATEMENTS = "(let w = v[] % 7 in select(w == 3, (let u = c[] in u < 9), v[] > 1))"
NEVER = "i < 0"


def kernel(cond: str) -> PrimFunc:
    (f,) = parse_loop(TEXT.replace("%cond", cond))
    laws.verify(f)
    return f


@pytest.mark.parametrize("cond", [PLAIN, NEEDS_STATEMENTS, NEVER])
@pytest.mark.parametrize("name", ["host", "simt"])
def test_rounds(name: str, cond: str) -> None:
    f = kernel(cond)
    given: dict[str, Array] = {
        "x": np.arange(50, dtype=np.int64),
        "y": np.linspace(-3, 3, 50, dtype=np.float32),
        "out": np.full(50, -1, np.int64),
        "z": np.full(50, -1, np.float32),
    }
    want = {k: a.copy() for k, a in given.items()}
    lanes.run(f, want, {})
    got = launch(engine(name), f, given, {})
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want.values()]
    assert len(set(want["out"].tolist())) > (1 if cond is NEVER else 10) - (cond is NEVER)


def test_the_compiler_for_devices_takes_it() -> None:
    for cond in (PLAIN, NEEDS_STATEMENTS):
        engine("nvrtc").load(emit([kernel(cond)]))


def test_a_hang_is_a_fault() -> None:
    f = kernel("c[] >= 0")
    given: dict[str, Array] = {b.name: np.zeros(50, b.dtype.numpy) for b in f.params}
    with pytest.raises(KernelFault, match="hang"):
        launch(Simt(rounds=50), f, given, {})
