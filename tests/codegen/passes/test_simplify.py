from __future__ import annotations

import warnings

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.movement import lossless
from didyma.codegen.passes.simplify import rules, simplify
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph import run
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import ALL, UNSIGNED, DType
from didyma.refimpl.ops import OPS
from didyma.tracer.tracing import Program
from tests.codegen.graphs import bindings, graph, operands, same_bits
from tests.codegen.make import Graph, corners

EVERY = list(OPS.values())


def ops(m: Module) -> list[str]:
    return [n.op for n in m.entry.nodes]


@pytest.mark.parametrize("symbolic", [False, True])
def test_random_graphs_keep_every_bit(symbolic: bool) -> None:
    fewer = 0
    for seed in range(150):
        m = inline(graph(seed, symbolic=symbolic))
        s = simplify(m)
        env = bindings(m, seed)
        args = operands(m, seed, env)
        for want, got in zip(run(m, args, env), run(s, args, env), strict=True):
            assert same_bits(want, got), seed
        assert s.entry.result_types() == m.entry.result_types()
        fewer += len(s.entry.nodes) < len(m.entry.nodes)
        assert simplify(s) == s
    assert fewer > 100


def cases() -> list[tuple[str, int, float, DType]]:
    return [
        (op.name, at, v.value, dtype)
        for op in OPS.values()
        for v in op.laws.neutral
        for dtype in v.dtypes
        for at in v.operands
    ]


@pytest.mark.parametrize(("op", "at", "value", "dtype"), cases())
def test_neutral_operands_are_neutral(op: str, at: int, value: float, dtype: DType) -> None:
    g = Graph()
    v = corners(dtype)
    x = g.param("x", len(v), dtype=dtype)
    c = g("broadcast_to", g.constant(value, dtype), shape=(len(v),))
    m = g.module(g(op, *((c, x) if at == 0 else (x, c))))
    assert simplify(m).entry.results == ("x",)
    assert same_bits(run(m, [v])[0], v)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(
    "op",
    [o.name for o in EVERY if o.arity == (1, 1) and (o.laws.involution or o.laws.idempotent)],
)
def test_pairs_of_one_op(op: str, dtype: DType) -> None:
    if dtype not in OPS[op].dtypes:
        return
    g = Graph()
    v = corners(dtype)
    x = g.param("x", len(v), dtype=dtype)
    m = g.module(g(op, g(op, x)))
    s = simplify(m)
    assert ops(s) == ([] if OPS[op].laws.involution else [op])
    assert same_bits(run(m, [v])[0], run(s, [v])[0])


@pytest.mark.parametrize("dtype", ALL)
def test_the_sign_under_an_abs(dtype: DType) -> None:
    if dtype not in OPS["negative"].dtypes:
        return
    g = Graph()
    v = corners(dtype)
    m = g.module(g("abs", g("negative", g.param("x", len(v), dtype=dtype))))
    s = simplify(m)
    assert len(s.entry.nodes) == 1 + (dtype in UNSIGNED)
    assert same_bits(run(m, [v])[0], run(s, [v])[0])


@pytest.mark.parametrize("op", [o.name for o in EVERY if o.laws.commutative])
def test_equal_and_swapped_operands(op: str) -> None:
    for dtype in ALL:
        if dtype not in OPS[op].dtypes:
            continue
        g = Graph()
        v = corners(dtype)
        pairs = np.stack(np.meshgrid(v, v)).reshape(2, -1).astype(dtype.numpy)
        x = g.param("x", pairs.shape[1], dtype=dtype)
        y = g.param("y", pairs.shape[1], dtype=dtype)
        same, one, two = g(op, x, x), g(op, x, y), g(op, y, x)
        m = g.module(same, one, two)
        s = simplify(m)
        assert s.entry.results[1] == s.entry.results[2]
        assert (s.entry.results[0] == "x") == OPS[op].laws.idempotent
        with warnings.catch_warnings():
            for want, got in zip(run(m, list(pairs)), run(s, list(pairs)), strict=True):
                assert same_bits(want, got), (op, dtype)


@pytest.mark.parametrize("value", [0.0, -0.0, 2.0])
@pytest.mark.parametrize("op", ["add", "multiply", "subtract"])
def test_float_identities_that_are_none(op: str, value: float) -> None:
    if (op, np.signbit(value), value) in (("add", True, 0), ("subtract", False, 0)):
        return  # x + -0 and x - 0 are x
    g = Graph()
    m = g.module(g(op, g.param("x"), g.constant(value)))
    assert ops(simplify(m)) == ["constant", op]


def test_constants_that_compare_equal_are_told_apart() -> None:
    g = Graph()
    x = g.param("x")
    a, b = g.constant(0.0), g.constant(-0.0)
    m = g.module(g("add", x, a), g("subtract", x, b), g("multiply", x, a), g("multiply", x, b))
    assert len(set(simplify(m).entry.results)) == 4


def test_casts_that_lose_nothing_lose_nothing() -> None:
    some = (DType.I16, DType.U16, DType.I32, DType.U64, DType.F8E4M3FNUZ, DType.F8E5M2, DType.I2,
            DType.U4)  # fmt: skip
    every = [d for d in ALL if d not in some]  # all would take long
    for source in every:
        for via in every:
            for target in every:
                g = Graph()
                v = corners(source)
                x = g.param("x", len(v), dtype=source)
                m = g.module(g("cast", g("cast", x, dtype=via), dtype=target))
                s = simplify(m)
                saturates = source.is_int and via.is_float and target.is_int
                if lossless(source, via) and not saturates:
                    assert len(s.entry.nodes) <= 1
                assert same_bits(run(m, [v])[0], run(s, [v])[0]), (source, via, target)


def test_movement_composes_and_vanishes() -> None:
    n = symbol("n")
    g = Graph()
    x = g.param("x", n, 3, 4)
    p = g("permute_dims", g("permute_dims", x, axes=(2, 0, 1)), axes=(1, 2, 0))
    r = g("reshape", g("reshape", x, shape=(3 * n, 4)), shape=(n, 12))
    f = g("flip", g("flip", x, axes=(0, 1)), axes=(1,))
    b = g("broadcast_to", g("broadcast_to", x, shape=(2, n, 3, 4)), shape=(5, 2, n, 3, 4))
    m = g.module(p, r, f, b, dims=(DimVar("n", 0, 9),))
    s = simplify(m)
    assert s.entry.results[0] == "x"
    assert sorted(ops(s)) == ["broadcast_to", "flip", "reshape"]
    assert all(node.args == ("x",) for node in s.entry.nodes)


@pytest.mark.parametrize("first", [(1, 2, 0), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("second", [(2, 0, 1), (1, 0, 2), (0, 1, 2)])
def test_movement_composes_to_the_same(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    g = Graph()
    x = g.param("x", 2, 3, 4)
    p = g("permute_dims", g("permute_dims", x, axes=first), axes=second)
    f = g("flip", g("flip", x, axes=tuple(sorted(first[:2]))), axes=tuple(sorted(second[1:])))
    m = g.module(p, f)
    s = simplify(m)
    assert len(s.entry.nodes) <= 2
    v = [np.arange(24, dtype=np.float32).reshape(2, 3, 4)]
    for want, got in zip(run(m, v), run(s, v), strict=True):
        assert same_bits(want, got)


def test_a_constant_is_no_splat_by_its_ends() -> None:
    g = Graph()
    m = g.module(g("multiply", g.param("x", 3), g.constant([1.0, 2.0, 1.0])))
    assert ops(simplify(m)) == ["constant", "multiply"]


def test_a_choice_between_equals_that_broadcasts_stays() -> None:
    g = Graph()
    x = g.param("x")
    c, y = g.param("c", 3, dtype=DType.BOOL), g.param("y", 3)
    m = g.module(g("where", c, x, x), g("where", c, y, y), g("where", c, c, c))
    chosen, *others = simplify(m).entry.results
    assert (chosen, others) == (m.entry.results[0], ["y", "c"])


def test_moving_axes_of_size_one_is_a_reshape() -> None:
    g = Graph()
    x = g.param("x", 3, 1, 4)
    m = g.module(g("permute_dims", x, axes=(1, 0, 2)), g("broadcast_to", x, shape=(1, 3, 1, 4)))
    assert ops(simplify(m)) == ["reshape", "reshape"]


@pytest.mark.parametrize("half", [DType.F16, DType.BF16])
def test_constants_fold_but_not_in_half_precision(half: DType) -> None:
    g = Graph()
    a, b = g.constant([1.5, 2.0]), g.constant([0.25, -1.0])
    c, d = g.constant([1.5], half), g.constant([0.1], half)
    s = simplify(g.module(g("add", a, b), g("add", c, d)))
    assert ops(s).count("add") == 1
    folded = {n.results[0]: n for n in s.entry.nodes}[s.entry.results[0]]
    assert folded.op == "constant"
    assert run(s, [])[0].tolist() == [1.75, 1.0]


def test_constants_that_are_repeated_fold_to_one_that_is() -> None:
    g = Graph()
    n = symbol("n")
    a = g("broadcast_to", g.constant(1.5), shape=(n, 9000))
    b = g("broadcast_to", g.constant(0.25), shape=(n, 9000))
    x = g.param("x", n, 9000)
    turned = g("permute_dims", g("exp", g("add", a, b)), axes=(1, 0))
    m = g.module(g("add", g("permute_dims", x, axes=(1, 0)), turned), dims=(DimVar("n", 1, 9),))
    s = simplify(m)
    assert sorted(ops(s)) == ["add", "broadcast_to", "constant", "permute_dims"]
    zeros = [np.zeros((2, 9000), np.float32)]
    assert np.array_equal(run(m, zeros, {"n": 2})[0], run(s, zeros, {"n": 2})[0])


def test_what_is_repeated_does_not_move() -> None:
    g = Graph()
    x = g("broadcast_to", g.param("x"), shape=(3, 4))
    y = g("slice", g("flip", x, axes=(0,)), starts=(1, 0), stops=(3, 4), steps=(1, 2))
    s = simplify(g.module(g("reshape", y, shape=(4,))))
    assert [(n.op, n.args) for n in s.entry.nodes] == [("broadcast_to", ("x",))]


@pytest.mark.parametrize("index", [0, 1, -1, -9, 7])
def test_one_row_that_is_gathered_is_a_slice(index: int) -> None:
    g, n = Graph(), symbol("n")
    x = g.param("x", n, 3, 2)
    m = g.module(g("gather", x, g.constant(index, DType.I64), axis=1), dims=(DimVar("n", 0, 9),))
    s = simplify(m)
    assert ops(s) == ["slice", "reshape"]
    for rows in (0, 4):
        given = [np.arange(6 * rows, dtype=np.float32).reshape(rows, 3, 2)]
        assert np.array_equal(run(m, given)[0], run(s, given)[0])


def test_other_gathers_stay() -> None:
    g, n = Graph(), symbol("n")
    x, i = g.param("x", n, 3), g.param("i", dtype=DType.I64)
    open_size = g("gather", x, g.constant(1, DType.I64), axis=0)
    several = g("gather", x, g.constant([1, 2], DType.I64), axis=1)
    m = g.module(open_size, several, g("gather", x, i, axis=1), dims=(DimVar("n", 0, 9),))
    assert ops(simplify(m)).count("gather") == 3


def test_slices_of_a_large_constant_that_are_joined_are_a_constant() -> None:
    g = Graph()
    w = g.constant(np.arange(20_000, dtype=np.float32).reshape(100, 200))

    def rows(first: int, last: int) -> str:
        return g("slice", w, starts=(first, 0), stops=(last, 200), steps=(1, 1))

    x = g.param("x", 100, 200)
    joined = g("concat", rows(50, 100), rows(0, 50), axis=0)
    longer = g("concat", rows(50, 100), w, axis=0)
    m = g.module(g("add", joined, x), longer)
    s = simplify(m)
    assert sorted(ops(s)) == ["add", "concat", "constant", "constant", "slice"]
    zeros = [np.zeros((100, 200), np.float32)]
    assert np.array_equal(run(m, zeros)[0], run(s, zeros)[0])


def test_dead_code_goes_and_parameters_stay() -> None:
    g = Graph()
    x, y = g.param("x", 3), g.param("y", 3)
    g("exp", g("add", x, y))
    m = g.module(g("exp", x))
    s = simplify(m)
    assert ops(s) == ["exp"]
    assert s.entry.params == m.entry.params


UNUSED_SIZE = """module {
  dims n in [2, 4]
  func @main(%x: f32[3], %size: i64[]) -> (%y) {
    () = bind(%size, dim="n")
    %unused = iota(axis=0, dtype=f32, shape=(n,)) : f32[n]
    %y = exp(%x) : f32[3]
  }
}"""

UNUSED_BRANCH = """module {
  dims n in [2, 4]
  func @counted(%x: f32[3], %size: i64[]) -> (%sum) {
    () = bind(%size, dim="n")
    %many = iota(axis=0, dtype=f32, shape=(n,)) : f32[n]
    %sum = sum(%many, axes=(0,), keepdims=false) : f32[]
  }
  func @first(%x: f32[3], %size: i64[]) -> (%sum) {
    %sum = sum(%x, axes=(0,), keepdims=false) : f32[]
  }
  func @main(%x: f32[3], %size: i64[]) -> (%y) {
    %two = constant(value=i64[] 2) : i64[]
    %c = greater(%size, %two) : bool[]
    %unused = if(%c, %x, %size, binds=(), otherwise="first", then="counted") : f32[]
    %y = exp(%x) : f32[3]
  }
}"""


@pytest.mark.parametrize("text", [UNUSED_SIZE, UNUSED_BRANCH])
def test_a_size_that_nothing_needs_is_still_checked(text: str) -> None:
    m = parse_module(text)
    s = simplify(m)
    assert "iota" not in ops(s)
    exe = dd.compile(Program(m))
    x = np.ones(3, np.float32)

    def by_reference(size: np.ndarray) -> None:
        run(s, [x, size])

    def compiled(size: np.ndarray) -> None:
        exe(x, size)

    for call in (by_reference, compiled):
        call(np.asarray(4))
        with pytest.raises(DidymaError) as e:
            call(np.asarray(5))
        assert e.value.code == "dim-out-of-range"


def test_rules_have_names() -> None:
    names = [r.name for r in rules(Options())]
    assert len(set(names)) == len(names)


TABLE = np.arange(6000, dtype=np.float32).reshape(60, 100)


@dd.trace(dd.f32[3, 100], dd.f32[50, 2])
def read_by_moves(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    """Each half of a table is moved, and nothing else reads it."""
    table = dd.asarray(TABLE)
    far = dd.permute_dims(dd.reshape(table[30:], (30, 2, 50)), (2, 0, 1))
    return x @ dd.permute_dims(table[:30], (1, 0)) + dd.sum(far @ y[0])


@dd.trace(dd.f32[3, 100], dd.i64[3])
def read_as_it_lies(x: dd.Tensor, i: dd.Tensor) -> dd.Tensor:
    table = dd.asarray(TABLE)
    return x @ dd.permute_dims(table, (1, 0)) + dd.take(table, i, axis=0)[:, :60]


@dd.trace(dd.f32[3, 100], dd.f32[3, 60])
def read_twice(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    table = dd.asarray(TABLE)
    back = dd.flip(table, axis=0)
    return x @ dd.permute_dims(table, (1, 0)) + dd.sum(y @ back)


@pytest.mark.parametrize(
    ("program", "kept"), [(read_by_moves, 0), (read_as_it_lies, 1), (read_twice, 2)]
)
def test_a_core_is_given_constants_as_they_are_moved_if_none_is_kept_twice(
    program: Program, kept: int
) -> None:
    made = simplify(program.module, Options(target="cpu"))
    moves = {"flip", "permute_dims", "reshape"}
    constants = {n.results[0] for n in made.entry.nodes if n.op == "constant"}
    assert sum(n.op in moves and n.args[0] in constants for n in made.entry.nodes) == kept
    elsewhere = simplify(program.module, Options(target="portable"))
    assert any(n.op == "permute_dims" for n in elsewhere.entry.nodes)
    assert dd.check(program, options=Options(target="cpu"), engines=["host"], tries=1).agree
