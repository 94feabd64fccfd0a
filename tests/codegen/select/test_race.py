"""Timing by interleaved rounds: the pick is faster beyond noise, or else the usual one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from didyma.codegen.select.race import FEWEST, compare, decide, race


class Machine:
    """A machine whose clock only runs when something runs on it, with noise from a seed."""

    def __init__(self, costs: Mapping[str, float], noise: float = 0.0, seed: int = 1) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.noise = noise
        self.slow = 1.0
        self.calls: list[str] = []
        self.runs = {name: self._run(name, cost) for name, cost in costs.items()}

    def _run(self, name: str, cost: float) -> Callable[[], None]:
        def run() -> None:
            self.calls.append(name)
            self.now += cost * self.slow * (1 + self.noise * self.random.random())

        return run

    def clock(self) -> float:
        return self.now

    def race(self, usual: str, seconds: float = 1e9) -> dict[str, list[float]]:
        return race(self.runs, usual, self.clock, seconds, wall=self.clock)

    def decide(self, usual: str) -> tuple[str, dict[str, float]]:
        return decide(self.runs, usual, self.clock, 1e9, wall=self.clock)


def test_the_fastest_is_picked() -> None:
    m = Machine({"a": 3.0, "b": 1.0, "c": 2.0})
    picked, seconds = m.decide("a")
    assert picked == "b"
    assert {name: round(s, 6) for name, s in seconds.items()} == {"a": 3.0, "b": 1.0, "c": 2.0}


def test_short_runs_are_repeated_and_long_ones_not() -> None:
    m = Machine({"a": 1e-4, "b": 5.0})
    times = m.race("a", seconds=0)
    assert m.calls.count("a") == 2 + 20 * FEWEST
    assert len(times["a"]) == FEWEST
    assert abs(times["a"][0] - 1e-4) < 1e-9


def test_of_many_equal_runs_the_usual_one_stays() -> None:
    equal = dict.fromkeys("abcdefgh", 1.0)
    picks = [Machine(equal, noise=0.2, seed=seed).decide("a")[0] for seed in range(60)]
    assert picks.count("a") >= 55


def test_a_slower_run_is_never_picked() -> None:
    slower = {"a": 1.0} | dict.fromkeys("bcdefgh", 1.03)
    assert {Machine(slower, noise=0.2, seed=seed).decide("a")[0] for seed in range(60)} == {"a"}


def test_a_gain_beyond_noise_is_found() -> None:
    for seed in range(40):
        assert Machine({"a": 1.0, "b": 0.8}, noise=0.1, seed=seed).decide("a")[0] == "b"


def test_a_machine_that_slows_down_favours_nobody() -> None:
    m = Machine({"a": 1.0, "b": 1.0})
    runs = dict(m.runs)

    def slower(run: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            run()
            m.slow *= 1.01

        return both

    m.runs = {name: slower(run) for name, run in runs.items()}
    assert abs(compare(*m.race("a").values()).ratio - 1) < 0.02


def test_runs_far_behind_are_left_but_the_usual_one_never() -> None:
    m = Machine({"a": 9.0, "b": 1.0, "c": 5.0})
    times = m.race("a")
    assert len(times["c"]) < FEWEST < len(times["a"])


def test_a_long_run_that_is_hopeless_is_timed_once() -> None:
    m = Machine({"a": 7.0, "b": 0.001, "c": 0.01, "d": 0.04})
    times = m.race("a")
    assert times["a"] == [7.0]
    assert m.calls.count("a") == 2
    assert min(len(times[name]) for name in "cd") > 1, "slow, but not for long"
    m.calls.clear()
    assert m.decide("a")[0] == "b"
    assert m.calls.count("a") == 2


def test_one_interruption_leaves_no_run_behind() -> None:
    m = Machine({"a": 0.001, "b": 0.001})
    run, turns = m.runs["a"], iter([3.0])

    def interrupted() -> None:
        run()
        m.now += next(turns, 0.0)

    m.runs["a"] = interrupted
    assert len(m.race("a")["a"]) > 1


def test_each_round_begins_with_another_run() -> None:
    m = Machine({"a": 1.0, "b": 1.0, "c": 1.0})
    m.race("a", seconds=0)
    rounds = ["".join(m.calls[n : n + 3]) for n in range(6, len(m.calls), 3)]
    assert rounds[:3] == ["abc", "bca", "cab"]


def test_a_run_that_begins_many_times_at_once_is_asked_to() -> None:
    asked: list[int] = []

    class Batch:
        def __call__(self) -> None:
            m.runs["a"]()

        def several(self, times: int) -> None:
            asked.append(times)
            for _ in range(times):
                self()

    m = Machine({"a": 1e-4, "b": 1e-4})
    runs: dict[str, Callable[[], None]] = {"a": Batch(), "b": m.runs["b"]}
    times = race(runs, "a", m.clock, 0, wall=m.clock)
    assert asked == [20] * FEWEST
    assert abs(times["a"][0] - times["b"][0]) < 1e-9
