"""Input values: every kind of number comes up, in every dtype."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.fuzz.values import array, corners
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
