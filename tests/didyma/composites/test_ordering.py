"""Sorting against NumPy's stable sort of keys that put NaNs where they belong."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.composites import ordering
from didyma.composites.builder import Builder
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.bars import exact
from didyma.refimpl.verify.graph import verify

DTYPES = (DType.F32, DType.F16, DType.BF16, DType.I8, DType.U64, DType.BOOL)


def draw(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Few distinct values, so that many are equal; NaNs and zeros of both signs among floats."""
    random = np.random.default_rng(list(shape))
    x = random.integers(-3, 4, shape)
    if dtype is DType.BOOL:
        return x > 0
    if not dtype.is_float:
        return np.abs(x).astype(dtype.numpy)
    odd = random.choice([np.nan, -0.0, np.inf, -np.inf, 1.0], shape)
    return np.where(random.random(shape) < 0.3, odd, x).astype(dtype.numpy)


def stable(x: Array, axis: int, descending: bool) -> Array:
    """Python's sort of each line by whether it is NaN, then by value."""

    def line(v: Array) -> Array:
        sign = -1 if descending else 1
        keys = [(sign * bool(e != e), sign * float(e) if e == e else 0.0) for e in v]
        return np.array(sorted(range(len(v)), key=lambda i: keys[i]), np.int64)

    return np.apply_along_axis(line, axis, x) if x.size else np.zeros(x.shape, np.int64)


def run(x: Array, axis: int, descending: bool, most: int = 0) -> Array:
    """Places by the graph interpreter; of symbolic sizes if they have a greatest."""
    b = Builder()
    shape = tuple(symbol(f"n{i}") if most else d for i, d in enumerate(x.shape))
    b.know([DimVar(f"n{i}", 0, most) for i in range(x.ndim) if most])
    p = b.param("x", TensorType(DType.of(x), shape))
    m = b.module("main", [ordering.argsort(b, p, axis, descending)])
    verify(m)
    (got,) = graph.run(m, [x])
    return got


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", [DType.F32, DType.F16, DType.BF16, DType.I8, DType.U64, DType.BOOL]
)
def test_few_are_compared_in_pairs(dtype: DType, descending: bool) -> None:
    x = draw(dtype, (4, 7, 3))
    for axis in (0, 1, -1):
        assert np.array_equal(run(x, axis, descending), stable(x, axis, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 37, 64, 65])
def test_many_are_merged(n: int, descending: bool) -> None:
    x = draw(DType.F32, (3, n))
    assert np.array_equal(run(x, 1, descending, most=5000), stable(x, 1, descending))


@pytest.mark.parametrize("most", [0, 9, 5000])
def test_nothing_is_sorted_to_nothing(most: int) -> None:
    assert run(np.zeros((2, 0), np.float32), 1, False, most).shape == (2, 0)


@pytest.mark.parametrize("engine", ["simt", "host"])
def test_merging_on_engines(engine: str) -> None:
    n = dd.dim("n", 5, 2 * ordering.FEW)
    x = draw(DType.F32, (2, 21))

    @dd.trace(dd.f32[2, n])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return (dd.argsort(x, descending=True), *dd.top_k(x, 5, largest=False))

    order, best, places = dd.compile(f, engine=engine)(x)
    assert np.array_equal(order, stable(x, 1, True))
    assert np.array_equal(places, stable(x, 1, False)[:, :5])
    assert np.array_equal(best, np.take_along_axis(x, places, 1))


def test_sorted_within_a_loop() -> None:
    @dd.trace(dd.i32[2, 5])
    def f(x: dd.Tensor) -> dd.Tensor:
        def step(row: dd.Tensor) -> tuple[dd.Tensor]:
            return (dd.sort(row),)

        return dd.scan(step, (), x)[0]

    x = np.array([[3, 1, 2, 9, 0], [5, 5, 4, 7, -1]], np.int32)
    assert np.array_equal(dd.compile(f)(x), np.sort(x, axis=1))


def test_the_order_of_computed_numbers_is_decided_where_their_bars_are_apart() -> None:
    @dd.trace(dd.f32[2, 4])
    def largest(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.top_k(dd.exp(x), 2)

    x = np.array([[0.5, 2.0, 1.0, -1.0], [0.5, 1.0, np.nextafter(1, 2), 3.0]], np.float32)
    bars = graph.bars(largest.module.entry, largest.module, [exact(x, DType.F32)], {}, stored=True)
    values, places = bars
    assert [np.isinf(b.e).tolist() for b in bars] == 2 * [[[False, False], [True, True]]]
    assert places.c[0].tolist() == [1, 2]
    assert (np.abs(values.c[0] - np.exp(x[0, [1, 2]].astype(np.float64))) < 1e-6).all()


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(DidymaError, match="bad-axis"):

        @dd.trace(dd.f32[3])
        def f(x: dd.Tensor) -> dd.Tensor:
            return dd.sort(x, axis=1)
