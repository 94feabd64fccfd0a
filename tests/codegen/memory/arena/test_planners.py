"""Every planner against the checker, on traces drawn at random."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from didyma.codegen.memory.arena import ARENA, FREE, Problem, lower_bound, problem, solve
from didyma.codegen.memory.arena.fit import Fit, _Rounds, _scan, conflicts, place  # pyright: ignore[reportPrivateUsage]  # three ways to one result
from didyma.codegen.memory.arena.problem import tight_bound
from didyma.oracle.placement_check import check
from didyma.refimpl.errors import DidymaError

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


@pytest.mark.parametrize("fit", ["best", "first", "top"])
@settings(deadline=None, max_examples=60)
@given(p=problems())
def test_three_ways_to_fit_agree(fit: Fit, p: Problem) -> None:
    p = p.pick(np.flatnonzero((p.size > 0) & (p.upper > p.lower)))
    assume(p.count)
    order = np.argsort(-p.size, kind="stable")
    a = place(p, order, fit)
    order = np.concatenate([order[p.fixed[order] != FREE], order[p.fixed[order] == FREE]])
    assert a.tolist() == _scan(p, order, fit).tolist()
    assert a.tolist() == _Rounds(p, order, fit, conflicts(p)).run().tolist()


def test_what_alignment_costs_is_part_of_the_bound() -> None:
    p = problem([0, 0, 0, 2], [2, 2, 2, 3], [10, 20, 5, 30], alignment=16)
    assert (lower_bound(p), tight_bound(p)) == (35, 16 + 16 + 20)
    assert solve(p).peak == 52


@settings(deadline=None, max_examples=60)
@given(p=problems())
def test_the_bound_with_alignment_is_one(p: Problem) -> None:
    assert lower_bound(p) <= tight_bound(p) <= solve(p, "canonical").peak


def test_ten_buffers_are_placed_at_once() -> None:
    p = problem(range(10), range(3, 13), [256 * (k % 4 + 1) for k in range(10)], alignment=256)
    took: list[float] = []
    for _ in range(20):
        began = time.process_time()
        assert solve(p, "didyma", seconds=0.0).peak < 2 * lower_bound(p)
        took.append(time.process_time() - began)
    assert min(took) < 0.005


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
