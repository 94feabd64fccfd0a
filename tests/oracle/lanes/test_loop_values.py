"""Every statement and expression of loop programs against plain NumPy and Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir import expr as index
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.loop import (
    Allocate,
    Assert,
    Atomic,
    AtomicOp,
    Barrier,
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    ExternalCall,
    For,
    Free,
    If,
    Intrinsic,
    Let,
    LetExpr,
    LoopKind,
    PlacementAllocate,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import Array, DType
from tests.oracle.lanes import both
from tests.oracle.lanes.bodies import run
from tests.refimpl.interp.build import (
    BOOL,
    F32,
    b,
    block,
    buffer,
    f32,
    grid,
    i,
    ix,
    j,
    k,
    load,
    local,
    op,
    parallel,
    plus,
    serial,
    shared,
    store,
    t,
    threads,
    times,
    vector,
)

RNG = np.random.default_rng(1)


def less(x: Expr, y: Expr | int) -> Expr:
    return Compare("lt", x, ix(y))


def test_pointwise_in_any_order_of_loops() -> None:
    x, y = RNG.random((3, 4), np.float32), RNG.random((3, 4), np.float32)
    value = Intrinsic("exp", (Unary("neg", op("max", load("x", i, j), load("y", i, j))),))
    want = np.exp(-np.maximum(x, y))
    nests: list[Stmt] = [
        parallel(i, 3, parallel(j, 4, store("o", i, j, value=value))),
        parallel(j, 4, parallel(i, 3, store("o", i, j, value=value))),
        serial(i, 3, parallel(j, 4, store("o", i, j, value=value))),
        parallel(i, 3, serial(j, 4, store("o", i, j, value=value))),
        serial(i, 3, serial(j, 4, store("o", i, j, value=value))),
        parallel(i, 3, vector(j, 4, store("o", i, j, value=value))),
    ]
    for body in nests:
        o = np.zeros((3, 4), np.float32)
        run(body, {"x": x, "y": y}, {"o": o})
        assert (o == want).all()


def test_gathers_and_slices() -> None:
    x: Array = RNG.random((8, 8), np.float32)
    cases: list[tuple[tuple[Expr, ...], Array]] = [
        ((i, j), x[:4, :3]),
        ((j, i), x[:3, :4].T),
        ((plus(times(i, ix(2)), ix(1)), j), x[1:8:2, :3]),
        ((op("sub", ix(7), i), ix(2)), np.broadcast_to(x[7:3:-1, 2:3], (4, 3))),
        ((op("sub", ix(3), i), j), x[3::-1, :3]),
        ((plus(i, j), j), x[np.add.outer(range(4), range(3)), np.arange(3)]),
        ((op("floormod", times(i, i), ix(8)), j), x[[0, 1, 4, 1], :3]),
        ((ix(5), ix(1)), np.full((4, 3), x[5, 1])),
    ]
    for at, want in cases:
        o = np.zeros((4, 3), np.float32)
        body = parallel(i, 4, parallel(j, 3, store("o", i, j, value=load("x", *at))))
        run(body, {"x": x}, {"o": o})
        assert (o == want).all(), at


@pytest.mark.parametrize("n", [0, 1, 3])
def test_slices_that_move_with_a_serial_loop(n: int) -> None:
    x = RNG.random((9,), np.float32)
    o = np.zeros((n, 4), np.float32)
    body = serial(k, n, parallel(i, 4, store("o", k, i, value=load("x", plus(k, plus(i, k))))))
    run(body, {"x": x}, {"o": o})
    assert o.tolist() == [[x[2 * a + c] for c in range(4)] for a in range(n)]


def test_reduction_with_an_accumulator() -> None:
    x, y = RNG.random((3, 5), np.float32), RNG.random((5, 2), np.float32)
    add = plus(load("acc"), times(load("x", i, k), load("y", k, j)))
    body = parallel(i, 3, parallel(j, 2, Allocate(local("acc"), block(
        store("acc", value=f32(0)),
        serial(k, 5, store("acc", value=add)),
        store("o", i, j, value=load("acc")),
    ))))  # fmt: skip
    o = np.zeros((3, 2), np.float32)
    run(body, {"x": x, "y": y}, {"o": o})
    want = np.zeros((3, 2), np.float32)
    for c in range(5):
        want = want + x[:, c : c + 1] * y[c]
    assert (o == want).all()


@pytest.mark.parametrize("kind", [LoopKind.SERIAL, LoopKind.PARALLEL])
def test_extents_that_depend_on_an_outer_loop(kind: LoopKind) -> None:
    x = RNG.integers(0, 9, 6).astype(np.int64)
    o = np.zeros(6, np.int64)
    inner = store("acc", value=plus(load("acc", dtype=DType.I64), load("x", k, dtype=DType.I64)))
    body = For(i, ix(6), Allocate(local("acc", dtype=DType.I64), block(
        store("acc", value=ix(0)),
        serial(k, plus(i, ix(1)), inner),
        store("o", i, value=load("acc", dtype=DType.I64)),
    )), kind)  # fmt: skip
    run(body, {"x": x}, {"o": o})
    assert (o == np.cumsum(x)).all()


def test_a_parallel_loop_of_ragged_extent() -> None:
    o = np.zeros((4, 4), np.float32)
    body = parallel(i, 4, parallel(j, plus(i, ix(1)), store("o", i, j, value=f32(1))))
    run(body, {}, {"o": o})
    assert (o == np.tril(np.ones((4, 4)))).all()


def test_a_parallel_loop_whose_extent_is_loaded() -> None:
    n = np.array([2, 0, 3], np.int64)
    o = np.zeros((3, 3), np.float32)
    extent = load("n", k, dtype=DType.I64)
    body = serial(k, 3, parallel(j, extent, store("o", k, j, value=f32(1))))
    run(body, {"n": n}, {"o": o})
    assert (o == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]).all()
    o[:] = 0
    run(parallel(k, 3, parallel(j, extent, store("o", k, j, value=f32(1)))), {"n": n}, {"o": o})
    assert (o == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]).all()


def test_only_the_chosen_side_of_a_selection_is_evaluated() -> None:
    x = RNG.random((4,), np.float32)
    inside = Binary("and", Compare("ge", i, ix(2)), less(i, 6))
    padded = Select(inside, load("x", op("sub", i, ix(2))), f32(-1))
    o = np.zeros(8, np.float32)
    run(parallel(i, 8, store("o", i, value=padded)), {"x": x}, {"o": o})
    assert (o == np.pad(x, 2, constant_values=-1)).all()
    o[:] = 0
    run(serial(i, 8, store("o", i, value=padded)), {"x": x}, {"o": o})
    assert (o == np.pad(x, 2, constant_values=-1)).all()
    o[:] = 0
    flag = np.array([0, 0, 1, 1, 1, 1, 0, 0], bool)
    chosen = Select(load("flag", i, dtype=BOOL), load("x", op("sub", i, ix(2))), f32(-1))
    run(parallel(i, 8, store("o", i, value=chosen)), {"x": x, "flag": flag}, {"o": o})
    assert (o == np.pad(x, 2, constant_values=-1)).all()


def test_the_other_side_of_a_selection_sees_only_its_own_lanes() -> None:
    x = RNG.random((3,), np.float32)
    flag = np.array([1, 0, 0, 1, 0], bool)
    o = np.zeros(5, np.float32)
    at = load("n", i, dtype=DType.I64)
    value = Select(load("flag", i, dtype=BOOL), f32(-1), load("x", at))
    tables = {"x": x, "flag": flag, "n": np.array([9, 0, 1, -7, 2])}
    run(parallel(i, 5, store("o", i, value=value)), tables, {"o": o})
    assert o.tolist() == [-1, x[0], x[1], -1, x[2]]


def test_padding_that_moves_with_a_serial_loop() -> None:
    x, w = RNG.random((6,), np.float32), RNG.random((3,), np.float32)
    at = op("sub", plus(i, k), ix(1))
    inside = Binary("and", Compare("ge", at, ix(0)), less(at, 6))
    add = plus(load("acc"), times(Select(inside, load("x", at), f32(0)), load("w", k)))
    body = parallel(i, 6, Allocate(local("acc"), block(
        store("acc", value=f32(0)), serial(k, 3, store("acc", value=add)),
        store("o", i, value=load("acc")),
    )))  # fmt: skip
    o = np.zeros(6, np.float32)
    run(body, {"x": x, "w": w}, {"o": o})
    np.testing.assert_allclose(o, np.correlate(x, w, "same"), rtol=1e-6)


def test_branches_and_lets() -> None:
    x = np.arange(6, dtype=np.float32)
    v, e = Var("v", F32), Var("e", F32)
    even = Compare("eq", op("floormod", i, ix(2)), ix(0))
    small = Compare("lt", load("x", i), f32(3))
    squared = LetExpr(e, plus(v, f32(1)), times(e, e))
    body = parallel(i, 6, Let(v, load("x", i), If(
        even,
        If(small, store("o", i, value=squared), store("o", i, value=v)),
        If(small, store("o", i, value=Unary("neg", v))),
    )))  # fmt: skip
    for nest in (body, For(i, ix(6), body.body)):
        o = np.full(6, 9, np.float32)
        run(nest, {"x": x}, {"o": o})
        assert o.tolist() == [1, -1, 9, 9, 4, 9]


def test_small_floats_are_computed_in_f32_and_rounded_at_the_store() -> None:
    for dtype in (DType.F16, DType.BF16):
        x = RNG.random(5, np.float32).astype(dtype.numpy)
        o = np.zeros(5, dtype.numpy)
        third = op("div", Cast(load("x", i, dtype=dtype), F32), f32(3))
        run(parallel(i, 5, store("o", i, value=Cast(third, dtype))), {"x": x}, {"o": o})
        assert (o == (x.astype(np.float32) / np.float32(3)).astype(dtype.numpy)).all()


def test_constants_of_every_kind() -> None:
    o = np.zeros(3, np.float32)
    values = (math.nan, math.inf, -0.0)
    run(block(*(store("o", n, value=f32(c)) for n, c in enumerate(values))), {}, {"o": o})
    assert np.isnan(o[0])
    assert o[1] == np.inf
    assert np.signbit(o[2])
    u = np.zeros(1, np.uint64)
    run(store("u", 0, value=Const(2**64 - 1, DType.U64)), {}, {"u": u})
    assert u[0] == 2**64 - 1


def test_local_arrays_indexed_by_serial_and_by_lane_variables() -> None:
    x = RNG.random((4, 3), np.float32)
    o = np.zeros((4, 3), np.float32)
    turned = op("floormod", plus(j, i), ix(3))
    body = parallel(i, 4, Allocate(local("r", 3), block(
        serial(j, 3, store("r", j, value=load("x", i, j))),
        serial(j, 3, store("o", i, j, value=load("r", turned))),
    )))  # fmt: skip
    run(body, {"x": x}, {"o": o})
    assert (o == [np.roll(row, -n) for n, row in enumerate(x)]).all()
    o[:] = 0
    body = parallel(i, 4, Allocate(local("r", 3), block(
        vector(j, 3, store("r", j, value=load("x", i, j))),
        vector(k, 3, store("o", i, k, value=load("r", op("sub", ix(2), k)))),
    )))  # fmt: skip
    run(body, {"x": x}, {"o": o})
    assert (o == x[:, ::-1]).all()


def test_a_value_bound_before_a_store_keeps_its_value() -> None:
    v = Var("v", F32)
    o = np.zeros((2, 3), np.float32)
    body = parallel(i, 3, Allocate(local("acc"), block(
        store("acc", value=Cast(i, F32)),
        Let(v, load("acc"), block(
            store("acc", value=plus(load("acc"), f32(10))),
            store("o", 0, i, value=v), store("o", 1, i, value=load("acc")),
        )),
    )))  # fmt: skip
    run(body, {}, {"o": o})
    assert o.tolist() == [[0, 1, 2], [10, 11, 12]]


def guarded(n: int, size: int, *body: Stmt) -> Stmt:
    """A pointwise kernel: a thread for each i below n."""
    flat = plus(times(b, ix(size)), t)
    return grid(-(-n // size), threads(size, Let(i, flat, If(less(i, n), block(*body)))))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_a_kernel_with_a_tail(n: int) -> None:
    x = RNG.random(n, np.float32)
    o = np.zeros(n, np.float32)
    run(guarded(n, 8, store("o", i, value=times(load("x", i), f32(2)))), {"x": x}, {"o": o})
    assert (o == x * 2).all()


def test_a_reduction_in_shared_memory() -> None:
    x = RNG.random((3, 8), np.float32)
    o = np.zeros(3, np.float32)
    steps: list[Stmt] = []
    for width in (4, 2, 1):
        fold = store("s", t, value=plus(load("s", t), load("s", plus(t, ix(width)))))
        steps += [Barrier(), If(less(t, width), fold)]
    inner = block(
        store("s", t, value=load("x", b, t)), *steps,
        If(Compare("eq", t, ix(0)), store("o", b, value=load("s", 0))),
    )  # fmt: skip
    run(grid(3, Allocate(shared("s", 8), threads(8, inner))), {"x": x}, {"o": o})
    v = x[:, :4] + x[:, 4:]
    v = v[:, :2] + v[:, 2:]
    assert (o == v[:, 0] + v[:, 1]).all()


@pytest.mark.parametrize("name", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", [DType.I32, F32])
def test_atomics(name: AtomicOp, dtype: DType) -> None:
    x = RNG.integers(1, 4, 12).astype(dtype.numpy)
    o = np.full(3, 2, dtype.numpy)
    body = parallel(
        i, 12, Atomic(name, "o", (op("floormod", i, ix(3)),), load("x", i, dtype=dtype))
    )
    run(body, {"x": x}, {"o": o})
    fold = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[name]
    assert (o == fold.reduce(np.vstack([np.full((1, 3), 2), x.reshape(4, 3)]))).all()


def test_atomics_know_the_sign_of_zero() -> None:
    x = np.array([-0.0, 0.0, -0.0], np.float32)
    o = np.array([-0.0, 0.0], np.float32)
    body = parallel(i, 3, block(
        Atomic("max", "o", (ix(0),), load("x", i)), Atomic("min", "o", (ix(1),), load("x", i)),
    ))  # fmt: skip
    run(body, {"x": x}, {"o": o})
    assert np.signbit(o).tolist() == [False, True]


def test_atomics_of_many_lanes_on_one_element() -> None:
    n = 20_000
    x = RNG.integers(-5, 5, n)
    o = np.zeros(2, np.int64)
    value = load("x", i, dtype=DType.I64)
    body = parallel(i, n, Atomic("add", "o", (ix(0),), value), Atomic("min", "o", (ix(1),), value))
    run(body, {"x": x}, {"o": o})
    assert o.tolist() == [x.sum(), -5]


def test_sibling_loops_may_share_a_variable() -> None:
    at = plus(i, ix(1))
    value = load("x", at)
    o = np.zeros(4, np.float32)
    x = RNG.random(5, np.float32)
    body = block(
        parallel(i, 2, store("o", i, value=value)),
        serial(i, 3, store("o", at, value=value)),
        Let(i, ix(0), store("o", i, value=value)),
    )
    run(body, {"x": x}, {"o": o})
    assert (o == [x[1], x[1], x[2], x[3]]).all()


def test_global_scratch_placement_and_free() -> None:
    x = RNG.random(6, np.float32)
    o = np.zeros(6, np.float32)
    body = Allocate(buffer("a", 6), block(
        parallel(i, 6, store("a", i, value=plus(load("x", i), f32(1)))),
        parallel(j, 6, store("o", j, value=times(load("a", j), f32(2)))),
        PlacementAllocate(buffer("c", 2, 3), "a", block(
            parallel(k, 6, store("c", index.floordiv(k, ix(3)), index.mod(k, ix(3)),
                                 value=plus(load("o", k), f32(1)))),
            parallel(t, 6, store("o", t, value=load("c", op("floordiv", t, ix(3)),
                                                    op("floormod", t, ix(3))))),
            Free("c"),
        )),
    ))  # fmt: skip
    run(body, {"x": x}, {"o": o})
    assert (o == (x + 1) * 2 + 1).all()


def test_external_calls() -> None:
    x = RNG.random((2, 3), np.float32)
    o = np.zeros((3, 2), np.float32)

    def turn(outputs: list[Array], inputs: list[Array], attrs: dict[str, object]) -> None:
        outputs[0][...] = inputs[0].T * attrs["scale"]

    body = ExternalCall("turn", ("o",), ("x",), (("scale", 2),))
    f = PrimFunc("f", (Buffer("x", F32, (2, 3)), Buffer("o", F32, (3, 2))), ("o",), body)
    both.run(f, {"x": x, "o": o}, {}, {"turn": turn})  # type: ignore[dict-item]  # narrower types
    assert (o == x.T * 2).all()


def test_symbolic_sizes_and_asserts() -> None:
    n = symbol("n")
    f = PrimFunc(
        "f", (buffer("x", 2 * n + 1), buffer("o", 2 * n + 1)), ("o",),
        block(
            Assert(Compare("ge", Var("n"), ix(1)), "n is positive"),
            grid(index.ceildiv(index.of_dim(2 * n + 1), ix(4)), threads(4, Let(
                i, plus(times(b, ix(4)), t),
                If(less(i, index.of_dim(2 * n + 1)), store("o", i, value=load("x", i))),
            ))),
        ),
        (DimVar("n", 0, 100),),
    )  # fmt: skip
    x = RNG.random(11, np.float32)
    o = np.zeros(11, np.float32)
    both.run(f, {"x": x, "o": o}, {"n": 5})
    assert (o == x).all()
    with pytest.raises(LoopFault) as caught:
        both.run(f, {"x": x[:1], "o": o[:1]}, {"n": 0})
    assert (caught.value.kind, caught.value.detail) == ("assert", "n is positive")
    with pytest.raises(ValueError, match="declared f32"):
        both.run(f, {"x": x, "o": o}, {"n": 4})


def test_values_kept_between_uses_are_made_anew_when_a_loop_moves() -> None:
    # Only where there are many lanes are values kept.
    x, y = RNG.random((96, 5), np.float32), RNG.random((5, 96), np.float32)
    row, col = op("floordiv", i, ix(96)), op("floormod", i, ix(96))
    turn = op("floormod", plus(col, k), ix(96))
    value = times(load("x", row, k), load("y", k, turn))
    kernel = grid(36, threads(256, Let(i, plus(times(b, ix(256)), t), Allocate(local("acc"), block(
        store("acc", value=f32(0)),
        serial(k, 5, store("acc", value=plus(load("acc"), value)),
               If(less(turn, 48), store("acc", value=plus(load("acc"), Cast(turn, F32))))),
        store("o", row, col, value=load("acc")),
    )))))  # fmt: skip
    o = np.zeros((96, 96), np.float32)
    run(kernel, {"x": x, "y": y}, {"o": o})
    want: Array = np.zeros((96, 96), np.float32)
    for c in range(5):
        at = (np.arange(96) + c) % 96
        want = want + x[:, c : c + 1] * y[c][at]
        want = np.where(at < 48, want + at.astype(np.float32), want)
    assert (o == want).all()


def test_copies_of_shared_buffers_belong_to_blocks() -> None:
    o = np.zeros((3, 4), np.float32)
    fill = store("s", t, value=Cast(plus(times(b, ix(10)), t), F32))
    out = store("o", b, t, value=load("s", op("sub", ix(3), t)))
    run(grid(3, Allocate(shared("s", 4), threads(4, fill, Barrier(), out))), {}, {"o": o})
    assert (o == np.add.outer([0, 10, 20], [3, 2, 1, 0])).all()
    assert Scope.SHARED.value == "shared"
