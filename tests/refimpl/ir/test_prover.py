"""What the algebra of sizes decides is so at every binding, and little is left undecided.

Each answer about random sizes is compared with all bindings of their symbols within small ranges.
"""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.dims.atoms import Atoms
from didyma.refimpl.ir.dims.polynomial import Number, constant, nonnegative_on, plus
from didyma.refimpl.ir.dims.prover import Prover

N, M, K = (dims.symbol(s) for s in "nmk")
RANGES = {"n": (1, 7), "m": (0, 5), "k": (3, 3)}
BINDINGS = [
    dict(zip(RANGES, at, strict=True))
    for at in product(*(range(lo, hi + 1) for lo, hi in RANGES.values()))
]


@st.composite
def sizes(draw: st.DrawFn, symbols: tuple[Dim, ...] = (N, M, K), depth: int = 3) -> Dim:
    """Draw a size over symbols: sums, products, quotients, extremes and remainders."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(symbols) | st.integers(-3, 9))
    a = draw(sizes(symbols, depth - 1))
    match draw(st.integers(0, 8)):
        case 0:
            return dims.mul(draw(st.integers(-2, 4)), a)
        case 1:
            return dims.floordiv(a, draw(st.integers(1, 5)))
        case 2:
            return dims.align(a, draw(st.sampled_from([2, 4, 64])))
        case 3:
            return dims.mul(a, draw(st.sampled_from(symbols)))
        case 4:
            by = draw(st.integers(2, 5))
            return dims.sub(a, dims.mul(by, dims.floordiv(a, by)))
        case k:
            join = (dims.add, dims.maximum, dims.minimum, dims.sub)[k - 5]
            return join(a, draw(sizes(symbols, depth - 1)))


def values(d: Dim) -> list[int]:
    """A size at every binding."""
    return [dims.evaluate(d, env) for env in BINDINGS]


@settings(deadline=None, max_examples=300)
@given(sizes(), sizes(), st.sampled_from([2, 3, 4, 16]))
def test_what_is_decided_is_so_at_every_binding(a: Dim, b: Dim, by: int) -> None:
    at_a, at_b = values(a), values(b)
    low, high = dims.bounds(a, RANGES)
    assert low <= min(at_a)
    assert max(at_a) <= high
    assert not dims.at_least(a, b, RANGES) or all(map(int.__ge__, at_a, at_b))
    assert not dims.divisible(a, by) or not any(x % by for x in at_a)
    assert not Prover(RANGES).divisible(a, by) or not any(x % by for x in at_a)
    same = dims.always_equal(a, b, RANGES)
    assert same is None or {x == y for x, y in zip(at_a, at_b, strict=True)} == {same}
    assert not dims.never_negative(a) or min(at_a) >= 0


@settings(deadline=None, max_examples=300)
@given(sizes())
def test_the_canonical_form_has_the_values_of_the_size(d: Dim) -> None:
    every, fixed = Atoms(RANGES, frozenset(RANGES)), Atoms(RANGES)
    for env, want in zip(BINDINGS, values(d), strict=True):
        for atoms in (every, fixed):
            assert atoms.value(atoms.read(d), dict[str, Number](env)) == want


POINTS = (*range(2, 400), *range(400, 4000, 61), 10**4, 10**5, 10**6)


@settings(deadline=None, max_examples=200)
@given(sizes(symbols=(N,)), sizes(symbols=(N,)))
def test_order_of_sizes_of_one_symbol_is_decided(a: Dim, b: Dim) -> None:
    """It is decided exactly where no symbols are multiplied."""
    linear = all(len(m) < 2 for d in (a, b) for m in _monomials(d))
    truth = all(dims.evaluate(a, {"n": n}) >= dims.evaluate(b, {"n": n}) for n in POINTS)
    proved = Prover({"n": (2, 10**6)}).at_least(a, b)
    assert truth or not proved
    assert proved or not truth or not linear


def _monomials(d: Dim) -> set[tuple[str, ...]]:
    atoms = Atoms({"n": (0, 9)})
    read = [atoms.read(d)]
    for atom in atoms.by_name.values():
        read += atom.parts
    return {m for p in read for m in p}


def test_most_that_is_true_of_several_symbols_is_proved() -> None:
    dice = random.Random(0)

    def size() -> Dim:
        a, b = (dice.choice((N, M, K, dims.mul(N, M), dice.randint(0, 9))) for _ in range(2))
        a = dice.choice((dims.floordiv(a, 3), dims.align(a, 4), dims.mul(a, 3), a))
        return dice.choice((dims.add, dims.maximum, dims.minimum))(a, b)

    proved = true = 0
    for _ in range(600):
        a, b = size(), size()
        if all(map(int.__ge__, values(a), values(b))):
            true += 1
            proved += dims.at_least(a, b, RANGES)
    assert true > 150
    assert proved >= 0.9 * true, (proved, true)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 2)), max_size=4))
def test_bernstein_coefficients_prove_what_is_so(terms: list[tuple[int, int, int]]) -> None:
    p = constant(0)
    for c, i, j in terms:
        p = plus(p, {("m",) * j + ("n",) * i: 1}, c)
    box = {"n": (1, 7), "m": (0, 5)}
    if nonnegative_on(p, box):
        assert all(
            sum(c * n**i * m**j for c, i, j in terms) >= 0
            for n, m in product(range(1, 8), range(6))
        )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (dims.mul(N, N), dims.sub(dims.mul(4, N), 4)),  # (n - 2)²: touches 0 inside
        (dims.add(dims.mul(N, M), 1), dims.mul(N, dims.minimum(M, 4))),
        (dims.mul(N, dims.floordiv(M + 3, 2)), dims.mul(N, dims.floordiv(M, 2))),
        (dims.mul(N, dims.maximum(M, 9)), dims.add(dims.mul(8, N), 1)),
    ],
)
def test_products_with_extremes_and_quotients_are_compared(a: Dim, b: Dim) -> None:
    ranges = {"n": (1, 4096), "m": (0, 4096)}
    assert dims.at_least(a, b, ranges)
    assert not dims.at_least(dims.sub(b, 1), a, ranges)


def test_divisors_are_found_inside_extremes() -> None:
    assert dims.divisible(dims.maximum(dims.mul(16, N), 32), 16)
    assert dims.divisible(dims.mul(4, N, 4 * M), 16)
    assert not dims.divisible(dims.floordiv(dims.mul(16, N), 3), 2)


def test_choices_between_sizes_are_proved_one_by_one() -> None:
    """Of three layouts the one of the least peak is taken; its offsets are where they were."""
    least, take, other = (dims.symbol(s) for s in ("least", "take", "other"))
    ends = [dims.add(N, M), dims.maximum(dims.mul(2, M), 3), dims.add(dims.mul(3, K), M)]
    named = {f"peak{i}": d for i, d in enumerate(ends)}
    peaks = [dims.symbol(name) for name in named]
    here = [dims.sub(1, dims.minimum(1, dims.sub(p, least))) for p in peaks]
    left = dims.sub(1, take)
    at = dims.add(
        dims.mul(take, N), dims.mul(other, dims.mul(2, M)), dims.mul(dims.sub(left, other), K)
    )
    lines = [
        *named.items(), ("least", dims.minimum(*peaks)), ("take", here[0]),
        ("other", dims.mul(left, here[1])), ("at", at),
    ]  # fmt: skip
    ranges = RANGES | dict.fromkeys([*named, "least", "at"], (0, 99))
    ranges |= {"take": (0, 1), "other": (0, 1)}
    p = Prover(ranges, lines)
    assert set(p.choices) == {"take", "other"}
    end = dims.symbol("at")
    assert p.at_least(end, 0)
    assert p.at_least(dims.add(N, dims.mul(2, M), K), end)
    assert p.at_least(1, dims.add(take, other))
    # where nothing is taken first, ``at`` may be 2*M, which may be less than N
    assert not p.at_least(end, N)
    some: list[Dim] = [0, 1, N, K, dims.mul(2, M), dims.add(take, other), end, *peaks, least]
    for env in BINDINGS:
        known = dict(env)
        for name, d in lines:
            known[name] = dims.evaluate(d, known)
        for a, b in product(some, some):
            assert not p.at_least(a, b) or dims.evaluate(a, known) >= dims.evaluate(b, known)


def test_a_symbol_of_a_range_to_one_that_may_be_more_is_no_choice() -> None:
    ranges = {"n": (0, 5), "few": (0, 1)}
    assert not Prover(ranges, [("few", N)]).choices
    assert not Prover(ranges, [("few", dims.sub(1, N))]).choices
    assert Prover(ranges, [("few", dims.minimum(1, N))]).choices == {"few": ()}
