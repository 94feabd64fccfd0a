"""What lowering writes, and cases that random graphs seldom meet."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.lower import lower
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Cast,
    Expr,
    Fold,
    For,
    If,
    Let,
    PrimFunc,
    Stmt,
    Store,
    While,
)
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import expr_children, exprs, stmts
from tests.codegen.lower.judged import agree, array, execute, primitive
from tests.codegen.make import Graph

N = symbol("n")
NS = (DimVar("n", 0, 40),)


def lowered(m: Module) -> PrimFunc:
    m = primitive(m)
    return lower(m.entry, m)


def size(s: Stmt) -> int:
    return sum(1 for _ in stmts(s)) + sum(1 for _ in exprs(s))


def chain(depth: int) -> Module:
    g = Graph()
    x = g.param("x", 8)
    for _ in range(depth):
        x = g("add", g("multiply", x, x), x)
    return g.module(x)


def test_shared_values_are_bound_once() -> None:
    body = lowered(chain(1)).body
    assert isinstance(body, For)
    assert isinstance(body.body, Let)
    assert isinstance(body.body.body, Store)


def test_size_is_linear_in_the_graph() -> None:
    sizes = [size(lowered(chain(n)).body) for n in (10, 20, 40)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


def test_deep_chains_agree() -> None:
    m = primitive(chain(40))
    agree(m.entry, m, [np.linspace(-0.05, 0.05, 8, dtype=np.float32)], {})


@pytest.mark.parametrize("reduced", [False, True])
def test_long_chains_of_single_uses_do_not_nest(reduced: bool) -> None:
    g = Graph()
    x = g.param("x", 4, 4)
    y = g.param("y", 4, 4)
    for _ in range(64):
        y = g("negative", g("subtract", x, y))
    y = g("sum", y, axes=(1,), keepdims=False) if reduced else y
    m = primitive(g.module(y))
    agree(m.entry, m, [np.ones((4, 4), np.float32), np.eye(4, dtype=np.float32)], {})
    depth = max(nesting(e) for e in exprs(lower(m.entry, m).body))
    assert depth < 40


def nesting(e: Expr) -> int:
    return 1 + max(map(nesting, expr_children(e)), default=0)


def test_a_value_shared_inside_a_guard_stays_there() -> None:
    g = Graph()
    x, fill = g.param("x", 4), g.param("fill")
    e = g("exp", x)
    e = g("multiply", e, e)
    g_pad = g("pad", e, fill, low=(2,), high=(1,), mode="constant")
    m = primitive(g.module(g("multiply", g_pad, g_pad)))
    inputs = [array([1, -1, 0.5, 2]), array(3)]
    agree(m.entry, m, inputs, {})


def test_a_value_shared_by_two_guards_is_read_inside_each() -> None:
    g = Graph()
    x, a, b = g.param("x", 4), g.param("a"), g.param("b")
    e = g("exp", x)
    e = g("multiply", e, e)
    one = g("pad", e, a, low=(2,), high=(1,), mode="constant")
    two = g("pad", e, b, low=(2,), high=(1,), mode="constant")
    m = primitive(g.module(g("subtract", one, two)))
    inputs = [array([1, -1, 0.5, 2]), array(3), array(5)]
    agree(m.entry, m, inputs, {})


def test_a_value_shared_by_both_sides_but_guarded_in_each_is_read_inside_the_guards() -> None:
    """Each part of the join may read it, but none has to: the join itself must not."""
    g = Graph()
    x, fill = g.param("x", 3), g.param("fill")
    e = g("exp", x)
    column = g("reshape", g("multiply", e, e), shape=(3, 1))
    p = g("pad", column, fill, low=(0, 0), high=(2, 4), mode="constant")
    m = primitive(g.module(g("concat", p, p, axis=1)))
    agree(m.entry, m, [np.arange(3, dtype=np.float32), array(-1)], {})


def test_a_fold_behind_a_guard_runs_only_where_it_may_read() -> None:
    g = Graph()
    x, fill = g.param("x", 4, 5), g.param("fill")
    s = g("sum", x, axes=(1,), keepdims=False)
    p = g("pad", g("square", s), fill, low=(1,), high=(2,), mode="constant")
    m = primitive(g.module(p))
    agree(m.entry, m, [np.arange(20, dtype=np.float32).reshape(4, 5), array(-1)], {})


def test_a_fold_behind_a_guard_may_decide_what_else_uses_it() -> None:
    """Two f4 share a byte; the second, where there is one, is rounded by its own size."""
    g = Graph()
    x = g.param("x", 3, 4)
    most = g("max", x, axes=(1,), keepdims=False)
    m = primitive(g.module(g("cast", most, dtype=DType.F4E2M1)))
    agree(m.entry, m, [np.linspace(-5, 7, 12, dtype=np.float32).reshape(3, 4)], {})


def test_a_fold_behind_either_of_two_guards_runs_where_one_of_them_holds() -> None:
    g = Graph()
    x, short, long = g.param("x", 4, 5), g.param("u", 1), g.param("w", 3)
    s = g("sum", x, axes=(1,), keepdims=False)
    part = g("slice", s, starts=(0,), stops=(2,), steps=(1,))
    both = g("add", g("concat", s, short, axis=0), g("concat", part, long, axis=0))
    m = primitive(g.module(both))
    values = [np.arange(20, dtype=np.float32).reshape(4, 5), array([-1]), array([1, 2, 3])]
    agree(m.entry, m, values, {})


def softmax(g: Graph, x: str) -> str:
    """Compute the softmax of rows, whose largest values the sums and the quotients share."""
    e = g("exp", g("subtract", x, g("max", x, axes=(1,), keepdims=True)))
    return g("divide", e, g("sum", e, axes=(1,), keepdims=True))


@pytest.mark.parametrize("columns", [0, 1, 5])
def test_a_fold_behind_a_guard_and_in_the_body_of_another(columns: int) -> None:
    g = Graph()
    x, fill = g.param("x", 3, columns), g.param("fill")
    p = g("pad", softmax(g, x), fill, low=(1, 0), high=(2, 0), mode="constant")
    m = primitive(g.module(p, g("cast", p, dtype=DType.I4), softmax(g, p)))
    rows = np.linspace(-5, 7, 3 * columns, dtype=np.float32).reshape(3, columns)
    agree(m.entry, m, [rows, array(-1)], {})


def test_a_fold_behind_a_guard_and_one_that_depends_on_a_loop() -> None:
    g = Graph()
    x, y, fill = g.param("x", 3, 5), g.param("y", 3, 4), g.param("fill")
    s = g("sum", x, axes=(1,), keepdims=True)
    p = g("pad", g("multiply", y, s), fill, low=(0, 2), high=(0, 1), mode="constant")
    total = g("sum", p, axes=(1,), keepdims=True)
    m = primitive(g.module(g("cast", g("add", g("negative", s), total), dtype=DType.I4)))
    x_, y_ = np.linspace(-1, 2, 15, dtype=np.float32), np.ones((3, 4), np.float32)
    agree(m.entry, m, [x_.reshape(3, 5), y_, array(-1)], {})


def test_a_fold_behind_a_guard_of_its_row_and_a_loop_together() -> None:
    """Row i of 3 reads the sums of 2 rows where 4 * i + k is below 8."""
    g = Graph()
    x, fill = g.param("x", 2, 5), g.param("fill")
    s = g("sum", x, axes=(1,), keepdims=True)
    flat = g("reshape", g("broadcast_to", s, shape=(2, 4)), shape=(8,))
    rows = g("pad", flat, fill, low=(0,), high=(4,), mode="constant")
    totals = g("sum", g("reshape", rows, shape=(3, 4)), axes=(1,), keepdims=False)
    once = g("pad", g("reshape", s, shape=(2,)), fill, low=(0,), high=(1,), mode="constant")
    m = primitive(g.module(g("cast", g("add", totals, once), dtype=DType.I4)))
    agree(m.entry, m, [np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5), array(-1)], {})


def test_a_fold_that_decides_whether_the_fold_that_reads_it_runs() -> None:
    """The second of two elements of a byte is computed where there is one."""
    g = Graph()
    x, zero = g.param("x", 3, 5), g.param("zero")
    first = g("sum", x, axes=(1,), keepdims=True)
    then = g("sum", g("multiply", x, first), axes=(1,), keepdims=True)
    y = g("where", g("greater", first, zero), then, first)
    m = primitive(g.module(g("cast", y, dtype=DType.I4)))
    agree(m.entry, m, [np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5), array(0)], {})


def test_rows_beside_a_value_of_another_shape_with_as_many_elements() -> None:
    g = Graph()
    x = g.param("x", 4, 8)
    apart = g("subtract", x, g("sum", x, axes=(1,), keepdims=True))
    m = primitive(g.module(apart, g("reshape", g("square", x), shape=(32,))))
    agree(m.entry, m, [np.arange(32, dtype=np.float32).reshape(4, 8)], {})
    outer = next(s for s in stmts(lower(m.entry, m).body) if isinstance(s, For))
    assert len([s for s in stmts(outer.body) if isinstance(s, Store)]) == 2, "in one nest"


def test_two_folds_in_one_function() -> None:
    g = Graph()
    x = g.param("x", 4, 50)
    most = g("max", x, axes=(1,), keepdims=True)
    total = g("sum", g("exp", g("subtract", x, most)), axes=(1,), keepdims=False)
    m = primitive(g.module(total))
    agree(m.entry, m, [np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)], {})


def test_reshape_there_and_back_leaves_plain_indices() -> None:
    g = Graph()
    x = g.param("x", N, 6)
    y = g("reshape", g("exp", x), shape=(N, 2, 3))
    m = g.module(g("negative", g("reshape", y, shape=(N, 6))), dims=NS)
    text = show(lowered(m))
    assert "x[i0, i1]" in text
    assert "//" not in text


def test_sixteen_bit_values_are_widened_once_and_stay_wide() -> None:
    g = Graph()
    x = g.param("x", 4, dtype=DType.F16)
    m = primitive(g.module(g("subtract", g("exp", x), g("exp", x))))
    # exp(11) overflows f16: with intermediates in f32 the difference is 0, not NaN.
    p = lower(m.entry, m)
    (out,) = execute([p], p, [array([11, 11.5, 0, 1], DType.F16)], {})
    np.testing.assert_array_equal(out, np.zeros(4, np.float16))


def test_what_is_moved_is_not_converted() -> None:
    g = Graph()
    moved = g("permute_dims", g.param("x", 3, 5, dtype=DType.BF16), axes=(1, 0))
    casts = [e for e in exprs(lowered(g.module(moved)).body) if isinstance(e, Cast)]
    assert casts == []


def test_a_result_is_rounded_to_its_dtype_once() -> None:
    g = Graph()
    rounded = g("cast", g("exp", g.param("x", 7)), dtype=DType.BF16)
    (cast,) = (e for e in exprs(lowered(g.module(rounded)).body) if isinstance(e, Cast))
    assert cast.dtype is DType.BF16


def test_names_are_identifiers_and_unique() -> None:
    g = Graph()
    x, y = g.param("float", 4), g.param("a/b", 4)
    z = g.param("a.b", 4)
    p = lowered(g.module(g("add", g("add", x, y), z)))
    assert [b.name for b in p.params] == ["float_", "a_b", "a_b_1", "add1"]


def test_one_result_twice_gets_two_buffers() -> None:
    g = Graph()
    y = g("exp", g.param("x", 4))
    m = primitive(g.module(y, y))
    p = lower(m.entry, m)
    assert len(set(p.outputs)) == 2
    agree(m.entry, m, [array([0, 1, 2, 3])], {})


def test_running_sums_have_extents_that_follow_the_index() -> None:
    g = Graph()
    x = g.param("x", 3, N)
    c = g("cumulative_sum", x, axis=1, exclusive=False, reverse=False)
    m = primitive(g.module(c, dims=NS))
    for n in (0, 1, 2, 40):
        found = agree(m.entry, m, [np.ones((3, n), np.float32)], {"n": n})
        assert found == ["scan"]


SCATTERS = [(op, dtype) for op in ("none", "add", "mul", "min", "max") for dtype in (
    DType.F32, DType.F16, DType.I32, DType.I8)]  # fmt: skip


@pytest.mark.parametrize(("reduction", "dtype"), SCATTERS)
def test_scatters_with_collisions(reduction: str, dtype: DType) -> None:
    g = Graph()
    x = g.param("x", 3, 5, dtype=dtype)
    at = g.param("at", 2, 7, dtype=DType.I64)
    updates = g.param("u", 2, 7, dtype=dtype)
    m = primitive(g.module(g("scatter", x, at, updates, axis=1, reduction=reduction)))
    rng = np.random.default_rng(1)
    inputs = [
        rng.integers(-3, 4, (3, 5)).astype(dtype.numpy),
        rng.integers(-7, 8, (2, 7)),
        rng.integers(-3, 4, (2, 7)).astype(dtype.numpy),
    ]
    agree(m.entry, m, inputs, {})
    kinds = [type(s) for s in stmts(lower(m.entry, m).body)]
    assert (Atomic in kinds) == (
        (dtype is DType.I32 and reduction != "none")
        or (dtype is DType.F32 and reduction in ("min", "max"))
    )


def test_sums_of_floats_are_scattered_in_order() -> None:
    g = Graph()
    x, at = g.param("x", 4, 5), g.param("at", 4, 9, dtype=DType.I64)
    s = g("scatter", x, at, g.param("u", 4, 9), axis=1, reduction="add")
    m = primitive(g.module(s))
    kinds = {a: {type(x) for x in stmts(lower(m.entry, m, atomics=a).body)} for a in (False, True)}
    assert Fold in kinds[False]
    assert Atomic not in kinds[False]
    assert Atomic in kinds[True]


def test_a_scatter_before_other_work_is_folded_from_the_result() -> None:
    g = Graph()
    x, at = g.param("x", 4), g.param("at", 6, dtype=DType.I64)
    s = g("scatter", x, at, g.param("u", 6), axis=0, reduction="none")
    m = primitive(g.module(g("exp", s)))
    inputs = [
        array([1, 2, 3, 4]),
        np.array([0, 1, 0, -1, 9, 1]),
        array([5, 6, 7, 8, 9, 0]),
    ]
    agree(m.entry, m, inputs, {})


def test_a_reduction_is_a_fold() -> None:
    g = Graph()
    p = lowered(g.module(g("sum", g.param("x", 3, 4), axes=(1,), keepdims=False)))
    (fold,) = (s for s in stmts(p.body) if isinstance(s, Fold))
    assert fold.op == "add"
    assert [str(a.var.dtype) for a in fold.accs] == ["f32"]
    assert not any(isinstance(s, (Allocate, While)) for s in stmts(p.body))


def test_a_position_is_a_fold_of_two_values_whose_parts_merge() -> None:
    g = Graph()
    p = lowered(g.module(g("argmax", g.param("x", 3, 4), axis=1, keepdims=False)))
    (fold,) = (s for s in stmts(p.body) if isinstance(s, Fold))
    assert [str(a.var.dtype) for a in fold.accs] == ["f32", "i64"]
    assert fold.op is None
    assert fold.merger is not None


def test_a_fold_behind_a_condition_is_kept_in_a_local_scalar() -> None:
    g = Graph()
    total = g("sum", g.param("x", 3, 4), axes=(1,), keepdims=False)
    p = lowered(g.module(g("concat", g.param("y", 2), total, axis=0)))
    kept = [s.buffer for s in stmts(p.body) if isinstance(s, Allocate)]
    assert [(b.shape, str(b.scope)) for b in kept] == [((), "local")]
    assert any(isinstance(s, If) and isinstance(s.then, Fold) for s in stmts(p.body))


def test_a_function_of_rows_may_return_what_it_is_given() -> None:
    m = parse_module("""module {
  func @rows(%x: f32[1, 2], %y: f32[2, 0]) -> (%x, %y, %z) attrs(Primitive=1) {
    %m = max(%x, axes=(1,), keepdims=true) : f32[1, 1]
    %z = multiply(%x, %m) : f32[1, 2]
  }
  func @main(%x: f32[1, 2], %y: f32[2, 0]) -> (%a, %b, %c) {
    %a, %b, %c = call @rows(%x, %y) : f32[1, 2], f32[2, 0], f32[1, 2]
  }
}
""")
    x, y = array([[2.0, 3.0]]), np.zeros((2, 0), np.float32)
    agree(m.function("rows"), m, [x, y], {})
