"""The fast interpreter of loop programs agrees with the definition, bit for bit."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from didyma.refimpl.interp import loop, loop_chain, loop_thread, scalar
from didyma.refimpl.ir.loop import (
    BINARY_OPS,
    BITCASTS,
    COMPARE_OPS,
    INTRINSICS,
    UNARY_OPS,
    Binary,
    BinaryOp,
    Buffer,
    Cast,
    Compare,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Unary,
    Var,
)
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import BYTES, Array, DType
from didyma.refimpl.ir.walk import exprs, stmts
from didyma.refimpl.verify import loop as laws
from tests.bench import interpreters
from tests.bench.interpreters import compare
from tests.bench.programs import case_of
from tests.codegen.make import corners
from tests.oracle.lanes import both
from tests.refimpl.interp.build import i, parallel, store

CHAINED = """
kernel @chained(x: i32[12], before: i64[12, 32], states: i32[13], totals: i32[24])
    writes (before, states, totals) {
  for line in 2 bound blockIdx.y {
    for b in 6 bound blockIdx.x {
      for t in 32 bound threadIdx.x {
        chain add v = x[line * 6 + b] from 7:i32 by states, totals
        before[line * 6 + b, t] = i64(v)
      }
    }
  }
}
"""
PYRAMID = """
kernel @pyramid(x: f32[n, 8], at: i64[n], o: f32[n], count: i64[3], pairs: f32[n, 2])
    writes (o, count, pairs) dims n in [1, 9] {
  primfunc @fold(row: f32[8] shared, m: f32[] local) writes (m) dims k in [1, 8] {
    m[] = row[0]
    attr unroll = 2 {
      for q in k - 1 {
        m[] = max(m[], row[q + 1])
      }
    }
  }
  for b in n bound blockIdx.x {
    alloc row: f32[8] shared
    alloc m: f32[] local
    for t in 8 bound threadIdx.x {
      assert n >= 1, "there are rows"
      evaluate at[b]
      prefetch x[b, t]
      let v = x[b, t]
      row[t] = abs(v:f32)
      barrier
      if t == 0 {
        alloc k: i64[] local
        k[] = 1
        while row[k[]] < 2.0:f32 {
          k[] = k[] + 1
        }
        call @fold(row, m) dims (k[])
        o[at[b]] = m[]
        pairs[b, ramp(1, -1, 2)] = x[b, ramp(k[] - 1, 1, 2)] - broadcast(m[], 2)
      } else {
        atomic add(count[t % 3], i64(v:f32))
      }
      barrier
      place halves: f16[8] shared over row
      halves[7 - t] = f16(v:f32)
      barrier
      if t == 3 {
        o[at[b]] = o[at[b]] + f32(halves[2])
      }
      free halves
    }
  }
}
"""
BEST = """
kernel @best(x: f32[n, 8], o: f32[n], at: i64[n], spread: f32[n]) writes (o, at, spread)
    dims n in [1, 9] {
  for b in n bound blockIdx.x {
    for t in 2 bound threadIdx.x {
      fold (m: f32 = -inf:f32, p = 0) over (i in 4, j in 2)
          by (v: f32, q) -> (select(v:f32 > m:f32, v:f32, m:f32), select(v:f32 > m:f32, q, p)) {
        fold (a: f32 = 0.0:f32) over (k in t + 1) by (y: f32) -> (a:f32 + y:f32) {
          yield (abs(x[b, i * 2 + j]))
        }
        yield (a:f32, i * 2 + j)
      }
      barrier
      fold (c: f32 = 0.0:f32, mean: f32 = 0.0:f32, m2: f32 = 0.0:f32) over (k2 in 8)
          by (z: f32) -> (c:f32 + 1.0:f32, mean:f32 + (z:f32 - mean:f32) / (c:f32 + 1.0:f32),
              m2:f32 + (z:f32 - mean:f32) * (z:f32 - mean:f32) * c:f32 / (c:f32 + 1.0:f32)) {
        yield (x[b, k2])
      } in {
        if t == 1 {
          spread[b] = m2:f32
        }
      }
      if t == 0 {
        o[b] = m:f32
        at[b] = p
        block (r in n spatial = b) reads (o[r +: 1]) writes (o[r +: 1]) {
          o[r] = abs(o[r])
        }
      }
    }
  }
}
"""
SWAPPED = """
kernel @swapped(x: i32[n, 24], o: i64[n, 24]) writes (o) dims n in [1, 9] {
  for b in n bound blockIdx.x {
    for v in 3 bound threadIdx.z {
      for t in 4 bound threadIdx.x {
        for u in 2 bound threadIdx.y {
          if b % 2 == 0 {
            let mine = x[b, t + 4 * u + 8 * v]
            exchange a: i32 = mine:i32 by 5
            for k in 2 {
              exchange c = i64(a:i32) + k by 2
              o[b, t + 4 * u + 8 * v] = c * 2 + k
            }
          }
        }
      }
    }
  }
}
"""
HALVES = """
primfunc @halves(a: f32[n, 8], o: f32[n, 4]) writes (o) dims n in [1, 9] {
  compute s: f32[n, 4] local at (i, j) {
    s[i, j] = a[i, j] + a[i, j + 4]
  } in {
    for p in n parallel {
      produce s[p +: 1, 0 +: 4] {
        realize twice: f32[n, 4] local of [p +: 1, 0 +: 4] {
          for q in 4 { twice[p, q] = s[p, q] * 2.0:f32 }
          for r in 4 { o[p, 3 - r] = twice[p, r] }
        }
      }
    }
  }
}
"""
TURNED = """
primfunc @turned(x: f32[n, 3], o: f32[n, 3]) writes (o) returns f32 dims n in [1, 9] {
  extern "turn"(x) -> alloc (t: f32[3, n], rows: i64[])
  for i in 3 parallel {
    t[i, rows[] - 1] = t[i, 0] + 1.0:f32
  }
  extern "turn back"(t) -> (o)
  free t
  free rows
  return o[n - 1, 2] * 2.0:f32
}
"""


def turn(outputs: Any, inputs: Any, attrs: Any) -> Any:
    """Make a transposed matrix, and the number of its columns."""
    del attrs
    assert not outputs
    return inputs[0].T, np.asarray(len(inputs[0]))


def turn_back(outputs: Any, inputs: Any, attrs: Any) -> None:
    """Transpose a matrix."""
    del attrs
    outputs[0][...] = inputs[0].T


def pyramid() -> tuple[PrimFunc, dict[str, Array], dict[str, int]]:
    """Return a kernel in which most statements stand, with buffers and sizes."""
    (f,) = parse_loop(PYRAMID)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 8), np.float32)
    x[:, 5] = 3
    at = rng.permutation(5)
    made = {"o": np.zeros(5, "f4"), "count": np.zeros(3, int), "pairs": np.zeros((5, 2), "f4")}
    return f, {"x": x, "at": at, **made}, {"n": 5}


def test_hand_written_kernels_of_every_statement_and_expression() -> None:
    f, buffers, env = pyramid()
    laws.verify(f)
    both.run(f, buffers, env)
    x = np.abs(buffers["x"])
    ends = [int(np.argmax(row[1:] >= 2)) + 1 for row in x]
    want = [row[:k].max() for row, k in zip(x, ends, strict=True)]
    assert (buffers["o"][buffers["at"]] == want + buffers["x"][:, 5].astype(np.float16)).all()
    two = [(x[k] - m, x[k - 1] - m) for x, k, m in zip(buffers["x"], ends, want, strict=True)]
    assert (buffers["pairs"] == two).all()

    (g,) = parse_loop(TURNED)
    laws.verify(g)
    o, given = np.zeros((5, 3), np.float32), buffers["x"][:, :3].copy()
    routines = {"turn": turn, "turn back": turn_back}
    assert both.run(g, {"x": given, "o": o}, {"n": 5}, routines) == (given[0, 2] + 1) * 2
    assert (o == [*given[:4], given[0] + 1]).all()

    (h,) = parse_loop(BEST)
    laws.verify(h)
    found = {"o": np.zeros(5, np.float32), "at": np.zeros(5, int), "spread": np.zeros(5, "f4")}
    both.run(h, {"x": buffers["x"], **found}, {"n": 5})
    assert (found["o"] == x.max(1)).all()
    assert (found["at"] == x.argmax(1)).all()
    assert np.allclose(found["spread"], buffers["x"].var(1) * 8, rtol=1e-5)

    (e,) = parse_loop(SWAPPED)
    laws.verify(e)
    at, given = np.arange(24), np.arange(120, dtype=np.int32).reshape(5, 24)
    swapped = {"x": given, "o": np.zeros((5, 24), int)}
    both.run(e, swapped, {"n": 5})
    assert (swapped["o"][::2] == (given[::2, at ^ 5 ^ 2] + 1) * 2 + 1).all()
    assert (swapped["o"][1::2] == 0).all()

    (d,) = parse_loop(HALVES)
    laws.verify(d)
    sums = np.zeros((5, 4), np.float32)
    both.run(d, {"a": buffers["x"], "o": sums}, {"n": 5})
    assert (sums[:, ::-1] == (buffers["x"][:, :4] + buffers["x"][:, 4:]) * 2).all()

    (c,) = parse_loop(CHAINED)
    laws.verify(c, target=SM_90A)
    lines = {"x": np.arange(12, dtype=np.int32), "before": np.zeros((12, 32), int)}
    spare = {"states": np.zeros(13, np.int32), "totals": np.zeros(24, np.int32)}
    both.run(c, {**lines, **spare}, {})
    assert (lines["before"][:6, 1] == 7 + np.cumsum([0, *range(5)])).all()
    assert (lines["before"][6:, 0] == 7 + np.cumsum([0, *range(6, 11)])).all()

    statements = {type(s) for p in (f, *f.functions, g, h, e, d, c) for s in stmts(p.body)}
    assert statements == set(get_args(Stmt))
    expressions = {type(e) for p in (f, *f.functions) for e in exprs(p.body)}
    tested_below = {LetExpr, Select, Intrinsic}
    assert expressions == set(get_args(Expr)) - tested_below


def operations(dtype: DType) -> Iterator[Expr]:
    """Return every operation on elements of a dtype, of buffers ``x``, ``y`` and ``z``."""
    x, y, z = (Load(name, (i,), dtype) for name in "xyz")
    v = Var("v", dtype)
    yield Select(Compare("lt", Load("x", (i,), dtype), y), LetExpr(v, y, v), z)
    yield from (Compare(op, x, y) for op in COMPARE_OPS)
    yield from (Cast(x, to) for to in BYTES)

    def applied(name: str) -> Expr:
        return Intrinsic(name, (x, y, z)[: INTRINSICS[name].operands])

    tables: list[tuple[Any, Callable[..., object], Callable[[Any], Expr]]] = [
        (BINARY_OPS, scalar.binary_fn, lambda op: Binary(op, x, y)),
        (UNARY_OPS, scalar.unary_fn, lambda op: Unary(op, x)),
        (INTRINSICS, scalar.intrinsic_fn, applied),
    ]
    for names, function, make in tables:
        for name in names:
            try:
                function(name, dtype)
            except KeyError:  # no operation of this dtype
                continue
            yield make(name)
    for name, to in BITCASTS.items():
        if to.nbytes == dtype.nbytes and to.is_float != dtype.is_float and dtype != DType.BOOL:
            yield Intrinsic(name, (x,))


@pytest.mark.parametrize("dtype", BYTES)
def test_every_operation_on_corner_values(dtype: DType) -> None:
    values = corners(dtype)
    n = len(values)
    grids = [np.repeat(values, n), np.tile(values, n), np.tile(values[::-1].copy(), n)]
    for e in operations(dtype):
        o = np.zeros(n * n, e.dtype.numpy)
        buffers = {**dict(zip("xyz", grids, strict=True)), "o": o}
        params = tuple(Buffer(k, DType.of(a), a.shape) for k, a in buffers.items())
        body = parallel(i, n * n, store("o", i, value=e))
        both.run(PrimFunc("f", params, ("o",), body), buffers, {})


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_the_loops_and_kernels_of_drawn_programs(first: int) -> None:
    seen = [compare(case_of(seed)) for seed in range(first, first + 20)]
    assert not [d for s in seen for d in s.different]
    assert not [reason for s in seen for reason in s.skipped.items()]
    assert sum(len(s.compared) for s in seen) > 80


def test_a_range_of_programs_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert interpreters.main(["--count", "3", "--jobs", "2"]) == 0
    totals = json.loads(capsys.readouterr().out)
    assert totals["programs"] == 3
    assert totals["kernels"] == totals["compared"] > 5
    assert not totals["different"]


def test_a_difference_is_reported_with_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(op: BinaryOp, dtype: DType) -> Any:
        return scalar.binary_fn("sub" if op == "add" else op, dtype)

    arithmetic = SimpleNamespace(**{**vars(scalar), "binary_fn": wrong})
    monkeypatch.setattr(loop.run, "__defaults__", (None, arithmetic))
    assert interpreters.main(["--count", "3", "--jobs", "1"]) == 1
    assert json.loads(capsys.readouterr().out)["different"]


def test_the_definition_fits_on_a_few_pages() -> None:
    pages = [inspect.getsource(m).count("\n") for m in (loop, loop_thread, loop_chain)]
    assert max(pages) <= 265
    assert sum(pages) <= 410
