from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.lower.rows import rows_of
from didyma.codegen.options import Options
from didyma.codegen.passes.fuse import fuse, separate
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.pipeline import compile
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph import run
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, RESHAPE_ONLY, Function, Module
from didyma.refimpl.ir.text import parse, parse_module
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind
from didyma.refimpl.verify.graph import verify
from tests.codegen.graphs import bindings, graph, operands, same_bits
from tests.codegen.make import Graph, kernels

# Values of few dtypes meet more often.
FEW = (DType.F32, DType.I32, DType.BOOL, DType.BF16, DType.F8E5M2, DType.U4)

APART = Options().changed({"graph.rows": False})


def folds(f: Function) -> int:
    return sum(n.op in OPS and OPS[n.op].kind in (Kind.REDUCTION, Kind.OPAQUE) for n in f.nodes)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("together", [True, False])
def test_random_graphs(symbolic: bool, together: bool) -> None:
    fewer = several = 0
    for seed in range(150):
        m = simplify(inline(graph(seed, 16, FEW, symbolic)))
        f = fuse(m) if together else separate(m)
        assert f == (fuse(m) if together else separate(m))
        env = bindings(m, seed)
        args = operands(m, seed, env)
        for want, got in zip(run(m, args, env), run(f, args, env), strict=True):
            assert same_bits(want, got), seed
        check_shape(m, f)
        fewer += len(f.functions) - 1 < sum(n.op != "constant" for n in m.entry.nodes)
        several += any(len(g.results) > 1 for g in f.functions[:-1])
    assert fewer > 75 or not together
    assert several > 5 or not together


def check_shape(m: Module, f: Module) -> None:
    """What holds of every fused graph."""
    assert f.entry.params == m.entry.params
    assert f.entry.results == m.entry.results
    table = {g.name: g for g in f.functions}
    assert len(table) == len(f.functions)
    called = [table[n.callee] for n in f.entry.nodes if n.op == CALL]
    assert {n.op for n in f.entry.nodes} <= {CALL, "constant"}
    assert {g.name for g in called} == set(table) - {f.entry.name}
    assert sum(map(folds, called)) == folds(m.entry)
    for g in called:
        assert PRIMITIVE in g.attr
        assert folds(g) <= 1 or rows_of(g.nodes, g.types()) is not None
        assert g.name.isidentifier()
        assert len(g.name) <= 40
        assert len(g.results) <= 4
        assert len({t.shape for t in g.result_types()}) == 1
        if RESHAPE_ONLY in g.attr:
            assert [n.op for n in g.nodes] == ["reshape"]


def test_softmax_is_one_kernel_and_without_joined_rows_three() -> None:
    g = Graph()
    x = g.param("x", 5, 7)
    e = g("exp", g("subtract", x, g("max", x, axes=(1,), keepdims=True)))
    m = g.module(g("divide", e, g("sum", e, axes=(1,), keepdims=True)))
    assert kernels(fuse(m)) == [["divide", "exp", "max", "subtract", "sum"]]
    assert kernels(fuse(m, APART)) == [
        ["max"],
        ["exp", "subtract", "sum"],
        ["divide", "exp", "subtract"],
    ]


def test_a_dear_value_with_two_readers_is_stored() -> None:
    g = Graph()
    x = g.param("x", 5, 7)
    e = g("exp", g("tanh", x))
    m = g.module(g("divide", e, g("sum", e, axes=(1,), keepdims=True)))
    assert kernels(fuse(m, APART)) == [["exp", "tanh"], ["sum"], ["divide"]]


def test_no_kernel_closes_a_cycle_through_a_third() -> None:
    """Both results are of one shape and could share a kernel, but the sum lies between."""
    g = Graph()
    x = g.param("x", 5, 7)
    a = g("exp", x)
    s = g("sum", a, axes=(1,), keepdims=True)
    m = g.module(a, g("multiply", a, s))
    assert kernels(fuse(m, APART)) == [["exp"], ["sum"], ["multiply"]]


def test_no_cycle_between_two_merged_kernels() -> None:
    """Two pairs could merge, each alone; both at once would wait for each other."""
    g = Graph()
    x, y = g.param("x", 4, 4), g.param("y", 4)
    a, b = g("exp", x), g("exp", y)
    c = g("add", x, g("broadcast_to", g("flip", b, axes=(0,)), shape=(4, 4)))
    row = g("slice", a, starts=(1, 0), stops=(2, 4), steps=(1, 1))
    d = g("add", y, g("reshape", row, shape=(4,)))
    f = fuse(g.module(a, b, c, d))
    assert sorted(len(fn.results) for fn in f.functions[:-1]) == [1, 1, 2]
    position = {r: i for i, n in enumerate(f.entry.nodes) for r in n.results}
    for i, n in enumerate(f.entry.nodes):
        assert all(position.get(r, -1) < i for r in n.args)


def test_results_of_one_shape_share_a_kernel() -> None:
    g = Graph()
    x = g.param("x", 5, 7)
    a = g("exp", x)
    b = g("add", a, x)
    m = g.module(a, b, g("multiply", b, x))
    (f,) = fuse(m).functions[:-1]
    assert f.results == m.entry.results


def test_a_kernel_never_reads_what_it_stores_at_another_index() -> None:
    g = Graph()
    a = g("exp", g.param("x", 5))
    m = g.module(a, g("add", g("flip", a, axes=(0,)), a))
    assert kernels(fuse(m)) == [["exp"], ["add", "flip"]]


def test_a_reduction_with_two_kinds_of_reader_runs_once() -> None:
    g = Graph()
    x = g.param("x", 5, 7)
    s = g("sum", x, axes=(1,), keepdims=True)
    m = g.module(g("exp", s), g("add", x, s))
    assert kernels(fuse(m, APART)) == [["sum"], ["exp"], ["add"]]


def test_two_reductions_are_two_kernels() -> None:
    g = Graph()
    x, y = g.param("x", 5, 7), g.param("y", 5, 7)
    s, t = (g("sum", v, axes=(1,), keepdims=False) for v in (x, y))
    assert sorted(kernels(fuse(g.module(g("add", s, t))))) == [["add", "sum"], ["sum"]]


def test_pointwise_ops_follow_a_reduction_and_precede_it() -> None:
    g = Graph()
    x, y = g.param("x", 5, 7), g.param("y", 5)
    s = g("sum", g("exp", g("permute_dims", x, axes=(1, 0))), axes=(0,), keepdims=False)
    m = g.module(g("sqrt", g("add", s, y)))
    assert kernels(fuse(m)) == [["add", "exp", "permute_dims", "sqrt", "sum"]]


def test_matmul_takes_light_operands_only() -> None:
    g = Graph()
    x, w, b = g.param("x", 8, 16), g.param("w", 4, 16), g.param("b", 4)
    y = g("matmul", g("exp", x), g("permute_dims", w, axes=(1, 0)))
    m = g.module(g("tanh", g("add", y, g("broadcast_to", b, shape=(8, 4)))))
    assert kernels(fuse(m)) == [
        ["exp"],
        ["add", "broadcast_to", "matmul", "permute_dims", "tanh"],
    ]


def test_what_follows_a_product_stays_with_it_when_another_product_reads_it_moved() -> None:
    g = Graph()
    x, w, b = g.param("x", 6, 16), g.param("w", 16, 12), g.param("b", 6, 12)
    heads = g("reshape", g("add", g("matmul", x, w), b), shape=(6, 3, 4))
    turned = g("permute_dims", heads, axes=(1, 0, 2))
    y = g("matmul", turned, g.param("k", 3, 4, 5))
    assert kernels(fuse(g.module(y))) == [
        ["add", "matmul"],
        ["reshape"],
        ["matmul", "permute_dims"],
    ]


def test_nothing_follows_a_scatter() -> None:
    g = Graph()
    x, i, u = g.param("x", 8), g.param("i", 3, dtype=DType.I64), g.param("u", 3)
    y = g("scatter", x, i, g("exp", u), axis=0, reduction="add")
    assert kernels(fuse(g.module(g("exp", y)))) == [["exp", "scatter"], ["exp"]]


def test_reshapes_of_stored_values_are_views() -> None:
    n = symbol("n")
    g = Graph()
    x = g.param("x", n, 4)
    flat = g("reshape", x, shape=(4 * n,))
    y = g("reshape", g("exp", flat), shape=(2, 2 * n))
    f = fuse(g.module(y, dims=(DimVar("n", 0, 9),)))
    assert kernels(f) == [["reshape"], ["exp"], ["reshape"]]
    assert [RESHAPE_ONLY in fn.attr for fn in f.functions[:-1]] == [True, False, True]


def test_a_reshape_inside_a_kernel_is_index_arithmetic() -> None:
    g = Graph()
    x = g.param("x", 3, 4)
    s = g("sum", g("reshape", g("exp", x), shape=(2, 6)), axes=(1,), keepdims=False)
    assert kernels(fuse(g.module(s))) == [["exp", "reshape", "sum"]]


def test_repeated_movement_does_not_explode() -> None:
    g = Graph()
    v = g.param("x", 2)
    for _ in range(12):
        v = g("concat", v, g("flip", v, axes=(0,)), axis=0)
        v = g("add", v, g("flip", v, axes=(0,)))
    f = fuse(g.module(v))
    assert 1 < len(f.functions) - 1 <= 24
    assert max(len(fn.nodes) for fn in f.functions[:-1]) <= 16


def test_a_long_chain_with_shared_steps_is_cut_into_kernels() -> None:
    g = Graph()
    v = g.param("x", 8)
    for _ in range(300):
        v = g("add", g("multiply", v, v), v)
    f = fuse(g.module(v))
    sizes = [len(f.function(n.callee).nodes) for n in f.entry.nodes]
    assert 4 <= len(sizes) <= 8
    assert sum(sizes) == 600


def test_equal_kernels_are_one_function() -> None:
    g = Graph()
    x, y = g.param("x", 4, 4), g.param("y", 4, 4)
    a = g("matmul", x, y)
    b = g("matmul", a, y)
    f = fuse(g.module(g("matmul", b, y)))
    assert kernels(f) == [["matmul"]]
    assert len(f.entry.nodes) == 3


def test_scalars_go_inside_and_weights_stay_outside() -> None:
    g = Graph()
    x = g.param("x", 2)
    two, w = g.constant(2.0), g.constant([3.0, 4.0])
    m = g.module(g("multiply", g("add", x, w), two), two)
    f = fuse(m)
    (fn,) = f.functions[:-1]
    assert [p.name for p in fn.params] == [x, w]
    assert two in {r for n in f.entry.nodes for r in n.results}


def test_rows_whose_bytes_hold_elements_of_several_are_not_joined() -> None:
    text = """module {
      dims m in [1, 8]
      func @main(%x: f64[m, 3]) -> (%e) {
        %a = mean(%x, axes=(1,), keepdims=true) : f64[m, 1]
        %b = subtract(%x, %a) : f64[m, 3]
        %c = max(%b, axes=(1,), keepdims=true) : f64[m, 1]
        %d = subtract(%b, %c) : f64[m, 3]
        %e = cast(%d, dtype=f4e2m1) : f4e2m1[m, 3]
      }
    }
    """
    m = parse(text)
    assert isinstance(m, Module)
    made = compile(m, Options())
    assert max(map(folds, made.fused.functions)) == 2  # of these the results fill whole bytes
    assert folds(made.fused.function(made.fused.entry.nodes[-1].callee)) == 0


def test_what_is_fused_stays_fused() -> None:
    for seed in range(40):
        f = fuse(simplify(inline(graph(seed))))
        assert fuse(f) == f


def test_a_product_of_weights_is_stored_if_another_sum_takes_it_as_values() -> None:
    g = Graph()
    x, y, z = (g.param(name, 2, 4, 4) for name in "xyz")
    weights = g("abs", g("matmul", x, y))
    values = g("matmul", z, z)
    mixed = g("multiply", weights, values)
    m = g.module(g("matmul", mixed, mixed), g("matmul", weights, values))
    f = fuse(m, Options(target="sm_90a"))
    verify(f)
    inputs = [np.full((2, 4, 4), k, np.float32) for k in (1, 2, 3)]
    for want, got in zip(run(m, inputs), run(f, inputs), strict=True):
        assert np.array_equal(want, got)


def test_a_call_that_only_checks_a_size_stays() -> None:
    m = parse_module(
        """module {
  dims r in [0, 2]
  func @checks(%a: i64[]) -> (%sum) attrs(NoInline=1) {
    () = bind(%a, dim="r")
    %row = iota(axis=0, dtype=i64, shape=(r,)) : i64[r]
    %sum = sum(%row, axes=(0,), keepdims=false) : i64[]
  }
  func @main(%a: i64[], %x: f32[3]) -> (%y) {
    %unread = call @checks(%a) : i64[]
    %y = abs(%x) : f32[3]
  }
}
"""
    )
    assert "checks" in [n.callee for n in fuse(m).entry.nodes]
    with pytest.raises(DidymaError) as e:
        run(fuse(m), [np.array(5), np.ones(3, np.float32)], {})
    assert e.value.code == "dim-out-of-range"
