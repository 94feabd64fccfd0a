"""Results that are inputs, or views of these and of other results: without kernels and copies."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime import modules
from didyma.oracle import plan_check
from didyma.refimpl.interp import program as interpreter
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse
from didyma.refimpl.ir.types import DType
from didyma.tracer.types import Element
from tests.codegen.runtime.test_walk import loaded

Moves = Callable[[Any, Any], Any]  # of the library and an array

CHAINS: dict[str, Moves] = {
    "the input": lambda _, x: x,
    "transposed": lambda m, x: m.permute_dims(x, (2, 0, 1)),
    "a part": lambda _, x: x[1:3, :, 2:5],
    "every second, from the end": lambda _, x: x[::2, ::-1, 4:1:-1],
    "one row": lambda _, x: x[2],
    "repeated": lambda m, x: m.broadcast_to(x[:, None, :1], (4, 3, 3, 6)),
    "an axis added, one left out": lambda m, x: m.permute_dims(x, (1, 0, 2))[:, None, 1],
    "axes joined": lambda m, x: m.reshape(x, (4, 18)),
    "a part, transposed, of a part": lambda m, x: m.permute_dims(x[1:], (1, 2, 0))[:2, ::3],
    "axes split, transposed": lambda m, x: m.permute_dims(m.reshape(x, (2, 2, 3, 6)), (3, 1, 0, 2)),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_chain_of_moves_is_a_view_of_its_input(chain: Moves) -> None:
    x = np.arange(72, dtype=np.float32).reshape(4, 3, 6)
    program = dd.trace(dd.f32[4, 3, 6])(_of(chain))
    run = dd.compile(program)
    got, want = run(x), chain(np, x)
    assert run.compiled.program.kernels == ()
    assert np.shares_memory(got, x)
    assert np.array_equal(got, want)
    assert [a.of for a in run.aliases] == ["x"]
    alone = loaded(run.compiled.program)([x])[0]
    assert np.shares_memory(alone, x)
    assert np.array_equal(alone, want)
    assert dd.check(program).agree


def test_random_chains_are_what_numpy_makes_of_them() -> None:
    views = 0
    for seed in range(40):
        r = random.Random(seed)
        moves = [_move(r) for _ in range(r.randint(1, 4))]

        def chain(m: Any, x: Any, moves: list[Moves] = moves) -> Any:
            for move in moves:
                x = move(m, x)
            return x

        x = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
        run = dd.compile(dd.trace(dd.i32[2, 3, 4, 5])(_of(chain)))
        assert np.array_equal(run(x), chain(np, x)), seed
        views += not run.compiled.program.kernels
    assert views > 20


def _of(chain: Moves) -> Callable[[dd.Tensor], Any]:
    def f(x: dd.Tensor) -> Any:
        return chain(dd, x)

    return f


def _move(r: random.Random) -> Moves:
    kind, axes, k = r.randrange(4), list(range(4)), r.randrange(4)
    r.shuffle(axes)
    match kind:
        case 0:
            return lambda m, x: m.permute_dims(x, tuple(axes))
        case 1:
            start, step = r.randrange(2), r.choice((1, 2, -1))
            cut = slice(start, None, step) if step > 0 else slice(None, None, step)
            return lambda _, x: x[(*(slice(None),) * k, cut)]
        case 2:
            return lambda m, x: m.flip(x, axis=k)
        case _:
            return lambda m, x: m.reshape(x, (x.shape[1], x.shape[0], *x.shape[2:]))


@pytest.mark.parametrize("n", [1, 3, 8])
def test_views_of_symbolic_sizes(n: int) -> None:
    m = dd.dim("n", 1, 8)

    @dd.trace(dd.f32[m, 4])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return dd.permute_dims(x, (1, 0)), x[::-1, 1:], dd.reshape(x, (-1,))

    run = dd.compile(f)
    x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
    got = run(x)
    assert not run.compiled.program.kernels
    for a, b in zip(got, (x.T, x[::-1, 1:], x.reshape(-1)), strict=True):
        assert np.array_equal(a, b)
        assert np.shares_memory(a, x)
    assert dd.check(f).agree


@pytest.mark.parametrize("dtype", DType)
def test_views_of_every_dtype(dtype: DType) -> None:
    """Elements that share bytes with others are copied."""
    x = np.arange(12).reshape(3, 4).astype(dtype.numpy)

    def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.permute_dims(x, (1, 0)), x

    kind = getattr(dd, dtype)
    assert isinstance(kind, Element)
    run = dd.compile(dd.trace(kind[3, 4])(f))
    turned, same = run(x)
    assert same is x
    assert turned.dtype == x.dtype
    assert np.array_equal(turned.astype(np.float64), x.T.astype(np.float64), equal_nan=True)
    assert np.shares_memory(turned, x) is not dtype.is_packed
    alone = loaded(run.compiled.program)([x])
    assert np.array_equal(alone[0].astype(np.float64), x.T.astype(np.float64), equal_nan=True)


def test_results_that_show_one_another() -> None:
    @dd.trace(dd.f32[4, 8])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        y = dd.exp(x)
        return y, dd.permute_dims(y, (1, 0)), y[1:3], y

    run = dd.compile(f)
    y, turned, part, again = run(np.zeros((4, 8), np.float32))
    assert [k.name for k in run.compiled.program.kernels] == ["fused_exp_0"]
    assert again is y
    y[1, 2] = 7
    assert (turned[2, 1], part[0, 2]) == (7, 7)
    assert [str(a) for a in run.aliases] == [
        "permute_dims is a view of exp, with strides (1, 8)",
        "slice is a view of exp, with strides (8, 1) from element 8",
        "exp is exp itself",
    ]
    assert all(str(a) in run.wrapper for a in run.aliases)


def test_a_part_of_what_is_not_returned_is_copied() -> None:
    """A view would keep all of it alive."""

    @dd.trace(dd.f32[64, 64])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        y = dd.noinline(dd.exp)(x)
        return y[:2], dd.sum(y)

    run = dd.compile(f)
    assert run.aliases == ()
    assert dd.check(f).agree


def test_constants_are_never_lent() -> None:
    w = np.arange(6, dtype=np.float32).reshape(2, 3)

    @dd.trace(dd.f32[1])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.permute_dims(dd.asarray(w), (1, 0)), x

    run = dd.compile(f)
    first: Any = run(np.zeros(1, np.float32))
    first[0][:] = -1
    assert np.array_equal(run(np.zeros(1, np.float32))[0], w.T)


def test_an_input_of_other_strides_comes_back_as_it_is_and_is_copied_for_views() -> None:
    @dd.trace(dd.f32[3, 4])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return x, x[1:]

    run = dd.compile(f)
    x = np.arange(12, dtype=np.float32).reshape(4, 3).T
    same, part = run(x)
    assert same is x
    assert np.array_equal(part, x[1:])
    assert not np.shares_memory(part, x)


def test_repeated_elements_are_read_only() -> None:
    @dd.trace(dd.f32[3])
    def f(x: dd.Tensor) -> dd.Tensor:
        return dd.broadcast_to(x, (2, 3))

    run = dd.compile(f)
    rows: Any = run(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1


def test_without_the_option_results_are_their_own() -> None:
    @dd.trace(dd.f32[4, 3, 6])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return x, x[1:], x

    run = dd.compile(f, options=Options().changed({"memory.views": False}))
    x = np.ones((4, 3, 6), np.float32)
    got = run(x)
    assert run.aliases == ()
    assert not any(np.shares_memory(a, b) for a, b in ((got[0], x), (got[1], x), (got[0], got[2])))


def test_an_input_that_is_only_returned_is_not_uploaded() -> None:
    @dd.trace(dd.f32[4], dd.f32[4])
    def f(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return x, dd.exp(y)

    run = dd.compile(f)
    assert run.wrapper.count("engine.upload(arrays") == 1
    assert modules.load(run.wrapper) is not None


GONE = """program @main {
  inputs (%x)
  types {
    %x: f32[4, 2]
    %y: f32[4, 2]
    %z: f32[2, 4]
  }
  lines {
    allocate %y
    copy %y from %x
    strided %z of %y by (1, 2)
    FREE
    return (%z)
  }
}
"""


def test_memory_that_a_result_shows_must_stay() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    right = _program(GONE.replace("FREE", ""))
    assert np.array_equal(interpreter.run(right, [x])[0], x.T)
    assert plan_check.check(right, {}) == []
    wrong = _program(GONE.replace("FREE", "free %y"))
    assert plan_check.check(wrong, {})
    with pytest.raises(ProgramFault):
        interpreter.run(wrong, [x])


def test_strides_that_leave_their_value_are_found() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for line in ("by (1, 2) at 1", "by (1, 3)", "by (-1, 2)"):
        wrong = _program(GONE.replace("FREE", "").replace("by (1, 2)", line))
        assert any(e.kind == "out-of-bounds" for e in plan_check.check(wrong, {})), line
        with pytest.raises((ProgramFault, ValueError)):
            interpreter.run(wrong, [x])


def _program(text: str) -> Program:
    found = parse(text)
    assert isinstance(found, Program)
    return found
