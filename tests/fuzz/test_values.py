"""Input values: every kind of number comes up, in every dtype."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from didyma.fuzz.values import CORE, Distribution, array, core, corners, distribution_of
from didyma.refimpl.ir.types import ALL, FLOATS, INTS, DType
from didyma.refimpl.ops.spec import Domain


@pytest.mark.parametrize("dtype", ALL)
def test_arrays_have_their_dtype_and_shape(dtype: DType) -> None:
    for seed in range(20):
        a = array(seed, dtype, (3, 4))
        assert a.dtype == dtype.numpy
        assert a.shape == (3, 4)
        assert (array(seed, dtype, (3, 4)) == a).sum() == (a == a).sum()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.filterwarnings("ignore:invalid value")  # some NaN are signalling
def test_float_corners_hold_the_edges(dtype: DType) -> None:
    x = corners(dtype).astype(np.float64)
    assert np.isnan(x).any()
    assert np.isinf(x).sum() >= 2
    assert (np.signbit(x) & (x == 0)).any()
    exact = corners(dtype)
    least = np.nextafter(dtype.numpy.type(0), dtype.numpy.type(1))
    assert (exact == least).any()


@pytest.mark.parametrize("dtype", INTS)
def test_integer_corners_hold_the_ends(dtype: DType) -> None:
    x = corners(dtype)
    info = np.iinfo(dtype.numpy)
    assert {info.min, info.max, 0} <= set(x.tolist())


def test_a_domain_holds_nine_values_in_ten() -> None:
    a = array(3, DType.I64, (1000,), Domain(-4, 3))
    inside = ((a >= -4) & (a <= 3)).mean()
    assert inside > 0.85


def test_a_kind_that_is_asked_for_does_not_depend_on_the_seed() -> None:
    for seed in range(1, 30):
        assert set(array(seed, DType.F32, (99,), kind=Distribution.RAMP)) == {-2, -1, 0, 1, 2}
        assert (array(seed, DType.I64, (99,), kind=Distribution.SMALL) < 5).all()
    assert (array(0, DType.F32, (5,)) == [-2, -1, 0, 1, 2]).all()


def test_neighbouring_seeds_have_unrelated_kinds() -> None:
    for step in (1, 10, 1000, 1000000):
        kinds = Counter(distribution_of(step * i + 1) for i in range(400))
        assert set(kinds) == set(Distribution) - {
            Distribution.MIXED,
            Distribution.SWEEP,
            Distribution.READ,
        }
        assert min(kinds.values()) > 15


@pytest.mark.parametrize("dtype", ALL)
def test_the_core_is_of_corners_and_as_large_as_said(dtype: DType) -> None:
    assert core(dtype).shape == (CORE,)
    assert core(dtype).dtype == dtype.numpy


def test_corners_hold_where_conversions_change_course() -> None:
    f32 = set(corners(DType.F32).tolist())
    near = [np.nextafter(np.float32(2.0**63), np.float32(s * np.inf)) for s in (-1, 1)]
    assert {*map(float, near), 2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**63), 65520.0} <= f32
    assert {2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1} <= set(corners(DType.I64).tolist())
    assert {2**63 + 2**39, 2**63 + 2**39 + 1, 2**64 - 1} <= set(corners(DType.U64).tolist())
