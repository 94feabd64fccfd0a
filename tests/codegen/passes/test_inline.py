from __future__ import annotations

import numpy as np

from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.inline import inline
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType
from tests.codegen.make import Graph


def test_calls_of_calls_are_replaced_and_names_stay_unique() -> None:
    inner = Graph("inner")
    x = inner.param("x", 3)
    f = inner.function(inner("exp", x))
    outer = Graph("outer")
    y = outer.param("y", 3)
    (a,) = outer.call(f, y)
    (b,) = outer.call(f, outer("negative", a))
    g = outer.function(b, y)
    main = Graph("main")
    z = main.param("x", 3)
    exp = main("exp", z)
    p, q = main.call(g, exp)
    r, _ = main.call(g, q)  # an operand that is itself the operand of a call
    m = inline(Module((f, g, main.function(p, q, main("add", p, q), r))))
    assert [fn.name for fn in m.functions] == ["main"]
    body = ["exp", "negative", "exp"]
    assert [n.op for n in m.entry.nodes] == ["exp", *body, *body, "add"]
    assert [n.args for n in m.entry.nodes if n.op == "exp"].count((exp,)) == 2
    names = [r for n in m.entry.nodes for r in n.results]
    assert len(set(names)) == len(names)
    assert m.entry.results[1] == exp  # a parameter handed through
    assert m.entry.nodes[-1].args == (m.entry.results[0], exp)


def test_one_value_returned_twice() -> None:
    inner = Graph("twice")
    e = inner("exp", inner.param("x", 3))
    f = inner.function(e, e)
    main = Graph()
    p, q = main.call(f, main.param("x", 3))
    m = inline(Module((f, main.function(p, q))))
    assert len(m.entry.nodes) == 1
    assert m.entry.results == (m.entry.nodes[0].results[0],) * 2


def test_kernels_stay_calls() -> None:
    inner = Graph("kernel")
    f = inner.function(inner("exp", inner.param("x", 3)), attrs=((PRIMITIVE, 1),))
    unused = Graph("unused").function(attrs=((PRIMITIVE, 1),))
    main = Graph()
    (p,) = main.call(f, main.param("x", 3, dtype=DType.F32))
    m = inline(Module((f, unused, main.function(p))))
    assert [n.op for n in m.entry.nodes] == [CALL]
    assert [fn.name for fn in m.functions] == ["kernel", "main"]


def test_values_named_like_sizes_keep_apart_from_them() -> None:
    m = parse_module(
        """module {
          dims n in [1, 9], y in [0, 9]
          func @main(%n: f32[n], %k: i64[]) -> (%y, %z) {
            %y = negative(%n) : f32[n]
            () = bind(%k, dim="y")
            %z = iota(axis=0, dtype=f32, shape=(y,)) : f32[y]
          }
        }"""
    )
    c = compile(m)
    e = engine("simt")
    y, z = runner(c, e)(e, [np.ones(3, np.float32), np.array(2)])
    assert y.tolist() == [-1, -1, -1]
    assert z.tolist() == [0, 1]
    assert {p.name for p in c.passes[0][1].entry.params}.isdisjoint({"n", "y"})


KEPT = """
module {
  func @plain(%x: f32[3]) -> (%y) {
    %y = exp(%x) : f32[3]
  }
  func @kept(%x: f32[3]) -> (%y) attrs(NoInline=1) {
    %y = call @plain(%x) : f32[3]
  }
  func @around(%x: f32[3]) -> (%z) {
    %y = call @kept(%x) : f32[3]
    %z = call @kept(%y) : f32[3]
  }
  func @main(%x: f32[3]) -> (%y) {
    %y = call @around(%x) : f32[3]
  }
}
"""


def test_functions_that_ask_for_it_stay() -> None:
    m = inline(parse_module(KEPT))
    assert [f.name for f in m.functions] == ["kept", "main"]
    assert [n.op for n in m.function("kept").nodes] == ["exp"]
    assert [n.callee for n in m.entry.nodes] == ["kept", "kept"]
    assert list(blocks(m)) == ["kept", "main"]
    assert inline(m) == m
