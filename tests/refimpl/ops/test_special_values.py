"""NaN, infinities, signed zeros, empty operands and overflow, as each op's ``special`` says."""

import math
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.interp.scalar import binary
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Contract, exact

INF, NAN = math.inf, math.nan
FOLD: dict[str, Attr] = {"axes": (0,), "keepdims": False}


def value(op: str, *args: Array, **attrs: Attr) -> Array:
    types = [TensorType(DType.of(a), a.shape) for a in args]
    return OPS[op].apply(attrs).eval(args, OPS[op].infer(types, attrs))


def f32(*xs: float) -> Array:
    return np.array(xs, np.float32)


@pytest.mark.parametrize(
    ("op", "empty"),
    [("sum", 0), ("prod", 1), ("min", INF), ("max", -INF), ("mean", NAN)],
)
def test_empty_folds(op: str, empty: float) -> None:
    np.testing.assert_array_equal(value(op, f32(), **FOLD), np.float32(empty))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", ["gather", "gather_elements"])
def test_what_an_empty_axis_gives(op: str, dtype: DType) -> None:
    """0 as a cast gives it: f8e8m0 has no zero, and NaN instead."""
    got = value(op, np.zeros(0, dtype.numpy), np.array([0, -1]), axis=0)
    want = value("cast", np.zeros(2, np.float32), dtype=dtype)
    assert got.dtype == dtype.numpy
    assert got.tobytes() == want.tobytes()


def test_empty_folds_of_integers_and_bool() -> None:
    none = np.zeros((0,), np.int8)
    assert value("min", none, **FOLD) == 127
    assert value("max", none, **FOLD) == -128
    assert not value("any", none.astype(np.bool_), **FOLD)
    assert value("all", none.astype(np.bool_), **FOLD)


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "mean"])
def test_nan_is_kept(op: str) -> None:
    for xs in ((1, NAN, 2), (NAN, INF), (-INF, NAN)):
        assert np.isnan(value(op, f32(*xs), **FOLD))


def test_infinities() -> None:
    assert value("sum", f32(1, INF), **FOLD) == INF
    assert np.isnan(value("sum", f32(INF, -INF), **FOLD))
    assert np.isnan(value("prod", f32(INF, 0), **FOLD))
    assert value("prod", f32(-INF, 2), **FOLD) == -INF


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (-0.0, 0.0, -0.0)])
def test_minus_zero_is_below_zero(zeros: tuple[float, ...]) -> None:
    assert not np.signbit(value("max", f32(*zeros), **FOLD))
    assert np.signbit(value("min", f32(*zeros), **FOLD))
    assert np.signbit(value("max", f32(-0.0, -0.0, -1), **FOLD))
    base, at = f32(*zeros[:1]), np.zeros(len(zeros) - 1, np.int64)
    for reduction in ("max", "min"):
        named: dict[str, Attr] = {"axis": 0, "reduction": reduction}
        out = value("scatter", base, at, f32(*zeros[1:]), **named)
        assert np.signbit(out[0]) == (reduction == "min")


def test_positions() -> None:
    named: dict[str, Attr] = {"axis": 0, "keepdims": False}
    assert value("argmax", f32(1, NAN, INF, NAN), **named) == 1
    assert value("argmin", f32(1, NAN, -INF), **named) == 1
    assert value("argmax", f32(-0.0, 0.0), **named) == 0
    assert value("argmin", f32(0.0, -0.0), **named) == 0


def test_integers_wrap() -> None:
    x = np.array([100, 100], np.int8)
    assert value("sum", x, **FOLD) == -56
    assert value("prod", x, **FOLD) == 16
    assert value("matmul", x[None], x[:, None]) == 32
    running: dict[str, Attr] = {"axis": 0, "exclusive": False, "reverse": False}
    assert value("cumulative_sum", x, **running).tolist() == [100, -56]


def test_half_precision_is_summed_in_f32() -> None:
    x = np.array([2048] + [1] * 4, np.float16)
    assert value("sum", x, **FOLD) == 2052  # in f16, 2048 + 1 is 2048
    big = np.array([60000, 60000, -60000], np.float16)
    assert value("sum", big, **FOLD) == 60000
    assert value("mean", np.array([60000, 60000], np.float16), **FOLD) == 60000
    named: dict[str, Attr] = {"dtype": DType.BF16, "shape": (260,), "axis": 0}
    assert value("iota", **named)[257] == 256  # nearest even


WINDOW: dict[str, Attr] = {"strides": (1,), "dilations": (1,)}


def test_padding_of_pools() -> None:
    x = f32(-5, -7)[None, None]
    named: dict[str, Attr] = {**WINDOW, "window": (2,), "low": (2,), "high": (0,)}
    assert value("max_pool", x, **named).tolist() == [[[-INF, -5, -5]]]
    ints = value("max_pool", x.astype(np.int8), **named)
    assert ints.tolist() == [[[-128, -5, -5]]]
    counted = value("avg_pool", x, **named, count_include_pad=True)
    assert counted.tolist() == [[[0, -2.5, -6]]]
    real = value("avg_pool", x, **named, count_include_pad=False)
    np.testing.assert_array_equal(real, f32(NAN, -5, -6)[None, None])


def test_padding_of_convolution_is_zero_times_the_weight() -> None:
    named: dict[str, Attr] = {**WINDOW, "low": (1,), "high": (0,), "groups": 1}
    out = value("conv", f32(1)[None, None], f32(INF)[None, None], **named)
    np.testing.assert_array_equal(out, f32(NAN, INF)[None, None])


def test_a_window_that_does_not_fit_gives_an_empty_axis() -> None:
    named: dict[str, Attr] = {**WINDOW, "window": (3,), "low": (0,), "high": (0,)}
    assert value("max_pool", f32(1, 2)[None, None], **named).shape == (1, 1, 0)


def test_indices_out_of_range() -> None:
    x = np.array([1, 2, 3], np.int32)
    at = np.array([-4, -3, -1, 2, 3, -(2**63), 2**63 - 1], np.int64)
    assert value("gather", x, at, axis=0).tolist() == [1, 1, 3, 3, 3, 1, 3]
    assert value("gather_elements", x, at, axis=0).tolist() == [1, 1, 3, 3, 3, 1, 3]
    put = value("scatter", x, at, np.arange(10, 17, dtype=np.int32), axis=0, reduction="none")
    assert put.tolist() == [11, 2, 13]
    assert value("gather", x[:0], at[:2], axis=0).tolist() == [0, 0]


def test_the_last_of_several_updates_stays() -> None:
    at = np.zeros(1000, np.int64)
    out = value(
        "scatter", f32(0, 5), at, np.arange(1000, dtype=np.float32), axis=0, reduction="none"
    )
    assert out.tolist() == [999, 5]


def test_borders_of_small_tensors() -> None:
    named: dict[str, Attr] = {"low": (3,), "high": (2,), "mode": "reflect"}
    assert value("pad", f32(7), f32(9)[0], **named).tolist() == [7] * 6
    assert value("pad", f32(), f32(9)[0], **named).tolist() == [9] * 5
    assert value("pad", f32(1, 2), f32(9)[0], **named).tolist() == [2, 1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(), (1,), (5, 1)])
def test_a_root_is_no_power(dtype: type[np.floating[Any]], shape: tuple[int, ...]) -> None:
    """C99, F.9.4.4: of 0.5, a zero's power is +0 and an infinity's +infinity."""
    x = np.array([[-0.0, -np.inf, 4.0, -1.0, np.inf]], dtype)
    y = np.full(shape, 0.5, dtype)
    want = np.array([0.0, np.inf, 2.0, np.nan, np.inf], dtype)
    t = DType.of(x)
    with np.errstate(all="ignore"):
        result = TensorType(t, np.broadcast_shapes(x.shape, y.shape))
        whole = OPS["pow"].apply({}).eval([x, y], result)
        lanes = binary("pow", x, y)
        bar = OPS["pow"].apply({}).bar(
            [exact(x, t), exact(y, t)], [TensorType(t, x.shape), TensorType(t, y.shape)],
            result, Contract(),
        )  # fmt: skip
    for got in (whole, lanes, bar.c):
        assert np.array_equal(got, np.broadcast_to(want, got.shape), equal_nan=True)
        assert not np.signbit(np.asarray(got)[..., 0]).any()


@pytest.mark.parametrize("shape", [(1,), (9,)])
def test_powers_of_one_and_to_zero_are_one_also_for_signalling_nan(shape: tuple[int, ...]) -> None:
    signalling = np.full(shape, 0x7F800001, np.uint32).view(np.float32)
    one, zero = np.ones(shape, np.float32), np.zeros(shape, np.float32)
    with np.errstate(all="ignore"):
        for x, y in ((one, signalling), (signalling, zero)):
            assert (binary("pow", x, y) == 1).all()
            assert (value("pow", x, y) == 1).all()
