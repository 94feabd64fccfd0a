"""Shares of a campaign's time: floors, what is still found, and what the user fixed."""

from __future__ import annotations

import pytest

from didyma.fuzz.shares import MOST_FLOORS, Shares, possible


def spent(s: Shares, fresh: dict[str, float], turns: int) -> dict[str, float]:
    """The share of each domain over the last half of some turns.

    A turn takes a second of a domain, of which ``fresh`` showed something new.
    """
    counts = dict.fromkeys(fresh, 0)
    for turn in range(turns):
        name = s.next(list(fresh))
        s.done(name, 1.0, fresh[name])
        counts[name] += turn >= turns // 2
    return {name: n / (turns - turns // 2) for name, n in counts.items()}


def test_what_still_finds_gets_what_the_floors_leave() -> None:
    had = spent(Shares({"a": 0.5, "b": 0.5}, {}), {"a": 0.9, "b": 0.0}, 400)
    assert had["a"] + had["b"] == pytest.approx(1)
    assert had["a"] == pytest.approx(0.5 * MOST_FLOORS + (1 - MOST_FLOORS), abs=0.02)
    assert had["b"] == pytest.approx(0.5 * MOST_FLOORS, abs=0.02), "its floor"


def test_what_finds_as_much_gets_as_much() -> None:
    had = spent(Shares({"a": 0.1, "b": 0.1, "c": 0.1}, {}), {"a": 0.3, "b": 0.3, "c": 0.3}, 600)
    assert had == pytest.approx(dict.fromkeys("abc", 1 / 3), abs=0.02)


def test_where_nothing_finds_anything_all_go_on() -> None:
    had = spent(Shares({"a": 0.1, "b": 0.3}, {}), {"a": 0.0, "b": 0.0}, 400)
    assert had["a"] > 0.1
    assert had["b"] > 0.3


def test_a_fixed_share_is_kept_whatever_is_found() -> None:
    had = spent(Shares({"a": 0.4, "b": 0.4}, {"a": 0.1}), {"a": 1.0, "b": 0.0}, 400)
    assert had["a"] == pytest.approx(0.1, abs=0.01)


def test_turns_under_way_count_already() -> None:
    s = Shares({"a": 0.5, "b": 0.5}, {})
    assert {s.next(["a", "b"]), s.next(["a", "b"])} == {"a", "b"}


def test_turns_that_others_chose_count_with_their_time() -> None:
    s = Shares({"a": 0.5, "b": 0.5, "c": 0.5}, {})
    for name, seconds in (("a", 0.01), ("b", 0.03)):
        s.begin(name)
        s.done(name, seconds, 0.0)
    assert s.record() == pytest.approx({"a": 0.25, "b": 0.75, "c": 0.0})
    assert s.next(["a", "b", "c"]) == "c"


@pytest.mark.parametrize(
    ("fixed", "well"),
    [
        ({}, True),
        ({"a": 0.3}, True),
        ({"a": 0.3, "b": 0.7}, True),
        ({"a": 0.3, "b": 0.6}, False),
        ({"a": 1.0}, True),
        ({"a": 0.0}, False),
        ({"a": -0.1}, False),
        ({"a": 1.1}, False),
        ({"c": 0.5}, False),
        ({"a": float("nan")}, False),
    ],
)
def test_shares_that_can_be_kept(fixed: dict[str, float], well: bool) -> None:
    assert possible(["a", "b"], fixed) is well
