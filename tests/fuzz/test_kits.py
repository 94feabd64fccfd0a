"""Values for operations: they lie in their dtypes, and meet the courses that conversions take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from didyma.fuzz import kits
from didyma.fuzz.emission.judge import corners
from didyma.fuzz.graphs import readers_of
from didyma.fuzz.values import FOCUSED, Readers, focused, mixed_in
from didyma.refimpl.ir.text import parse_loop, parse_module
from didyma.refimpl.ir.types import ALL, INTS, DType


@pytest.mark.parametrize("target", ALL, ids=str)
def test_conversions_have_values_of_their_source(target: DType) -> None:
    for source in ALL:
        kit = kits.converted(source, target)
        assert kit or not source.is_float or source is target, source
        if source.is_int:
            least, most = source.limits
            assert all(least <= v <= most for v in kit)
        if source.is_float and target.is_int and target is not DType.BOOL:
            assert float(target.limits[1]) in kit
            assert any(math.isnan(v) for v in kit)
            assert -math.inf in kit


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts_reach_the_width(dtype: DType) -> None:
    kit = kits.combined("shl", 1, dtype)
    assert {dtype.bits - 1, dtype.bits, dtype.bits + 1} <= set(kit)
    assert set(kits.combined("truncdiv", 0, dtype)) >= set(dtype.limits)


def test_readers_ask_for_what_each_operand_decides() -> None:
    text = """module {
      func @main(%x: i32[4], %k: i32[4], %f: f32[4]) -> (%a, %b) {
        %a = bitwise_left_shift(%x, %k) : i32[4]
        %b = cast(%f, dtype=u8) : u8[4]
      }
    }"""
    found = readers_of(parse_module(text).entry)
    assert 32 in found["k"].corners
    assert 32 not in found["x"].corners
    assert 256.0 in found["f"].corners
    drawn = [focused(FOCUSED + n, DType.F32, (64,), found["f"]) for n in range(30)]
    assert sum((x == 256).any() for x in drawn) > 5


def test_integers_beyond_the_digits_of_a_float_are_kept() -> None:
    kit = Readers((2**63 - 1, -(2**63), 2**24 + 1))
    drawn = np.concatenate([focused(FOCUSED + n, DType.I64, (64,), kit) for n in range(30)])
    assert {2**63 - 1, -(2**63), 2**24 + 1} <= set(drawn.tolist())
    mixed = mixed_in(np.zeros(40, np.uint8), DType.U8, (300, 255, -1), 0.5, 3)
    assert set(mixed.tolist()) == {0, 255, 1}


def test_kernels_are_given_values_for_their_operators() -> None:
    text = """kernel @k(x: f32[48], z: u8[48]) writes (z) {
      for t in 48 bound threadIdx.x {
        z[t] = u8(x[t])
      }
    }"""
    (f,) = parse_loop(text)
    found = corners(f)
    assert set(found) == {"x"}
    assert 256.0 in found["x"]
