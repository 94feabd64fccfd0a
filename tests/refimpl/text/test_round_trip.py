"""What is shown reads back: as the same value, bit for bit, whatever the value."""

from __future__ import annotations

import pytest

from refimpl.ir.text import parse, show
from tests.refimpl.text.anything import Anything

# repr tells NaN from numbers, -0.0 from 0.0 and 1 from 1.0 and True, where == does not; the sign
# of a NaN is in the text alone.


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_modules(seed: int) -> None:
    for s in range(seed, seed + 50):
        m = Anything(s).module()
        text = show(m)
        assert repr(parse(text)) == repr(m), text
        assert show(parse(text)) == text


@pytest.mark.parametrize("seed", range(0, 400, 100))
def test_loops(seed: int) -> None:
    for s in range(seed, seed + 100):
        draw = Anything(s)
        fs = (draw.primfunc(), *draw.some(draw.primfunc, 2))
        text = show(fs)
        assert repr(parse(text)) == repr(fs), text
        assert show(parse(text)) == text


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_programs(seed: int) -> None:
    for s in range(seed, seed + 50):
        p = Anything(s).program()
        text = show(p)
        assert repr(parse(text)) == repr(p), text
        assert show(parse(text)) == text
