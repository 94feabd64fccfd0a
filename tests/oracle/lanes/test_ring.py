"""In the ring the fast interpreter yields the payloads of the definition, on kernels of graphs."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen import pipeline
from didyma.codegen.options import GraphOptions, Options
from didyma.oracle import lanes
from didyma.refimpl.interp import loop, scalar_ring
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop, parse_module
from didyma.refimpl.ir.types import Array
from tests.oracle.lanes.both import same_bytes

ROWS = """module {
  func @main(%x: f16[3, 5], %w: f32[5, 2], %i: i64[4]) -> (%s, %m, %t) {
    %a = cast(%x, dtype=f32) : f32[3, 5]
    %p = matmul(%a, %w) : f32[3, 2]
    %e = exp(%p) : f32[3, 2]
    %n = sum(%e, axes=(1,), keepdims=true) : f32[3, 1]
    %d = divide(%e, %n) : f32[3, 2]
    %s = cast(%d, dtype=bf16) : bf16[3, 2]
    %m = max(%p, axes=(0,), keepdims=false) : f32[2]
    %g = gather(%p, %i, axis=0) : f32[4, 2]
    %t = sqrt(%g) : f32[4, 2]
  }
}"""
ATOMICS = """primfunc @k(x: f32[6], y: f32[2]) writes (y) {
  for b in 1 bound blockIdx.x {
    alloc tile: f32[2] shared {
      for t in 6 bound threadIdx.x {
        if t < 2 {
          tile[t] = 0.0:f32
        }
        barrier
        alloc mine: f32[2] local {
          mine[t % 2] = x[t] * 2.0:f32
          atomic add(y[t % 2], mine[t % 2])
        }
      }
    }
  }
}"""


def given(f: PrimFunc, seed: int) -> dict[str, Array]:
    """Return small values for the parameters, whose payloads are not their own."""
    rng, found = np.random.default_rng(seed), dict[str, Array]()
    for p in f.params:
        values = rng.integers(0, 3, dims.values(p.shape, {})).astype(p.dtype.numpy)
        others = np.asarray(rng.integers(1, 1000, values.shape))
        if p.dtype.is_float:
            values = np.asarray(scalar_ring.joined(values, scalar_ring.payload_of(others)))
        found[p.name] = values
    return found


def same(f: PrimFunc) -> None:
    """Run a function in both ways, and compare the bits of all its buffers."""
    first, second = given(f, 1), given(f, 1)
    lanes.run(f, first, {}, arithmetic=scalar_ring)
    loop.run(f, second, {}, arithmetic=scalar_ring)
    for name, a in first.items():
        assert same_bytes(a, second[name]), f"{f.name}: {name}"


@pytest.mark.parametrize("options", [Options(), Options(graph=GraphOptions(fuse=False))])
def test_kernels_and_loops_of_a_graph(options: Options) -> None:
    c = pipeline.compile(parse_module(ROWS), options)
    for f in (*c.loops.values(), *c.program.kernels):
        same(loops(f))


def test_shared_and_local_memory_and_atomics() -> None:
    (f,) = parse_loop(ATOMICS)
    same(f)


def test_names_of_many_lanes_that_no_input_changes_agree() -> None:
    """They are computed once for all lanes, and kept without the axes that change nothing."""

    @dd.trace(dd.f32[130, 77])
    def far(x: dd.Tensor) -> dd.Tensor:
        places = dd.reshape(dd.arange(130), (130, 1)) - dd.arange(77)
        away = dd.astype(places, dd.f32) * 0.25
        return dd.tanh(away) * x + away

    report = dd.check(far, engines=["host"], tries=1)
    assert report.outcome == "agree"
