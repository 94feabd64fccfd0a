"""Every planner against the checker, on traces drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from codegen.memory.arena import ARENA, FREE, Problem, lower_bound, problem, solve
from oracle.placement_check import check
from refimpl.errors import DidymaError

QUICK = sorted({*ARENA} - {"exact"})


@st.composite
def problems(draw: st.DrawFn, fixed: bool = True, aligned: bool = True) -> Problem:
    """Up to 24 buffers: some without bytes, without a life, fixed, or aligned."""
    n = draw(st.integers(1, 24))
    numbers = st.lists(st.integers(0, 12), min_size=n, max_size=n)
    lower, life, size = draw(numbers), draw(numbers), draw(numbers)
    upper = [a + b for a, b in zip(lower, life, strict=True)]
    align = [1] * n
    if aligned and draw(st.booleans()):
        align = draw(st.lists(st.sampled_from([1, 2, 4, 16]), min_size=n, max_size=n))
    at = [FREE] * n
    if fixed:
        for i in draw(st.sets(st.integers(0, n - 1), max_size=3)):
            at[i] = draw(st.integers(0, 4)) * 16
    try:
        return problem(lower, upper, size, alignment=align, fixed=at)
    except DidymaError as e:
        assume(e.code != "fixed-overlap")
        raise


def faults(p: Problem, offsets: list[int], peak: int) -> list[str]:
    found = check(
        p.lower.tolist(),
        p.upper.tolist(),
        p.size.tolist(),
        offsets,
        alignment=p.alignment.tolist(),
        fixed=p.fixed.tolist(),
        capacity=p.capacity,
        peak=peak,
    )
    return [f.message for f in found]


TOUCHING = problem([0, 2, 4], [2, 4, 6], [8, 8, 8])
EMPTY = problem([0, 3], [0, 3], [8, 0])


@pytest.mark.parametrize("name", QUICK)
@settings(deadline=None, max_examples=40)
@given(p=problems())
@example(p=TOUCHING)
@example(p=EMPTY)
def test_placements_are_sound(name: str, p: Problem) -> None:
    placed = solve(p, name)
    assert faults(p, placed.offsets.tolist(), placed.peak) == []
    assert placed.peak >= lower_bound(p)


@pytest.mark.parametrize("name", QUICK)
@settings(deadline=None, max_examples=15)
@given(p=problems(), data=st.data())
def test_the_order_of_buffers_does_not_matter(name: str, p: Problem, data: st.DataObject) -> None:
    shuffle = data.draw(st.permutations(range(p.count)))
    q = problem(
        *(a[shuffle] for a in (p.lower, p.upper, p.size)),
        names=[p.names[i] for i in shuffle],
        alignment=p.alignment[shuffle],
        fixed=p.fixed[shuffle],
    )
    a, b = solve(p, name), solve(q, name)
    by_name = dict(zip(q.names, b.offsets.tolist(), strict=True))
    assert dict(zip(p.names, a.offsets.tolist(), strict=True)) == by_name


@settings(deadline=None, max_examples=80)
@given(p=problems())
def test_didyma_is_never_above_greedy(p: Problem) -> None:
    mine = solve(p, "didyma").peak
    for name in ("greedy_by_size", "greedy_by_breadth", "best_fit"):
        assert mine <= solve(p, name).peak, name


@settings(deadline=None, max_examples=100)
@given(p=problems())
def test_a_deadline_that_is_past_leaves_it_no_worse_than_greedy(p: Problem) -> None:
    mine = solve(p, "didyma", 0.0).peak
    assert mine <= min(solve(p, n).peak for n in ("greedy_by_size", "greedy_by_breadth"))


def best(p: Problem) -> int:
    """Smallest peak, by trying every order of placing buffers as low as they can be."""
    order = [i for i in range(p.count) if p.size[i] > 0 and p.upper[i] > p.lower[i]]

    def go(placed: tuple[tuple[int, int], ...], left: tuple[int, ...], limit: int) -> int:
        if not left:
            return max((o + int(p.size[i]) for i, o in placed), default=0)
        for i in left:
            meets = [
                (o, o + int(p.size[j]))
                for j, o in placed
                if p.lower[i] < p.upper[j] and p.lower[j] < p.upper[i]
            ]
            lowest = max((e for _, e in meets), default=0)
            if lowest + int(p.size[i]) < limit:
                rest = tuple(j for j in left if j != i)
                limit = min(limit, go((*placed, (i, lowest)), rest, limit))
        return limit

    return go((), tuple(order), int(p.size.sum()) + 1)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_canonical_search_agrees_with_brute_force(data: st.DataObject) -> None:
    p = data.draw(problems(fixed=False, aligned=False))
    p = p.pick(np.arange(min(6, p.count)))
    least = best(p)
    q = problem(p.lower, p.upper, p.size, capacity=least)
    assert solve(q, "canonical").peak <= least
    if least > lower_bound(p):
        tight = problem(p.lower, p.upper, p.size, capacity=least - 1)
        with pytest.raises(DidymaError, match="no placement of"):
            solve(tight, "canonical")


def test_a_capacity_that_cannot_be_is_told_with_time_and_live_set() -> None:
    p = problem([0, 1, 5], [3, 4, 6], [100, 20, 1], names=["a", "b", "c"], capacity=110)
    with pytest.raises(DidymaError, match=r"time 1`\n.*120 bytes.*a \(100\), b \(20\)\n.*120, not"):
        solve(p)


def test_a_capacity_that_one_planner_misses_is_told() -> None:
    p = problem([0, 2], [2, 4], [8, 8], capacity=8)
    assert solve(p, "greedy_by_size").peak == 8
    with pytest.raises(DidymaError, match=r"planner none`\n.*peak of 16 bytes"):
        solve(p, "none")


def test_an_unknown_planner_is_told_with_the_names() -> None:
    with pytest.raises(DidymaError, match="best_fit, canonical, didyma, exact, greedy_by_breadth"):
        solve(TOUCHING, "guess")
