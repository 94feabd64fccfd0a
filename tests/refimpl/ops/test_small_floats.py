"""Casts to the floats of a byte and less: every f16, and what lies next to every tie."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from didyma.refimpl.ir.types import F8, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from tests.refimpl.ops.small_floats import FORMATS, cast, size, sizes

SMALL = (*F8, DType.F4E2M1)


def ties(dtype: DType) -> Array:
    """The f32 at, just below and just above each tie of a dtype, and beyond its ends."""
    every = sizes(dtype)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(every)]
    gap = every[-1] - every[-2]
    middles += [every[0] / 2, every[-1] + gap / 2, every[-1] + gap, every[-1] * 3 / 2]
    with np.errstate(over="ignore"):
        at = np.array([float(m) for m in middles]).astype(np.float32)
    near = [np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))]
    numbers = np.array([float(v) for v in every if v < 2.0**127], np.float32)
    values = np.concatenate([*near, numbers])
    specials = np.array([0.0, np.inf, np.nan, 1e-45, 3e38], np.float32)
    positive = np.unique(np.concatenate([values, specials]))
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("op", ["cast", "saturating_cast"])
@pytest.mark.parametrize("dtype", SMALL)
def test_rounding(dtype: DType, op: str) -> None:
    x = ties(dtype)
    attrs = {"dtype": dtype}
    out = OPS[op].infer([TensorType(DType.F32, x.shape)], attrs)
    got = OPS[op].apply(attrs).eval([x], out).astype(np.float32)
    for v, g in zip(x.tolist(), got.tolist(), strict=True):
        want = cast(v, dtype, op == "saturating_cast")
        same = (math.isnan(want) and math.isnan(g)) or (
            want == g and math.copysign(1, want) == math.copysign(1, g)
        )
        assert same, (v, g, want)


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_code_is_its_number(dtype: DType) -> None:
    f = FORMATS[dtype]
    codes = np.arange(f.top + 1, dtype=np.uint8)
    got = codes.view(dtype.numpy).astype(np.float32).tolist()
    assert got == [float(size(int(c), f)) for c in codes]


@pytest.mark.parametrize("dtype", SMALL)
def test_a_number_is_kept(dtype: DType) -> None:
    count = 1 << dtype.bits
    x = np.arange(count, dtype=np.uint8).view(dtype.numpy)
    wide = x.astype(np.float32)
    attrs = {"dtype": dtype}
    out = TensorType(dtype, (count,))
    back = OPS["cast"].apply(attrs).eval([wide], out).astype(np.float32)
    assert np.array_equal(back, wide, equal_nan=True)
    assert np.array_equal(np.signbit(back), np.signbit(wide) & ~np.isnan(wide) | np.signbit(back))
