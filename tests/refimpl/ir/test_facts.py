"""What is never negative is so at every binding, and what windows leave behind is seen to be so."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.ir import dims
from refimpl.ir.dims import Dim
from refimpl.ir.facts import never_negative

N, M = dims.symbol("n"), dims.symbol("m")


def _larger(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    def by(f: Any, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Dim]:
        return st.builds(f, inner, numbers)

    return st.one_of(
        by(dims.maximum, inner), by(dims.minimum, inner), by(dims.add, inner),
        by(dims.mul, st.integers(-3, 3)), by(dims.floordiv, st.integers(1, 4)),
    )  # fmt: skip


SIZES = st.recursive(st.sampled_from([N, M]) | st.integers(-4, 4), _larger, max_leaves=6)


@settings(deadline=None, max_examples=60)
@given(SIZES, SIZES)
def test_what_is_said_holds_at_every_binding(a: Dim, b: Dim) -> None:
    e = dims.sub(a, b)
    if never_negative(e):
        for n, m in product(range(9), repeat=2):
            assert dims.evaluate(e, {"n": n, "m": m}) >= 0


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (3 * dims.floordiv(N, 3), N),
        (dims.maximum(0, N - 8) + 3, N + 10),
        (dims.minimum(N, 5), N),
        (2 * dims.maximum(0, dims.floordiv(N - 3, 2) + 1) + 1, N + 2),
        (N - 2, 3 * dims.floordiv(N, 3)),
    ],
)
def test_what_slices_and_windows_leave_behind_is_compared(small: Dim, large: Dim) -> None:
    assert never_negative(dims.sub(large, small))
    assert not never_negative(dims.sub(dims.sub(small, large), 1))
