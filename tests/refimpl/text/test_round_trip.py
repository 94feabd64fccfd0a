"""What is shown reads back: as the same value, bit for bit, whatever the value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.loop import Assert, Const, PrimFunc
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import DType, Tensor
from tests.refimpl.text.anything import Anything

# repr tells NaN from numbers, -0.0 from 0.0 and 1 from 1.0 and True, where == does not; the sign
# of a NaN is in the text alone.


@pytest.mark.parametrize("seed", range(0, 100, 25))
def test_modules(seed: int) -> None:
    for s in range(seed, seed + 25):
        m = Anything(s).module()
        text = show(m)
        assert repr(parse(text)) == repr(m), text
        assert show(parse(text)) == text


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_loops(seed: int) -> None:
    for s in range(seed, seed + 50):
        draw = Anything(s)
        fs = (draw.primfunc(), *draw.some(draw.primfunc, 2))
        text = show(fs)
        assert repr(parse(text)) == repr(fs), text
        assert show(parse(text)) == text


@pytest.mark.parametrize("seed", range(0, 100, 25))
def test_programs(seed: int) -> None:
    for s in range(seed, seed + 25):
        p = Anything(s).program()
        text = show(p)
        assert repr(parse(text)) == repr(p), text
        assert show(parse(text)) == text


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, -math.nan, math.inf, 0.1, 2.0**-149])
def test_literals_come_back_equal(value: float) -> None:
    f = PrimFunc("f", (), (), Assert(Const(value, DType.F32), ""))
    assert parse(show(f)) == (f,)


def test_literals_are_equal_as_numbers() -> None:
    """No pass that compares expressions may merge 0.0 with -0.0."""
    nan, other = Const(math.nan, DType.F32), Const(float("nan"), DType.F32)
    assert nan == other
    assert hash(nan) == hash(other)
    assert nan != Const(-math.nan, DType.F32)
    assert nan != Const(1.0, DType.F32)
    assert Const(0.0, DType.F32) != Const(-0.0, DType.F32)
    assert Const(0.0, DType.F32) != Const(0.0, DType.F64)
    assert Const(1.5, DType.F32) == Const(1.5, DType.F32)


def test_large_constants_of_equal_elements_are_readable() -> None:
    t = Tensor.of(np.full((64, 64), -0.5, np.float16))
    n = Node(("c",), "constant", (), (t.type,), (("value", t),))
    m = Module((Function("f", (), (n,), ("c",)),))
    assert "f16[64, 64] filled -0.5)" in show(m)
    assert parse(show(m)) == m
