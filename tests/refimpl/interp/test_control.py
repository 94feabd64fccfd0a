"""Control flow of graphs: what ``if``, ``while``, ``scan`` and ``bind`` mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.interp.graph_bars import Estimate
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Bar
from didyma.refimpl.verify.graph import verify

SIZES = "dims n in [0, 8], u in [0, 40], v in [0, 40], i in [0, 7]"


def f32(values: Sequence[float]) -> Array:
    """A vector."""
    return np.array(values, np.float32)


def module(text: str) -> Module:
    """Functions as a verified module."""
    m = parse_module(f"module {{ {SIZES}\n{text} }}")
    verify(m)
    assert parse_module(show(m)) == m
    return m


def run(m: Module, *inputs: Any) -> list[Array]:
    """Results, which the bars hold exactly where nothing rounds."""
    arrays = [np.asarray(x) for x in inputs]
    got = graph.run(m, arrays)
    estimates = graph.estimates(m.entry, m, [bars.exact(a) for a in arrays], stored=True)
    for a, t in zip(got, estimates, strict=True):
        assert t.sure
        assert bars.judge(t.bar, a, DType.of(a)).ok.all()
    return got


COUNTER = """
  func @below(%i: i64[], %a: f32[n], %b: f32[n], %stop: i64[]) -> (%c) {
    %c = less(%i, %stop) : bool[]
  }
  func @swap(%i: i64[], %a: f32[n], %b: f32[n], %stop: i64[]) -> (%j, %b, %a) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
  }
  func @main(%x: f32[n], %y: f32[n], %stop: i64[]) -> (%j, %p, %q) {
    %i = constant(value=i64[] 0) : i64[]
    %j, %p, %q = while(%i, %x, %y, %stop, binds=(), body="swap", carried=3, cond="below")
      : i64[], f32[n], f32[n]
  }
"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_carried_values_change_places_at_once(rounds: int) -> None:
    x, y = f32([1, 2, 3]), f32([4, 5, 6])
    j, p, q = run(module(COUNTER), x, y, np.int64(rounds))
    assert int(j) == rounds
    first, second = (y, x) if rounds % 2 else (x, y)
    assert p.tolist() == first.tolist()
    assert q.tolist() == second.tolist()


def test_one_value_carried_twice() -> None:
    m = module(COUNTER.replace("while(%i, %x, %y,", "while(%i, %x, %x,"))
    _, p, q = run(m, f32([1, 2]), f32([0, 0]), np.int64(3))
    assert p.tolist() == q.tolist() == [1, 2]


BRANCH = """
  func @twice(%x: f32[n], %y: f32[n]) -> (%z, %x) {
    %z = add(%x, %x) : f32[n]
  }
  func @same(%x: f32[n], %y: f32[n]) -> (%y, %y) { }
  func @main(%c: bool[], %x: f32[n], %y: f32[n]) -> (%a, %b, %y) {
    %a, %b = if(%c, %x, %y, binds=(), otherwise="same", then="twice") : f32[n], f32[n]
  }
"""


def test_branches_give_new_values_and_captures() -> None:
    x, y = f32([1, 2]), f32([3, 4])
    m = module(BRANCH)
    assert [a.tolist() for a in run(m, np.True_, x, y)] == [[2, 4], [1, 2], [3, 4]]
    assert [a.tolist() for a in run(m, np.False_, x, y)] == [[3, 4]] * 3


GROWING = """
  func @less(%i: i64[], %y: f32[u], %x: f32[n], %k: i64[]) -> (%c) {
    %c = less(%i, %k) : bool[]
  }
  func @grow(%i: i64[], %y: f32[u], %x: f32[n], %k: i64[]) -> (%j, %z) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
    %z = concat(%y, %x, axis=0) : f32[n + u]
  }
  func @main(%x: f32[n], %k: i64[]) -> (%y, %doubled) {
    %zero = constant(value=i64[] 0) : i64[]
    %none = constant(value=f32[0] []) : f32[0]
    %j, %y = while(%zero, %none, %x, %k, binds=("u",), body="grow", carried=2, cond="less")
      : i64[], f32[u]
    %doubled = add(%y, %y) : f32[u]
  }
"""


@pytest.mark.parametrize("k", [0, 1, 4])
def test_values_grow_from_nothing(k: int) -> None:
    y, doubled = run(module(GROWING), f32([1, 2, 3]), np.int64(k))
    assert y.tolist() == [1, 2, 3] * k
    assert doubled.tolist() == [2, 4, 6] * k


def test_growth_beyond_its_range() -> None:
    m = module(GROWING)
    with pytest.raises(DidymaError, match="u = 48") as e:
        graph.run(m, [np.zeros(8, np.float32), np.asarray(np.int64(9))])
    assert e.value.code == "dim-out-of-range"
    assert any("@main" in note for note in e.value.__notes__)


PREFIX = """
  func @step(%s: f32[], %x: f32[3], %k: f32[3]) -> (%t, %y, %x) {
    %y = multiply(%x, %k) : f32[3]
    %sum = sum(%y, axes=(0,), keepdims=false) : f32[]
    %t = add(%s, %sum) : f32[]
  }
  func @main(%s: f32[], %x: f32[n, 3], %k: f32[3]) -> (%t, %y, %z) {
    %t, %y, %z = scan(%s, %x, %k, body="step", index="", length=n, scanned=1, states=1)
      : f32[], f32[n, 3], f32[n, 3]
  }
"""


@pytest.mark.parametrize("n", [0, 1, 4])
def test_scan(n: int) -> None:
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    k = f32([1, 2, -1])
    t, y, z = run(module(PREFIX), np.asarray(np.float32(5)), x, k)
    assert t == 5 + (x * k).sum()
    assert y.tolist() == (x * k).tolist()
    assert z.tolist() == x.tolist()


def test_the_index_of_a_scan_is_a_size() -> None:
    m = module("""
  func @row(%x: f32[n]) -> (%y) {
    %part = slice(%x, starts=(0,), steps=(1,), stops=(i,)) : f32[Min(i, n)]
    %y = sum(%part, axes=(0,), keepdims=false) : f32[]
  }
  func @main(%x: f32[n]) -> (%y) {
    %y = scan(%x, body="row", index="i", length=n, scanned=0, states=0) : f32[n]
  }""")
    (y,) = run(m, f32([1, 2, 3, 4]))
    assert y.tolist() == [0, 1, 3, 6]


BOUND = """
  func @main(%k: i64[]) -> (%y) {
    () = bind(%k, dim="u")
    %y = iota(axis=0, dtype=f32, shape=(2*u,)) : f32[2*u]
  }
"""


def test_bind() -> None:
    (y,) = run(module(BOUND), np.int64(3))
    assert y.tolist() == [0, 1, 2, 3, 4, 5]
    for k in (-1, 41):
        with pytest.raises(DidymaError, match=f"u = {k}") as e:
            graph.run(module(BOUND), [np.asarray(np.int64(k))])
        assert e.value.code == "dim-out-of-range"


NESTED = """
  func @inner_test(%j: i64[], %a: f32[], %i: i64[], %x: f32[]) -> (%c) {
    %c = less(%j, %i) : bool[]
  }
  func @inner(%j: i64[], %a: f32[], %i: i64[], %x: f32[]) -> (%k, %b) {
    %one = constant(value=i64[] 1) : i64[]
    %k = add(%j, %one) : i64[]
    %b = add(%a, %x) : f32[]
  }
  func @outer_test(%i: i64[], %a: f32[], %x: f32[], %stop: i64[]) -> (%c) {
    %c = less(%i, %stop) : bool[]
  }
  func @outer(%i: i64[], %a: f32[], %x: f32[], %stop: i64[]) -> (%k, %b) {
    %zero = constant(value=i64[] 0) : i64[]
    %one = constant(value=i64[] 1) : i64[]
    %j, %b = while(%zero, %a, %i, %x, binds=(), body="inner", carried=2, cond="inner_test")
      : i64[], f32[]
    %k = add(%i, %one) : i64[]
  }
  func @main(%x: f32[], %stop: i64[]) -> (%a) {
    %zero = constant(value=i64[] 0) : i64[]
    %start = constant(value=f32[] 0.0) : f32[]
    %i, %a = while(%zero, %start, %x, %stop, binds=(), body="outer", carried=2, cond="outer_test")
      : i64[], f32[]
  }
"""


def test_nested_loops_with_captures() -> None:
    (a,) = run(module(NESTED), np.float32(0.5), np.int64(5))
    assert a == 0.5 * 10


def estimates(m: Module, *inputs: Bar) -> Sequence[Estimate]:
    return graph.estimates(m.entry, m, inputs)


def near(x: float) -> Bar:
    """A number known to 0.1."""
    return Bar(np.float64(x) + np.zeros(()), np.full((), 0.1))


def test_an_undecided_condition() -> None:
    m = module("""
  func @one(%x: f32[]) -> (%x, %x) { }
  func @two(%x: f32[]) -> (%x, %y) { %y = negative(%x) : f32[] }
  func @main(%x: f32[], %y: f32[]) -> (%a, %b, %d, %x) {
    %zero = constant(value=f32[] 0.0) : f32[]
    %c = greater(%x, %zero) : bool[]
    %a, %b = if(%c, %y, binds=(), otherwise="one", then="two") : f32[], f32[]
    %d = add(%b, %y) : f32[]
  }""")
    sure = estimates(m, near(1), near(2))
    assert [bool(np.isinf(t.bar.e)) for t in sure] == [False] * 4
    unsure = estimates(m, near(0.05), near(2))
    assert [bool(np.isinf(t.bar.e)) for t in unsure] == [True, True, True, False]
    assert all(t.sure for t in unsure)


def test_an_undecided_size() -> None:
    m = module("""
  func @main(%x: f32[]) -> (%y, %s, %x) {
    %k = cast(%x, dtype=i64) : i64[]
    () = bind(%k, dim="u")
    %y = iota(axis=0, dtype=f32, shape=(u,)) : f32[u]
    %s = sum(%y, axes=(0,), keepdims=false) : f32[]
  }""")
    y, s, x = estimates(m, near(2.5))
    assert (y.sure, y.bar.c.shape, y.bar.e.max()) == (True, (2,), 0)
    y, s, x = estimates(m, near(1.95))
    assert (y.sure, s.sure, x.sure) == (False, False, True)
    assert np.isinf(s.bar.e)


def test_a_loop_that_may_go_round_once_more() -> None:
    m = module("""
  func @test(%x: f32[], %y: f32[u]) -> (%c) {
    %top = constant(value=f32[] 3.0) : f32[]
    %c = less(%x, %top) : bool[]
  }
  func @body(%x: f32[], %y: f32[u]) -> (%z, %w) {
    %one = constant(value=f32[] 1.0) : f32[]
    %z = add(%x, %one) : f32[]
    %row = reshape(%x, shape=(1,)) : f32[1]
    %w = concat(%y, %row, axis=0) : f32[u + 1]
  }
  func @main(%x: f32[]) -> (%z, %w, %n) {
    %y = constant(value=f32[0] []) : f32[0]
    %z, %w = while(%x, %y, binds=("u",), body="body", carried=2, cond="test") : f32[], f32[u]
    %n = iota(axis=0, dtype=f32, shape=(u,)) : f32[u]
  }""")
    z, w, n = estimates(m, near(0.5))
    assert (w.sure, n.sure, w.bar.c.shape) == (True, True, (3,))
    z, w, n = estimates(m, near(0.05))
    assert (w.sure, n.sure) == (False, False)
    assert np.isinf(z.bar.e)


def test_walks_visit_what_bodies_run() -> None:
    seen: list[tuple[str, str]] = []

    def visit(f: Any, n: Any, args: Any, env: Any, run: Any) -> Any:
        seen.append((f.name, n.op))
        return run()

    m = module(NESTED)
    graph.walk(m, [np.asarray(np.float32(1)), np.asarray(np.int64(2))], visit)
    assert seen.count(("inner", "add")) == 2 * 1
    assert seen.count(("inner_test", "less")) == 1 + 2
    assert seen.count(("outer_test", "less")) == 3
