"""Every fault of loop programs provoked, beside the correct program it is a step away from."""

from __future__ import annotations

import re

import numpy as np
import pytest

from didyma.oracle import lanes
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Barrier,
    Compare,
    Expr,
    For,
    Free,
    If,
    Let,
    LoopKind,
    PlacementAllocate,
    Stmt,
    Var,
)
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array, DType
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


def fault(body: Stmt, inputs: dict[str, Array], outputs: dict[str, Array]) -> LoopFault:
    with pytest.raises(LoopFault) as caught:
        run(body, inputs, outputs)
    return caught.value


def x(n: int) -> dict[str, Array]:
    return {"x": np.arange(n, dtype=np.float32)}


def out(*shape: int) -> dict[str, Array]:
    return {"o": np.zeros(shape, np.float32)}


def is_zero(v: Expr) -> Expr:
    return Compare("eq", v, ix(0))


# --- bounds


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.SERIAL])
def test_loads_out_of_bounds(shift: int, kind: LoopKind) -> None:
    body = For(i, ix(4), store("o", i, value=load("x", plus(i, ix(shift)))), kind)
    f = fault(body, x(4), out(4))
    assert f.kind == "out-of-bounds"
    assert re.search(r"x, axis 0: index (-1|4) outside \[0, 4\)", f.detail)
    assert "o[" in f.where


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.SERIAL])
def test_stores_out_of_bounds(shift: int, kind: LoopKind) -> None:
    body = For(i, ix(4), store("o", plus(i, ix(shift)), value=load("x", i)), kind)
    assert fault(body, x(4), out(4)).kind == "out-of-bounds"


def test_an_index_outside_its_axis_but_inside_the_buffer_is_out_of_bounds() -> None:
    body = parallel(i, 2, parallel(j, 4, store("o", i, j, value=f32(1))))
    assert "axis 1: index 3" in fault(body, {}, out(3, 3)).detail


def test_loaded_indices_are_checked_in_active_lanes_only() -> None:
    index = {"n": np.array([0, 3, -1, 4], np.int64)}
    at = load("n", i, dtype=DType.I64)
    write = store("o", i, value=load("x", at))
    assert fault(parallel(i, 4, write), {**x(4), **index}, out(4)).kind == "out-of-bounds"
    good = op("and", Compare("ge", at, ix(0)), Compare("lt", at, ix(4)))
    o = out(4)
    run(parallel(i, 4, If(good, write)), {**x(4), **index}, o)
    assert o["o"].tolist() == [0, 3, 0, 0]


def test_a_missing_guard_at_the_tail() -> None:
    flat = plus(times(b, ix(4)), t)
    write = store("o", i, value=load("x", i))
    guarded = grid(2, threads(4, Let(i, flat, If(Compare("lt", i, ix(7)), write))))
    run(guarded, x(7), out(7))
    assert fault(grid(2, threads(4, Let(i, flat, write))), x(7), out(7)).kind == "out-of-bounds"
    off_by_one = grid(2, threads(4, Let(i, flat, If(Compare("le", i, ix(7)), write))))
    assert fault(off_by_one, x(7), out(7)).kind == "out-of-bounds"


def test_local_and_shared_buffers_have_bounds() -> None:
    body: Stmt = Allocate(local("r", 3), serial(i, 4, store("r", i, value=f32(0))))
    assert fault(body, {}, out(1)).kind == "out-of-bounds"
    body = grid(2, Allocate(shared("s", 3), threads(4, store("s", t, value=f32(0)))))
    assert fault(body, {}, out(1)).kind == "out-of-bounds"


# --- initialisation


def test_an_accumulator_that_is_not_started() -> None:
    add = store("acc", value=plus(load("acc"), load("x", k)))
    body = parallel(i, 2, Allocate(local("acc"), block(serial(k, 3, add))))
    f = fault(body, x(3), out(1))
    assert (f.kind, "acc" in f.detail) == ("uninitialised", True)


def test_registers_started_in_some_lanes_only() -> None:
    half = If(Compare("lt", i, ix(2)), store("acc", value=f32(1)))
    use = store("o", i, value=load("acc"))
    body = parallel(i, 4, Allocate(local("acc"), block(half, use)))
    assert fault(body, {}, out(4)).kind == "uninitialised"
    again = If(Compare("lt", i, ix(2)), use)
    o = out(4)
    run(parallel(i, 4, Allocate(local("acc"), block(half, again))), {}, o)
    assert o["o"].tolist() == [1, 1, 0, 0]


def test_registers_are_fresh_in_every_iteration() -> None:
    once = If(is_zero(k), store("acc", value=f32(1)))
    body = serial(k, 2, Allocate(local("acc"), block(once, store("o", k, value=load("acc")))))
    assert fault(body, {}, out(2)).kind == "uninitialised"


def test_shared_elements_that_nobody_stored() -> None:
    fill = If(Compare("lt", t, ix(3)), store("s", t, value=f32(1)))
    use = store("o", b, t, value=load("s", t))
    body = grid(2, Allocate(shared("s", 4), threads(4, fill, Barrier(), use)))
    f = fault(body, {}, out(2, 4))
    assert (f.kind, "element 3" in f.detail) == ("uninitialised", True)


def test_freed_and_replaced_buffers() -> None:
    use = store("o", 0, value=load("a", 0))
    start = store("a", 0, value=f32(1))
    run(Allocate(buffer("a", 1), block(start, use, Free("a"))), {}, out(1))
    for bad in (block(start, Free("a"), use), block(start, Free("a"), start)):
        assert fault(Allocate(buffer("a", 1), bad), {}, out(1)).kind == "uninitialised"
    placed = PlacementAllocate(buffer("c", 1), "a", use)
    assert fault(Allocate(buffer("a", 1), block(start, placed)), {}, out(1)).kind == "uninitialised"
    wide = PlacementAllocate(buffer("c", 2), "a", block())
    assert fault(Allocate(buffer("a", 1), block(start, wide)), {}, out(1)).kind == "out-of-bounds"


# --- races


def test_two_iterations_that_store_one_element() -> None:
    for body in (
        parallel(i, 4, store("o", 0, value=load("x", i))),
        parallel(i, 4, store("o", op("floordiv", i, ix(2)), value=load("x", i))),
        parallel(i, 4, parallel(j, 2, store("o", i, value=load("x", j)))),
        serial(k, 2, parallel(i, 4, store("o", op("floormod", i, ix(3)), value=load("x", i)))),
        parallel(i, 4, serial(k, 2, store("o", plus(i, k), value=load("x", i)))),
    ):
        f = fault(body, x(5), out(5))
        assert (f.kind, f.detail.startswith("o, element")) == ("race", True)


def test_one_iteration_may_store_an_element_twice() -> None:
    body = parallel(i, 4, serial(k, 2, store("o", i, value=load("x", plus(i, k)))))
    o = out(4)
    run(body, x(5), o)
    assert o["o"].tolist() == [1, 2, 3, 4]


def test_an_iteration_that_reads_what_another_stores() -> None:
    body = parallel(i, 4, block(
        store("o", i, value=f32(1)), store("p", i, value=load("o", op("sub", ix(3), i))),
    ))  # fmt: skip
    p = {**out(4), "p": np.zeros(4, np.float32)}
    assert fault(body, {}, p).kind == "race"
    split = block(
        parallel(i, 4, store("o", i, value=f32(1))),
        parallel(i, 4, store("p", i, value=load("o", op("sub", ix(3), i)))),
    )
    run(split, {}, p)
    assert p["p"].tolist() == [1] * 4


def test_reading_one_s_own_element_is_no_race() -> None:
    o = out(4)
    body = parallel(i, 4, block(
        store("o", i, value=f32(1)),
        serial(k, 3, store("o", i, value=plus(load("o", i), load("x", k)))),
    ))  # fmt: skip
    run(body, x(3), o)
    assert o["o"].tolist() == [4] * 4


def test_inner_loops_order_what_their_outer_iteration_does() -> None:
    o = out(2, 3)
    body = parallel(i, 2, block(
        parallel(j, 3, store("o", i, j, value=f32(1))),
        parallel(k, 3, store("o", i, k, value=plus(load("o", i, op("sub", ix(2), k)), f32(1)))),
    ))  # fmt: skip
    assert fault(body, {}, o).kind == "race"  # within the second loop
    body = parallel(i, 2, block(
        parallel(j, 3, store("o", i, j, value=f32(1))),
        serial(k, 3, store("o", i, k, value=plus(load("o", i, op("sub", ix(2), k)), f32(1)))),
    ))  # fmt: skip
    run(body, {}, out(2, 3))
    across = parallel(i, 2, block(
        parallel(j, 3, store("o", i, j, value=f32(1))),
        parallel(k, 3, store("p", i, k, value=load("o", op("sub", ix(1), i), k))),
    ))  # fmt: skip
    p = {**out(2, 3), "p": np.zeros((2, 3), np.float32)}
    assert fault(across, {}, p).kind == "race"


def test_vector_lanes_of_one_thread_share_its_registers() -> None:
    good = vector(j, 2, store("r", j, value=load("x", j)))
    clash = vector(j, 2, store("r", 0, value=load("x", j)))
    use = store("o", i, value=load("r", 0))
    run(parallel(i, 3, Allocate(local("r", 2), block(good, use))), x(2), out(3))
    body = parallel(i, 3, Allocate(local("r", 2), block(clash, use)))
    assert fault(body, x(2), out(3)).kind == "race"


def tree(barrier: bool, blocks: int = 3) -> Stmt:
    """Sums rows of eight in shared memory."""
    steps: list[Stmt] = []
    for width in (4, 2, 1):
        fold = store("s", t, value=plus(load("s", t), load("s", plus(t, ix(width)))))
        steps += [Barrier()] * (barrier or width != 2) + [If(Compare("lt", t, ix(width)), fold)]
    start = store("s", t, value=load("x", b, t))
    finish = If(is_zero(t), store("o", b, value=load("s", 0)))
    return grid(blocks, Allocate(shared("s", 8), threads(8, start, *steps, finish)))


def test_a_missing_barrier_in_a_shared_reduction() -> None:
    rows = {"x": np.ones((3, 8), np.float32)}
    o = out(3)
    run(tree(barrier=True), rows, o)
    assert o["o"].tolist() == [8] * 3
    f = fault(tree(barrier=False), rows, out(3))
    assert (f.kind, f.detail.startswith("s, element")) == ("race", True)


def test_a_missing_barrier_after_the_reads_of_a_tile() -> None:
    def loop_over_tiles(*last: Stmt) -> Stmt:
        v = Var("v", F32)
        other = load("s", op("sub", ix(3), t))
        fill = store("s", t, value=load("x", plus(times(k, ix(4)), t)))
        body = Allocate(local("acc"), block(
            store("acc", value=f32(0)),
            serial(k, 2, fill, Barrier(), Let(v, other, block(
                store("acc", value=plus(load("acc"), v)))), *last),
            store("o", t, value=load("acc")),
        ))  # fmt: skip
        return grid(1, Allocate(shared("s", 4), threads(4, body)))

    o = out(4)
    run(loop_over_tiles(Barrier()), x(8), o)
    assert o["o"].tolist() == [10, 8, 6, 4]
    assert fault(loop_over_tiles(), x(8), out(4)).kind == "race"


def test_a_barrier_does_not_order_blocks() -> None:
    def kernel(at: Expr) -> Stmt:
        read = store("p", b, t, value=load("o", at, op("sub", ix(1), t)))
        return grid(2, threads(2, store("o", b, t, value=f32(1)), Barrier(), read))

    p = {**out(2, 2), "p": np.zeros((2, 2), np.float32)}
    run(kernel(b), {}, p)
    f = fault(kernel(op("sub", ix(1), b)), {}, p)
    assert (f.kind, "o, element" in f.detail) == ("race", True)


def test_blocks_that_store_one_element() -> None:
    body = grid(2, threads(2, store("o", t, value=f32(1))))
    assert fault(body, {}, out(2)).kind == "race"
    run(grid(2, threads(2, If(is_zero(b), store("o", t, value=f32(1))))), {}, out(2))


def test_a_placed_buffer_races_with_the_one_before_it() -> None:
    def kernel(*between: Stmt) -> Stmt:
        use = store("o", t, value=load("s", op("sub", ix(3), t)))
        fill = store("u", op("sub", ix(7), t), value=Compare("lt", t, ix(2)))
        over = PlacementAllocate(shared("u", 16, dtype=BOOL), "s", fill)
        first = (store("s", t, value=load("x", t)), Barrier(), use)
        return grid(1, threads(4, Allocate(shared("s", 4), block(*first, *between, over))))

    run(kernel(Barrier()), x(4), out(4))
    assert fault(kernel(), x(4), out(4)).kind == "race"


def test_atomics_race_with_plain_accesses_only() -> None:
    add = Atomic("add", "o", (ix(0),), f32(1))
    o = out(2)
    run(grid(2, threads(4, add)), {}, o)
    assert o["o"][0] == 8
    for other in (store("o", 0, value=f32(0)), store("o", 1, value=load("o", 0))):
        single = If(op("and", is_zero(t), is_zero(b)), other)
        assert fault(grid(2, threads(4, block(add, single))), {}, out(2)).kind == "race"
        run(grid(1, threads(1, block(add, single))), {}, out(2))


# --- barriers


def test_a_barrier_that_some_threads_miss() -> None:
    body = grid(2, threads(4, If(Compare("lt", t, ix(2)), Barrier())))
    f = fault(body, {}, out(1))
    assert (f.kind, f.where) == ("barrier-divergence", "barrier")
    ragged = grid(2, threads(4, serial(k, plus(t, ix(1)), Barrier())))
    assert fault(ragged, {}, out(1)).kind == "barrier-divergence"


def test_a_barrier_that_whole_blocks_miss() -> None:
    def kernel(cond: Expr) -> Stmt:
        swap = store("o", b, t, value=load("s", op("sub", ix(1), t)))
        rest = block(store("s", t, value=f32(2)), If(cond, Barrier()), swap)
        return grid(3, Allocate(shared("s", 2), threads(2, rest)))

    o = out(3, 2)
    run(kernel(Compare("lt", b, ix(3))), {}, o)
    assert (o["o"] == 2).all()
    f = fault(kernel(Compare("lt", b, ix(2))), {}, out(3, 2))  # block 2 goes on unordered
    assert (f.kind, f.detail.startswith("s,")) == ("race", True)


def test_a_barrier_of_some_blocks_orders_no_others() -> None:
    some = If(Compare("lt", b, ix(1)), Barrier())
    write = store("o", b, t, value=f32(1))
    read = store("p", b, t, value=load("o", op("sub", ix(1), b), t))
    p = {**out(2, 2), "p": np.zeros((2, 2), np.float32)}
    assert fault(grid(2, threads(2, some, write, read)), {}, p).kind == "race"
    own = store("p", b, t, value=load("o", b, t))
    run(grid(2, threads(2, some, write, own)), {}, p)
    assert (p["p"] == 1).all()


@pytest.mark.parametrize("blocks", [3, 4])
def test_a_barrier_of_some_blocks_orders_bytes_of_placed_buffers(blocks: int) -> None:
    """There are as many threads as blocks, and more: clocks are of blocks, not of threads."""

    def kernel(limit: int) -> Stmt:
        use = store("o", b, t, value=load("s", op("sub", ix(3), t)))
        fill = store("u", op("sub", ix(7), t), value=Compare("lt", t, ix(2)))
        over = PlacementAllocate(shared("u", 16, dtype=BOOL), "s", fill)
        first = (store("s", t, value=load("x", t)), Barrier(), use)
        some = If(Compare("lt", b, ix(limit)), Barrier())
        return grid(blocks, threads(4, Allocate(shared("s", 4), block(*first, some, over))))

    run(kernel(blocks), x(4), out(blocks, 4))
    f = fault(kernel(blocks - 1), x(4), out(blocks, 4))
    assert (f.kind, f.detail.startswith("u,")) == ("race", True)


def test_values_of_a_fault() -> None:
    f = LoopFault("race", "o[0] = x", "o, element 0")
    assert str(f) == "race at `o[0] = x`: o, element 0"
    assert f.args == ("race", "o[0] = x", "o, element 0")


def test_nests_may_have_other_blocks_than_those_before_them() -> None:
    """Blocks of the first nest meet at barriers as often as their number; the second has three."""
    (f,) = parse_loop("""
primfunc @f(a: f32[5], b: f32[4, 5], c: f32[3]) writes (b, c) {
  for x in 4 bound blockIdx.x {
    alloc tile: f32[5] shared
    for t in 5 bound threadIdx.x {
      b[x, t] = 0.0:f32
      for k in x {
        tile[t] = a[t]
        barrier
        b[x, t] = b[x, t] + tile[4 - t]
        barrier
      }
    }
  }
  for i in 3 parallel {
    c[i] = a[i]
    c[i] = c[i] + b[i, 0]
  }
}
""")
    a = np.arange(5, dtype=np.float32)
    held = {"a": a, "b": np.zeros((4, 5), np.float32), "c": np.zeros(3, np.float32)}
    lanes.run(f, held, {}, {})
    assert held["c"].tolist() == [0.0, 1.0 + 4.0, 2.0 + 8.0]
