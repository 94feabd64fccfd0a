"""Producers mean the same to the definition, written out by their passes, and on engines."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.registry import engine
from didyma.loops import LoopProgram
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import BufferRealize, Compute, PrimFunc, ProducerRealize
from didyma.refimpl.ir.lowered import LOWERING, lowered
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from tests.codegen.emit.test_runs import launch, same
from tests.oracle.lanes import both

SHARES = """\
primfunc @shares(a: f32[n, 12], b: f32[n, 12]) writes (b) dims n in [1, 9] {
  compute e: f32[n, 12] local at (i, j) {
    e[i, j] = a[i, j] * a[i, j]
  } in {
    compute s: f32[n] local at (r) {
      fold (t = 0.0:f32) over (k in 12) by (x: f32) -> (t + x) {
        yield (e[r, k])
      }
      s[r] = t
    } in {
      for p in n parallel {
        produce e[p +: 1, 0 +: 12] {
          produce s[p +: 1] {
            for q in 12 {
              b[p, q] = e[p, q] / s[p]
            }
          }
        }
      }
    }
  }
}
"""
REALIZED = """\
primfunc @shares(a: f32[n, 12], b: f32[n, 12]) writes (b) dims n in [1, 9] {
  for p in n parallel {
    realize e: f32[n, 12] local of [p +: 1, 0 +: 12] {
      for e_i in 1 {
        for e_j in 12 {
          let i_1 = p + e_i
          let j_1 = e_j
          e[i_1, j_1] = a[i_1, j_1] * a[i_1, j_1]
        }
      }
      realize s: f32[n] local of [p +: 1] {
"""
FLAT = """\
    alloc e: f32[1, 12] local
    for e_i in 1 {
      for e_j in 12 {
        let i_1 = p + e_i
        let j_1 = e_j
        e[i_1 - p, j_1] = a[i_1, j_1] * a[i_1, j_1]
      }
    }
    alloc s: f32[1] local
"""
TWICE = """
primfunc @twice(a: f32[n, 12], b: f32[n, 12]) writes (b) dims n in [1, 9] {
  compute d: f32[12] local at (i) {
    d[i] = a[0, i] + f32(i)
  } in {
    for p in n {
      produce d[0 +: 6] { for q in 6 { b[p, q] = d[q] } }
      produce d[6 +: 6] { for q2 in 6 { b[p, q2 + 6] = d[q2 + 6] } }
    }
  }
}
"""
X = np.random.default_rng(0).standard_normal((5, 12), np.float32)


def verified(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f)
    assert parse_loop(show((f,))) == (f,)
    return f


def given() -> dict[str, Array]:
    return {"a": X.copy(), "b": np.zeros((5, 12), np.float32)}


def run(f: PrimFunc) -> Array:
    both.run(f, buffers := given(), {"n": 5})
    return buffers["b"]


def test_what_the_passes_make_of_producers() -> None:
    f = verified(SHARES)
    assert show((f,)).rstrip() == SHARES.rstrip()
    realized = LOWERING["realize-producers"](f)
    laws.verify(realized)
    assert show((realized,)).startswith(REALIZED)
    flat = LOWERING["flatten-storage"](realized)
    laws.verify(flat)
    assert FLAT in show((flat,))
    assert same(run(f), run(realized))
    assert same(run(f), run(flat))


def test_producers_are_their_equations() -> None:
    assert np.allclose(run(verified(SHARES)), X**2 / (X**2).sum(1, keepdims=True), rtol=1e-5)
    want = np.broadcast_to(X[0] + np.arange(12, dtype=np.float32), X.shape)
    assert same(run(verified(TWICE)), want.copy())


@pytest.mark.parametrize("text", [SHARES, TWICE])
def test_passes_leave_no_producer_and_engines_run_the_rest(text: str) -> None:
    f = verified(text)
    g = lowered(f)
    laws.verify(g)
    kinds = BufferRealize | Compute | ProducerRealize
    assert not any(isinstance(s, kinds) for s in stmts(g.body))
    assert same(run(f), run(expand(f)))
    for name in ("host", "simt"):
        assert same(launch(engine(name), f, given(), {"n": 5})[1], run(f))


def test_a_text_with_producers_is_a_program() -> None:
    program = LoopProgram(verified(SHARES))
    assert program.inputs == ("a",)
    assert dd.check(program).outcome == "agree"


def test_an_index_outside_the_part_is_a_fault() -> None:
    f = verified(SHARES.replace("produce e[p +: 1, 0 +: 12]", "produce e[p +: 1, 0 +: 11]"))
    with pytest.raises(LoopFault, match=r"e, axis 1: index 11 outside \[0, 11\)"):
        loop.run(f, given(), {"n": 5})


def test_a_producer_is_loaded_only_where_it_is_realized() -> None:
    with pytest.raises(DidymaError, match="L-freed"):
        verified(TWICE.replace("b[p, q2 + 6] = d[q2 + 6] } }", "b[p, q2 + 6] = 0.0:f32 } }\n"
                               "      b[p, 0] = d[0]"))  # fmt: skip
