"""Work by pieces gives the bits that work on whole arrays does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import pieces
from didyma.refimpl.ops.bars import exact


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 20))
def test_pieces_meet_each_element_once(shape: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as m:
        m.setattr(pieces, "PIECE", most)
        found = np.zeros(shape, np.int64)
        for at in pieces.places(shape):
            assert found[at].size <= most
            found[at] += 1
    assert (found == 1).all()


def test_elementwise_work_broadcasts() -> None:
    a, b = np.arange(2.0**21).reshape(2, -1), np.array([[1], [2]], np.float32)

    def both(a: Array, b: Array) -> tuple[Array, Array]:
        return a + b, a > b

    for got, want in zip(pieces.elementwise(both, a, b), both(a, b), strict=True):
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


PROGRAM = """
module {
  func @main(%x: bf16[6, 20], %w: bf16[20, 9], %b: bf16[9]) -> (%z, %s) {
    %y = matmul(%x, %w) : bf16[6, 9]
    %c = broadcast_to(%b, shape=(6, 9)) : bf16[6, 9]
    %t = add(%y, %c) : bf16[6, 9]
    %q = multiply(%t, %t) : bf16[6, 9]
    %z = exp(%q) : bf16[6, 9]
    %s = sum(%z, axes=(1,), keepdims=false) : bf16[6]
  }
}
"""


def test_bars_are_the_same_by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A square stays one by pieces, and overflow is met where a piece alone has it."""
    m = parse_module(PROGRAM)
    rng = np.random.default_rng(3)
    inputs = [
        (rng.standard_normal([int(str(d)) for d in p.type.shape]) * 8).astype(p.type.dtype.numpy)
        for p in m.entry.params
    ]
    inputs[0][2, 3] = math.inf

    def bars() -> list[Array]:
        found = graph.bars(m.entry, m, [exact(a) for a in inputs])
        return [x for b in found for x in (b.c, b.e)]

    whole = bars()
    monkeypatch.setattr(pieces, "LARGE", 0)
    monkeypatch.setattr(pieces, "PIECE", 7)
    for got, want in zip(bars(), whole, strict=True):
        assert got.dtype == want.dtype
        assert np.array_equal(got, want, equal_nan=True)
