"""Stores of vectors mean the same to the definition, by lanes, and as kernel text on engines."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import LoopKind, PrimFunc
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.unfold import unfolded
from didyma.refimpl.ir.vectors import is_vector
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from didyma.refimpl.verify.sharing import may_share
from tests.codegen.emit.test_runs import launch
from tests.oracle.lanes import both

GATHER = """
kernel @gather(x: f32[n, 16], at: i64[n, 16], s: f32[], y: f32[n, 16]) writes (y)
    dims n in [1, 9] {
  for b in n bound blockIdx.x {
    for t in 4 bound threadIdx.x {
      y[b, ramp(t * 4 + 3, -1, 4)] = x[b, at[b, ramp(t, 4, 4)]] * broadcast(s[], 4)
    }
  }
}
"""
SCALE = """
kernel @scale(x: f32[16], y: f32[16]) writes (y) {
  for t in 4 bound threadIdx.x {
    y[ramp(t * 4, 1, 4)] = (let v = x[ramp(t * 4, 1, 4)] in
        select(v:f32 > broadcast(0.0:f32, 4), v:f32, v:f32 * broadcast(0.5:f32, 4)))
  }
}
"""
WITHIN = """
primfunc @within(y: f32[8]) writes (y) {
  y[ramp(0, 2, 4)] = y[ramp(0, 2, 4)] + y[ramp(0, 2, 4)]
}
"""
BEYOND = """
primfunc @beyond(x: f32[8], y: f32[8]) writes (y) {
  y[ramp(0, 1, 4)] = x[ramp(5, 1, 4)]
}
"""
RNG = np.random.default_rng(0)
X, AT = RNG.standard_normal((5, 16), np.float32), RNG.integers(0, 16, (5, 16))


def kernel(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f)
    assert parse_loop(show((f,))) == (f,)
    return f


def given() -> dict[str, Array]:
    return {"x": X.copy(), "at": AT.copy(), "s": np.asarray(2, np.float32),
            "y": np.zeros((5, 16), np.float32)}  # fmt: skip


def want() -> Array:
    y = np.zeros((5, 16), np.float32)
    for t in range(4):
        for lane in range(4):
            rows = np.arange(5)
            y[:, t * 4 + 3 - lane] = X[rows, AT[:, t + 4 * lane]] * 2
    return y


def test_a_lane_is_what_its_index_and_operands_are_there() -> None:
    held = given()
    both.run(kernel(GATHER), held, {"n": 5})
    assert (held["y"] == want()).all()


@pytest.mark.parametrize("name", ["host", "simt"])
def test_engines_run_vectors(name: str) -> None:
    found = launch(engine(name), kernel(GATHER), given(), {"n": 5})
    assert (found[3] == want()).all()
    x = X[0]
    after = launch(engine(name), kernel(SCALE), {"x": x, "y": np.zeros(16, np.float32)}, {})
    assert (after[1] == np.maximum(x, x / 2)).all()


def test_nvrtc_compiles_vectors() -> None:
    engine("nvrtc").load(emit([kernel(GATHER)]))
    engine("nvrtc").load(emit([kernel(SCALE)]))


def test_four_neighbours_are_one_access_of_the_text() -> None:
    text = emit([kernel(SCALE)]).source
    assert "store4_f32(&y[t * 4], y_x4);" in text
    assert "store4" not in emit([kernel(GATHER)]).source


def test_written_out_there_are_loops_over_lanes_alone() -> None:
    f = kernel(GATHER)
    g = unfolded(f)
    laws.verify(g)
    assert any(map(is_vector, stmts(f.body)))
    assert not any(map(is_vector, stmts(g.body)))
    kinds = [getattr(s, "kind", None) for s in stmts(g.body)]
    assert kinds.count(LoopKind.VECTORIZED) == 1


def test_a_vector_may_read_what_it_stores_where_it_stores_it() -> None:
    y = np.arange(8, dtype=np.float32)
    both.run(kernel(WITHIN), {"y": y}, {})
    assert y.tolist() == [0, 1, 4, 3, 8, 5, 12, 7]


def test_lanes_outside_a_buffer_fault() -> None:
    held = {"x": np.zeros(8, np.float32), "y": np.zeros(8, np.float32)}
    with pytest.raises(LoopFault, match="out-of-bounds"):
        both.run(kernel(BEYOND), held, {})


def test_element_on_element_a_vector_works_in_place() -> None:
    assert may_share(kernel(SCALE), "y", "x")
    assert not may_share(kernel(SCALE.replace("v = x[ramp(t * 4", "v = x[ramp(t * 3")), "y", "x")
