from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.codegen.memory.symbolic.search import OrderSearch
from didyma.codegen.memory.symbolic.stack import Stack

spans = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=12)


def stack_of(ss: list[tuple[int, int]]) -> tuple[Stack, list[tuple[int, int]]]:
    lifetimes = [(a, a + n) for a, n in ss]
    return Stack.of(lifetimes), lifetimes


@given(spans)
def test_conflicts_and_load(ss: list[tuple[int, int]]) -> None:
    s, lives = stack_of(ss)
    for i, (a, b) in enumerate(lives):
        want = {
            j for j, (c, d) in enumerate(lives) if j != i and any(c <= t < d for t in range(a, b))
        }
        assert s.conflicts[i] == want
    ones = [1] * len(lives)
    assert max(s.load(ones)) == max(sum(a <= t < b for a, b in lives) for t in range(20))


@given(spans, st.randoms(use_true_random=False))
def test_no_order_overlaps(ss: list[tuple[int, int]], random: Random) -> None:
    s, _ = stack_of(ss)
    sizes = [random.randrange(5) for _ in ss]
    order = tuple(random.sample(range(len(ss)), len(ss)))
    off = s.offsets(order, sizes)
    assert s.peak(order, sizes) == max(o + z for o, z in zip(off, sizes, strict=True))
    for i, js in enumerate(s.conflicts):
        assert all(off[i] + sizes[i] <= off[j] or off[j] + sizes[j] <= off[i] for j in js)


@given(spans, st.randoms(use_true_random=False))
def test_order_of_a_placement_is_no_higher(ss: list[tuple[int, int]], random: Random) -> None:
    """Who lies on whom in a static placement gives that placement's peak or a lower one."""
    s, _ = stack_of(ss)
    sizes = [random.randrange(6) for _ in ss]
    for turns in s.turns(sizes):
        assert sorted(turns) == list(range(len(ss)))
        for best in (True, False):
            order = s.fit(turns, sizes, best=best)
            assert s.peak(order, sizes) <= sum(sizes)
            assert s.peak(order, sizes) >= max(s.load(sizes))


@given(spans, st.randoms(use_true_random=False))
def test_chain_reaches_the_peak(ss: list[tuple[int, int]], random: Random) -> None:
    s, _ = stack_of(ss)
    sizes = [random.randrange(5) for _ in ss]
    order = tuple(random.sample(range(len(ss)), len(ss)))
    chain = s.chain(order, sizes, random)
    assert sum(sizes[v] for v in chain) == s.peak(order, sizes)
    assert all(a in s.conflicts[b] for a, b in pairwise(chain))


@settings(deadline=None, max_examples=30)
@given(spans, st.randoms(use_true_random=False))
def test_search_never_loses(ss: list[tuple[int, int]], random: Random) -> None:
    s, _ = stack_of(ss)
    search = OrderSearch(s, [[random.randrange(9) for _ in ss] for _ in range(5)])
    seeds = search.seeds([0, 2])
    few = search.choose(seeds, 2)
    assert 1 <= len(few) <= 2

    def worst(orders: list[tuple[int, ...]]) -> float:
        rows = [search.ratios(o) for o in orders]
        return max(min(r[m] for r in rows) for m in range(len(search.samples)))

    better = search.improved(few, 2, seeds, rounds=6, moves=60)
    assert worst(better) <= worst(few)
    assert len(better) <= 2
    assert all(sorted(o) == list(range(len(ss))) for o in better)
