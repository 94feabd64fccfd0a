"""Sizes: the quick answers are those of sympy."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim

N, M, K = (dims.symbol(s) for s in "nmk")


def _size(rng: random.Random) -> Dim:
    some = rng.sample([N, M, K, N * M, sympy.floor(N / 2)], rng.randint(0, 2))
    terms = [rng.choice([1, 1, 2, 3, -1]) * s for s in some]
    return dims.add(rng.choice([0, 0, rng.randint(-2, 5)]), *terms)


@pytest.mark.parametrize("seed", range(12))
def test_the_largest_and_the_smallest_are_what_sympy_makes_of_them(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        sizes = [_size(rng) for _ in range(rng.randint(2, 3))]
        for ours, theirs in ((dims.maximum, sympy.Max), (dims.minimum, sympy.Min)):
            assert ours(*sizes) == dims.canonical(theirs(*sizes)), sizes


def test_of_many_linear_sizes_those_that_can_be_largest_are_kept() -> None:
    s = [dims.symbol(f"s{i}") for i in range(40)]
    ends = [dims.add(a, b) for a, b in pairwise(s)]
    assert dims.maximum(*s, *ends) == sympy.Max(*ends, evaluate=False)
    least = dims.minimum(*s, *ends, 3)
    assert dims.free(least) == tuple(sorted(x.name for x in s))
    assert dims.evaluate(least, dict.fromkeys(dims.free(least), 2)) == 2
    assert dims.evaluate(least, dict.fromkeys(dims.free(least), 7)) == 3
    assert dims.maximum(N, dims.add(N, 2), 1) == N + 2
