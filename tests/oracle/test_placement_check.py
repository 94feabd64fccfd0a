"""The checker of placements: against every pair, and on what is wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from didyma.oracle.placement_check import WORD, PlacementError, check

SMALL = st.integers(0, 9)
BUFFER = st.tuples(SMALL, SMALL, SMALL, SMALL)


@settings(max_examples=400, deadline=None)
@given(st.lists(BUFFER, max_size=12))
def test_agrees_with_looking_at_every_pair(rows: list[tuple[int, int, int, int]]) -> None:
    lower = [r[0] for r in rows]
    upper = [r[0] + r[1] for r in rows]
    size, at = [r[2] for r in rows], [r[3] for r in rows]
    clashes = [
        (i, j)
        for i in range(len(rows))
        for j in range(i)
        if max(lower[i], lower[j]) < min(upper[i], upper[j])
        and max(at[i], at[j]) < min(at[i] + size[i], at[j] + size[j])
    ]
    found = check(lower, upper, size, at)
    assert bool(found) == bool(clashes)
    assert all(tuple(sorted(f.buffers, reverse=True)) in clashes for f in found)


def kinds(errors: list[PlacementError]) -> list[str]:
    return [e.kind for e in errors]


def test_each_fault_has_a_kind() -> None:
    one = ([0], [2], [8])
    assert check(*one, [0], peak=8, capacity=8, alignment=[4], fixed=[0]) == []
    assert kinds(check(*one, [-8])) == ["negative"]
    assert kinds(check(*one, [6], alignment=[4])) == ["alignment"]
    assert kinds(check(*one, [4], fixed=[0])) == ["moved"]
    assert kinds(check(*one, [4], fixed=[-1])) == []
    assert kinds(check(*one, [1], capacity=8)) == ["capacity"]
    assert kinds(check(*one, [0], peak=7)) == ["peak"]
    assert kinds(check(*one, [])) == ["count"]


def test_an_overlap_is_told_with_time_and_addresses() -> None:
    (error,) = check([0, 1, 2], [3, 4, 5], [8, 8, 8], [0, 8, 12])
    assert error == PlacementError("overlap", (2, 1), "at time 2: 2 has [12, 20), 1 has [8, 16)")


def test_touching_lives_and_addresses_are_sound() -> None:
    assert check([0, 2], [2, 4], [8, 8], [0, 0]) == []
    assert check([0, 0], [2, 2], [8, 8], [0, 8]) == []


def test_neighbours_are_found_across_words() -> None:
    n = 3 * WORD
    lower, upper, size = [0] * n, [2] * n, [4] * n
    offsets = [4 * i for i in range(n)]
    # Alone in the middle word, between neighbours two words apart.
    lower[WORD : 2 * WORD] = [5] * WORD
    upper[WORD : 2 * WORD] = [6] * WORD
    assert check(lower, upper, size, offsets) == []
    wide = 4 * WORD + 8
    for start, kind in ((4 * WORD - 1, ["overlap"]), (4 * WORD, [])):
        found = check([*lower, 1], [*upper, 2], [*size, wide - 8], [*offsets, start])
        assert kinds(found) == kind
