"""What is never negative is so at every binding, and what windows leave behind is seen to be so."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import (
    Dim,
    always_equal,
    exact_quotient,
    linear_form,
    never_negative,
    roots,
)
from didyma.refimpl.ir.dims.comparison import exact_values

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


ONE = st.recursive(st.just(N) | st.integers(-9, 9), _larger, max_leaves=8)
FAR = range(400)  # beyond every start and period of what is drawn


@settings(deadline=None, max_examples=150)
@given(ONE, st.integers(0, 5))
def test_a_course_is_the_size_at_every_value(e: Dim, least: int) -> None:
    found = exact_values(e, least)
    assert found is not None
    values = [dims.evaluate(e, {"n": n}) for n in FAR if n >= least]
    assert found.longer(len(values), found.period).values.tolist()[: len(values)] == values


def first(numbers: list[int], at: int) -> list[int]:
    return [n for i, n in enumerate(numbers) if n == at + i]


def last(numbers: list[int], at: int) -> list[int]:
    return [n for i, n in enumerate(reversed(numbers)) if n == at - i][::-1]


@settings(deadline=None, max_examples=150)
@given(ONE, ONE, st.integers(1, 6))
def test_what_is_said_of_one_symbol_is_so(a: Dim, b: Dim, by: int) -> None:
    def at(d: Dim, n: int) -> int:
        return dims.evaluate(d, {"n": n})

    same = always_equal(a, b, {"n": (2, 10**6)})
    equal = {at(a, n) == at(b, n) for n in FAR if n >= 2}
    assert same is None or equal == {same}
    zero = [n for n in range(2, 300) if at(a, n) == at(b, n)]
    assert [*roots(dims.sub(a, b), 2, 299)] in (zero, [], first(zero, 2), last(zero, 299))
    assert never_negative(dims.sub(a, b)) == all(at(a, n) >= at(b, n) for n in FAR)
    assert all(at(linear_form(a), n) == at(a, n) for n in FAR)
    whole = exact_quotient(a, by)
    assert (whole is not None) == all(at(a, n) % by == 0 for n in FAR)
    assert whole is None or all(at(whole, n) * by == at(a, n) for n in FAR)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (dims.minimum(dims.floordiv(N, 3) + 1, dims.ceildiv(N, 3)), dims.ceildiv(N, 3)),
        (
            dims.minimum(80 * dims.floordiv(N, 441) + 80, dims.ceildiv(80 * N, 441)),
            dims.ceildiv(80 * N, 441),
        ),
        (dims.maximum(0, N - 1) + dims.minimum(1, N), N),
        (dims.align(N, 32) - dims.floordiv(dims.align(N, 32), 2), 16 * dims.ceildiv(N, 32)),
    ],
)
def test_sizes_of_resampled_and_padded_sounds_are_seen_to_be_equal(a: Dim, b: Dim) -> None:
    assert always_equal(a, b, {"n": (0, 2**31)}) is True


def test_a_course_nearly_too_long_is_looked_at_to_its_end() -> None:
    long = dims.floordiv(N, 9001)
    assert linear_form(dims.add(long, N)) == long + N
    assert roots(long, 0, 10**6) == range(9001)
    assert roots(dims.minimum(0, N - 12000), 0, 10**6) == range(12000, 10**6 + 1)


def test_a_course_too_long_to_look_at_says_nothing() -> None:
    long = dims.minimum(dims.floordiv(N, 99991), N - 10**9)
    assert exact_values(long) is None
    assert always_equal(long, N, {"n": (0, 2**31)}) is None
