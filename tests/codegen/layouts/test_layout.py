"""The layout of a view says where its elements lie in a base."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest

from didyma.codegen.layouts.layout import Layout, Placed, Span, is_coalesced
from didyma.refimpl.ir.types import Array

from .views import base, placed_in, view

WIDE = np.arange(8 * 24).reshape(8, 24)


def read(b: Array, layout: Layout, shape: tuple[int, ...]) -> Array:
    """Return what a layout says that an array holds, element by element."""
    out = np.empty(shape, b.dtype)
    for index in np.ndindex(shape):
        at = tuple(s.start + s.step * index[s.axis] for s in layout)
        out[index] = b[at]
    return out


@pytest.mark.parametrize("seed", range(4))
def test_a_layout_says_where_each_element_lies(seed: int) -> None:
    rng, seen = Random(seed), Counter[str]()
    for _ in range(400):
        shape = [rng.choice((1, 2, 3, 4, 8)) for _ in range(rng.randint(0, 4))]
        root = np.arange(math.prod(shape)).reshape(shape)
        x = view(root, rng)
        found = placed_in(root, x)
        if isinstance(found, str):
            seen[found] += 1
            continue
        assert sorted(s.axis for s in found.layout) == list(range(x.ndim))
        assert np.array_equal(read(base(root, x, found), found.layout, x.shape), x)
        for span, size in zip(found.layout, found.shape, strict=True):
            assert span.is_whole == (size == x.shape[span.axis] and span.step > 0) or span.size == 1
    assert sum(seen.values()) < 60, seen


@pytest.mark.parametrize(
    ("x", "layout"),
    [
        (WIDE[:, :20], (Span(0), Span(1, 24))),
        (WIDE[2:5, :20], (Span(0), Span(1, 24))),
        (WIDE[:, 4:], (Span(0), Span(1, 24, 4))),
        (WIDE[:, 1:], (Span(0), Span(1, 24, 1))),
        (WIDE[:, ::2], (Span(0), Span(1, 24, 0, 2))),
        (WIDE[::2], (Span(0), Span(1, 48))),
        (WIDE.T, (Span(1), Span(0))),
        (WIDE[:, :20].T, (Span(1), Span(0, 24))),
        (np.broadcast_to(WIDE[:, :1], (8, 24)), (Span(0), Span(1, 1, 0, 0))),
        (WIDE.reshape(-1)[3:], (Span(0, 192, 3),)),
    ],
)
def test_parts_of_one_array_that_lie_alike_have_one_layout(x: Array, layout: Layout) -> None:
    found = placed_in(WIDE, x)
    assert isinstance(found, Placed)
    if x.ndim == 2 and x.strides[1] == 0:
        layout = (Span(0, 8 * 24 - 23, 0, 24), layout[1])  # of the first axis a part is a base
    assert found.layout == layout


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (WIDE[::-1], "negative"),
        (np.lib.stride_tricks.sliding_window_view(WIDE.reshape(-1), 5), "overlap"),
        (WIDE[:0, ::2], "empty"),
        (WIDE[1, 1, ...], "unaligned"),
    ],
)
def test_what_has_no_base_says_why(x: Array, why: str) -> None:
    found = placed_in(WIDE, x)
    assert isinstance(found, str)
    assert why in found


def test_rows_that_end_outside_of_the_memory_have_no_base() -> None:
    def rows(memory: Array) -> Array:
        return np.lib.stride_tricks.as_strided(memory, (8, 4), (24 * 8, 8))

    memory = np.arange(4 + 8 * 24)  # whose rows begin behind the first four
    found = placed_in(memory, rows(memory[24:]))
    assert isinstance(found, Placed), "which may begin before the array"
    assert found.layout == (Span(0), Span(1, 24, 20))
    short = memory[: 7 * 24 + 4]
    assert isinstance(placed_in(short, rows(short)), str)


def test_which_layouts_are_read_side_by_side() -> None:
    assert is_coalesced((Span(0), Span(1, 24, 4)))
    assert is_coalesced((Span(1), Span(0), Span(2)))
    assert is_coalesced((Span(0), Span(1, 1, 0, 0)))
    assert not is_coalesced((Span(1), Span(0)))
