from __future__ import annotations

from collections.abc import Sequence

import pytest

from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.codegen.order import order
from didyma.codegen.passes.fuse import fuse, separate
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.external import externals
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Function, Module
from didyma.refimpl.ir.loop import Block, Buffer, PrimFunc
from didyma.refimpl.ir.program import Copy, Extern, Launch, Line, Program, Return, View
from didyma.refimpl.ir.types import DType, TensorType
from tests.codegen.graphs import bindings, graph
from tests.codegen.make import Graph
from tests.codegen.memory.replay import replay


def shell(f: Function, name: str = "", keep: Sequence[int] = (), scratch: str = "") -> PrimFunc:
    """Make a kernel with the parameters of a function, and nothing in it."""
    types = f.types()
    names = [*(p.name for p in f.params), *f.results]
    params = [Buffer(f"b{i}", types[v].dtype, types[v].shape) for i, v in enumerate(names)]
    params = [params[i] for i in keep] if keep else params
    params += [Buffer(scratch, DType.F32, (9,))] if scratch else []
    return PrimFunc(name or f.name, tuple(params), (), Block(()))


def built(m: Module, how: str = "linear_scan") -> Program:
    loops = {f.name: shell(f) for f in m.functions[:-1] if RESHAPE_ONLY not in f.attr}
    return plan(order(m, loops, {k: (v,) for k, v in loops.items()}), planner(how))


def work(p: Program) -> list[Line]:
    return [x for x in p.lines if isinstance(x, Launch | View | Copy | Extern | Return)]


@pytest.mark.parametrize("how", ["none", "linear_scan", "size_class", "best_fit", "didyma"])
def test_random_graphs_keep_every_value(how: str) -> None:
    views = copies = 0
    for seed in range(60):
        rewrite = separate if seed % 3 else fuse
        m = rewrite(graph(seed, 14, symbolic=bool(seed % 2)))
        p = built(m, how)
        replay(p, bindings(m, seed))
        assert [p.type[r] for r in p.results] == list(m.entry.result_types())
        assert len(set(p.results)) == len(p.results)
        views += any(isinstance(x, View) for x in p.lines)
        copies += any(isinstance(x, Copy) for x in p.lines)
    assert views > 8
    assert copies > 8


def test_what_the_caller_owns_is_returned_as_a_copy() -> None:
    g = Graph()
    x = g.param("x", 3)
    w = g.constant([1.0, 2.0])
    assert work(built(fuse(g.module(x, w, x)))) == [
        Copy("x_copy", "x"),
        Copy("constant_copy", "constant"),
        Copy("x_copy_1", "x"),
        Return(("x_copy", "constant_copy", "x_copy_1")),
    ]


def test_a_value_and_its_view_are_returned_apart() -> None:
    g = Graph()
    y = g("flip", g.param("x", 6), axes=(0,))
    v = g("reshape", g("reshape", y, shape=(3, 2)), shape=(2, 3))
    m = fuse(g.module(v, y, v))
    p = built(m)
    name = m.functions[0].name
    assert work(p) == [
        Launch(name, ("x", "flip")),
        View("reshape", "flip"),
        View("reshape1", "reshape"),
        Copy("flip_copy", "flip"),
        Copy("reshape1_copy", "reshape1"),
        Return(("reshape1", "flip_copy", "reshape1_copy")),
    ]


def test_a_view_of_an_input_is_returned_as_a_copy() -> None:
    n = symbol("n")
    g = Graph()
    v = g("reshape", g.param("x", n, 2), shape=(2 * n,))
    p = built(fuse(g.module(v, dims=(DimVar("n", 0, 4),))))
    assert work(p) == [View("reshape", "x"), Copy("reshape_copy", "reshape"), p.lines[-1]]


def test_several_kernels_of_one_primitive_share_scratch() -> None:
    inner = Graph("k")
    y = inner("flip", inner.param("a", 3), axes=(0,))
    f = inner.function(y, attrs=((PRIMITIVE, 1),))
    g = Graph()
    (first,) = g.call(f, g.param("x", 3))
    (second,) = g.call(f, first)
    kernels = (shell(f, "k_0", [0], "s"), shell(f, "k_1", [1], "s"))
    m = Module((f, g.function(second)))
    p = plan(order(m, {"k": shell(f)}, {"k": kernels}), planner("linear_scan"))
    assert work(p) == [
        Launch("k_0", ("x", "k_0_s")),
        Launch("k_1", ("k_0", "k_0_s")),
        Launch("k_0", ("k_0", "k_01_s")),
        Launch("k_1", ("k_01", "k_01_s")),
        Return(("k_01",)),
    ]
    assert p.type["k_0_s"] == TensorType(DType.F32, (9,))
    assert [k.name for k in p.kernels] == ["k_0", "k_1"]
    assert replay(p, {}) == 2  # the second result needs no bytes until the first is read


def test_what_others_compile_is_called() -> None:
    inner = Graph("lib")
    y = inner("flip", inner.param("a", 3), axes=(0,))
    f = inner.function(y, attrs=((COMPILER, "cublas"),))
    g = Graph()
    (r,) = g.call(f, g.param("x", 3))
    m = Module((f, g.function(r)))
    p = plan(order(m, {}, {}), planner("none"))
    name = externals(m)["lib"].routine
    assert name.startswith("cublas.lib.")
    assert Extern(name, (r,), ("x",), f.attrs) in p.lines
