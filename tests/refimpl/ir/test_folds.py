"""Folds mean the same to the definition, written out as loops, and as kernel text on engines."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.registry import engine
from didyma.fuzz.minimise.loops import smaller
from didyma.oracle import chains, lanes
from didyma.refimpl.interp import loop, scalar_ring
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import Fold, PrimFunc
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.unfold import unfolded
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from tests.codegen.emit.test_runs import launch, same
from tests.oracle.lanes import both
from tests.oracle.lanes.both import same_bytes

SOFTMAX = """
kernel @softmax(x: f32[n, 12], y: f32[n, 12]) writes (y) dims n in [0, 9] {
  for b in n bound blockIdx.x {
    for t in 4 bound threadIdx.x {
      fold (m: f32 = -inf:f32, s: f32 = 0.0:f32) over (k in 12)
          by (v: f32) -> (max(m:f32, v:f32),
              s:f32 * exp(m:f32 - max(m:f32, v:f32)) + exp(v:f32 - max(m:f32, v:f32)))
          merge (m2: f32, s2: f32) -> (max(m:f32, m2:f32),
              s:f32 * exp(m:f32 - max(m:f32, m2:f32))
              + s2:f32 * exp(m2:f32 - max(m:f32, m2:f32))) {
        yield (x[b, k])
      }
      for u in 3 {
        y[b, u * 4 + t] = exp(x[b, u * 4 + t] - m:f32) / s:f32
      }
    }
  }
}
"""
WELFORD = """
kernel @spread(x: f32[n, 12], y: f32[n]) writes (y) dims n in [0, 9] {
  for b in n bound blockIdx.x {
    fold (c: f32 = 0.0:f32, mean: f32 = 0.0:f32, m2: f32 = 0.0:f32) over (i in 4, j in 3)
        by (z: f32) -> (c:f32 + 1.0:f32, mean:f32 + (z:f32 - mean:f32) / (c:f32 + 1.0:f32),
            m2:f32 + (z:f32 - mean:f32) * (z:f32 - mean:f32) * c:f32 / (c:f32 + 1.0:f32)) {
      let at = i * 3 + j
      yield (x[b, at])
    }
    y[b] = m2:f32 / c:f32
  }
}
"""
FIRST_LARGEST = """
kernel @position(x: f32[n, 12], y: i64[n]) writes (y) dims n in [0, 9] {
  for b in n bound blockIdx.x {
    alloc best: f32[] local
    alloc at: i64[] local
    at[] = -1
    if b % 2 == 0 {
      fold (m: f32 = -inf:f32, p = 0) over (k in 12)
          by (v: f32, q) -> (select(v:f32 > m:f32, v:f32, m:f32), select(v:f32 > m:f32, q, p)) {
        yield (x[b, k], k)
      }
      best[] = m:f32
      at[] = p
    }
    y[b] = at[]
  }
}
"""
NESTED = """
kernel @nested(x: f32[n, 12], y: f32[n]) writes (y) dims n in [0, 9] {
  primfunc @row(x: f32[m, 12], y: f32[m]) writes (y) dims b in [0, 8], m in [0, 9] {
    fold (most: f32 = 0.0:f32) over (i in 3) by (a: f32) -> (max(most:f32, a:f32)) {
      fold (s: f32 = 0.0:f32) over (k in i + 1) by (v: f32) -> (s:f32 + v:f32) {
        yield (x[b, i * 4 + k])
      }
      yield (s:f32)
    }
    y[b] = most:f32
  }
  for b in n bound blockIdx.x {
    call @row(x, y) dims (b, n)
  }
}
"""
TEXTS = (SOFTMAX, WELFORD, FIRST_LARGEST, NESTED)
X = np.random.default_rng(0).standard_normal((5, 12), np.float32)


def kernel(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f)
    assert parse_loop(show((f,))) == (f,)
    return f


def folds(f: PrimFunc) -> list[Fold]:
    return [s for s in stmts(f.body) if isinstance(s, Fold)]


def given(f: PrimFunc) -> dict[str, Array]:
    y = f.params[1]
    return {"x": X.copy(), "y": np.zeros((5, 12)[: len(y.shape)], y.dtype.numpy)}


def run(f: PrimFunc) -> Array:
    buffers = given(f)
    both.run(f, buffers, {"n": 5})
    return buffers["y"]


def test_online_softmax_and_welford_are_folds_of_several_accumulators() -> None:
    e = np.exp(X - X.max(1, keepdims=True))
    assert np.allclose(run(kernel(SOFTMAX)), e / e.sum(1, keepdims=True), rtol=1e-6)
    assert np.allclose(run(kernel(WELFORD)), X.var(1), rtol=1e-5)


def test_an_extreme_and_its_position() -> None:
    assert run(kernel(FIRST_LARGEST)).tolist() == [
        int(np.argmax(row)) if n % 2 == 0 else -1 for n, row in enumerate(X)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_a_fold_is_the_loop_it_is_written_out_as(text: str) -> None:
    f = kernel(text)
    g = unfolded(f)
    laws.verify(g)
    assert not any(map(folds, (g, *g.functions)))
    assert same(run(f), run(g))
    assert same(run(f), run(expand(f)))
    assert chains.longest([f], {"n": 5}) == chains.longest([g], {"n": 5})


@pytest.mark.parametrize("name", ["host", "simt"])
@pytest.mark.parametrize("text", TEXTS)
def test_engines_run_folds(text: str, name: str) -> None:
    f = kernel(text)
    _, found = launch(engine(name), f, given(f), {"n": 5})
    if text is SOFTMAX:  # the exponential of NumPy and that of an engine may differ by an ulp
        np.testing.assert_array_max_ulp(found, run(f), 8)
    else:
        assert same(found, run(f))


@pytest.mark.parametrize("text", [WELFORD, FIRST_LARGEST, NESTED])
def test_folds_in_the_ring(text: str) -> None:
    f = kernel(text)
    outcomes: list[Array] = []
    for interpret in (loop.run, lanes.run):
        buffers = given(f)
        records = {"x": scalar_ring.embedded(buffers["x"]), "y": buffers["y"]}
        if f.params[1].dtype.is_float:
            records["y"] = scalar_ring.embedded(buffers["y"])
        interpret(f, records, {"n": 5}, None, scalar_ring)
        outcomes.append(records["y"])
    assert same_bytes(*outcomes)


def test_what_operation_a_fold_is() -> None:
    inner, outer = (
        s for s in reversed(list(stmts(kernel(NESTED).functions[0].body))) if isinstance(s, Fold)
    )
    assert (inner.op, outer.op) == ("add", "max")
    assert inner.merger is inner.combine
    softmax, welford = (
        next(s for s in stmts(kernel(t).body) if isinstance(s, Fold)) for t in TEXTS[:2]
    )
    assert softmax.op is None
    assert softmax.merger is softmax.merge is not None
    assert welford.merger is None


def test_the_chain_of_a_fold() -> None:
    assert chains.longest([kernel(NESTED)], {"n": 5}) == 2
    assert chains.longest([kernel(WELFORD)], {"n": 5}) is not None


def test_folds_get_smaller() -> None:
    f = kernel(WELFORD)
    assert any(not folds(g) for g in smaller(f))
    extents = {tuple(a.extent for a in s.axes) for g in smaller(f) for s in folds(g)}
    assert len(extents) > 4
