"""Sizes that nobody chose are such that there is something to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from didyma import fitting
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

HALVED = """module {
  dims n in [1, 500], b in [1, 9]
  func @main(%x: f32[b, n]) -> (%z) {
    %y = slice(%x, starts=(0, 0), stops=(b, n), steps=(1, 8)) : f32[b, (n + 7)//8]
    %z = slice(%y, starts=(0, 1), stops=(b, (n + 7)//8), steps=(1, 1)) : f32[b, (n + 7)//8 - 1]
  }
}"""
MIRRORED = """module {
  dims n in [2, 500]
  func @main(%x: f32[n]) -> (%y) {
    %c = constant(value=f32[] 0.0) : f32[]
    %y = pad(%x, %c, low=(5,), high=(3,), mode="reflect") : f32[n + 8]
  }
}"""
WIDE = """module {
  dims n in [1, 1048576], b in [1, 9]
  func @main(%x: f32[b, n]) -> (%z) {
    %y = exp(%x) : f32[b, n]
    %z = slice(%y, starts=(0, 524288), stops=(b, n), steps=(1, 1)) : f32[b, Max(0, n - 524288)]
  }
}"""
COUNTED = """module {
  dims n in [1, 500], k in [20, 500]
  func @main(%x: f32[n]) -> (%y) {
    %o = iota(dtype=i64, shape=(n,), axis=0) : i64[n]
    %c = max(%o, axes=(0,), keepdims=false) : i64[]
    () = bind(%c, dim="k")
    %y = iota(dtype=f32, shape=(k,), axis=0) : f32[k]
  }
}"""


TWO = """module {
  dims n in [1, 64], m in [1, 64], one in [1, 1], k in [0, 3], same in [2, 2]
  func @main(%x: f32[n, m], %y: f32[one, k, same]) -> (%z) {
    %z = exp(%x) : f32[n, m]
  }
}"""


def test_sizes_differ_where_their_ranges_allow() -> None:
    m = parse_module(TWO)
    assert fitting.default_sizes(m, {}) == {"n": 3, "m": 4, "one": 1, "k": 2, "same": 2}
    assert fitting.default_sizes(m, {"m": 3, "k": 0})["n"] == 4
    assert fitting.default_sizes(m, {"m": 7, "n": 7})["m"] == 7


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ({"typo": 3}, "bad-option"),
        ({"n": 65}, "dim-out-of-range"),
        ({"n": 0}, "dim-out-of-range"),
        ({"n": 2.0}, "bad-option"),
        ({"n": True}, "bad-option"),
        ({"n": "2"}, "bad-option"),
    ],
)
def test_sizes_that_no_input_can_have_are_refused(chosen: dict[str, Any], code: str) -> None:
    with pytest.raises(DidymaError) as e:
        fitting.default_sizes(parse_module(TWO), chosen)
    assert e.value.code == code


def test_a_size_grows_until_no_value_is_empty() -> None:
    assert fitting.default_sizes(parse_module(HALVED), {}) == {"n": 16, "b": 3}


def test_where_growing_takes_too_much_the_others_begin_with_their_least() -> None:
    assert fitting.default_sizes(parse_module(WIDE), {}) == {"n": 1 << 20, "b": 1}


def test_a_size_that_was_given_stays() -> None:
    assert fitting.default_sizes(parse_module(HALVED), {"n": 3}) == {"n": 3, "b": 2}


def test_what_is_mirrored_is_longer_than_what_is_added() -> None:
    assert fitting.default_sizes(parse_module(MIRRORED), {}) == {"n": 6}


def test_a_size_grows_until_the_reference_takes_the_inputs() -> None:
    m = parse_module(COUNTED)

    def values(env: Mapping[str, int]) -> Sequence[Array]:
        return (np.zeros(env["n"], np.float32),)

    assert fitting.fit_run(m, {"n": 2}, {"n"}, values) == {"n": 32}
    assert fitting.fit_run(m, {"n": 2}, set(), values) == {"n": 2}
