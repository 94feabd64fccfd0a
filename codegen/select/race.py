"""Time several runs against each other in interleaved rounds, and pick one by its median.

Rounds are interleaved, and each starts with another run, so that a machine that becomes slower
slows all runs alike.  A run is compared with the usual one round by round: the median of the
ratios, and how far that may be off by chance.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

Clock: TypeAlias = Callable[[], float]

SAMPLE = 2e-3  # seconds that a sample should take: shorter runs are repeated
FEWEST, MOST = 5, 25  # rounds
BEHIND = 1.5  # runs that are slower than the fastest by this factor are not timed further
TRIED = 3  # rounds before a run may be left behind
HOPELESS, LONG = 20.0, 0.05  # a run slower by this factor, and that long, is timed once
CONFIRMING = 0.25  # share of the time for the second race
LEAST_GAIN = 0.01  # gains below this are not worth a choice of their own


@runtime_checkable
class Several(Protocol):
    """A run that can begin many times by one call."""

    def __call__(self) -> None:
        """Run once."""
        ...

    def several(self, times: int) -> None:
        """Run so many times, one after another."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a run compares with the usual one: median of the ratios of times, and its uncertainty."""

    ratio: float
    noise: float

    @property
    def is_faster(self) -> bool:
        """Return whether it is faster by more than chance explains."""
        return 1 - self.ratio > max(self.noise, LEAST_GAIN)


def race(
    runs: Mapping[str, Callable[[], None]],
    usual: str,
    clock: Clock,
    seconds: float,
    before: Callable[[str], None] = lambda name: None,
    wall: Clock = time.monotonic,
    wait: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Time runs in rounds, for about this many seconds; return the seconds of each, by round.

    Samples are timed by ``clock``, and ``wall`` says when the time is over.

    The run ``usual`` and those that are not far behind are timed in every round, at least
    ``FEWEST`` rounds, however long that takes.  A long run that is hopelessly behind is timed once,
    even the usual one.  ``before`` is called with the name of a run before each of its samples, and
    ``wait`` at the end of each, where what runs have begun ends: a run that waited for itself would
    be timed with what it takes to begin it.
    """
    end = wall() + seconds
    spent: dict[str, float] = {}
    for name, run in runs.items():
        before(name)
        spent[name] = _once(run, clock, wait)
    repeats = {name: _repeats(s) for name, s in spent.items()}
    limit = max(LONG, HOPELESS * min(spent.values()))
    left = [name for name in runs if spent[name] <= limit]
    times = {name: [] if name in left else [spent[name]] for name in runs}
    for n in range(MOST):
        if n >= FEWEST and wall() > end:
            break
        turn = n % len(left)
        for name in (*left[turn:], *left[:turn]):
            before(name)
            began = clock()
            _several(runs[name], repeats[name])
            wait()
            times[name].append((clock() - began) / repeats[name])
        if n + 1 >= TRIED:
            best = min(statistics.median(times[name]) for name in left)
            limit = BEHIND * best
            left = [x for x in left if x == usual or statistics.median(times[x]) <= limit]
    return times


def _several(run: Callable[[], None], times: int) -> None:
    if isinstance(run, Several):
        run.several(times)
        return
    for _ in range(times):
        run()


def _once(run: Callable[[], None], clock: Clock, wait: Callable[[], None]) -> float:
    """Run once to warm up and once more, and return the seconds of the faster one."""
    began = clock()
    run()
    wait()
    between = clock()
    run()
    wait()
    return min(between - began, clock() - between)


def _repeats(seconds: float) -> int:
    """Return how often a sample must repeat a run of so many seconds."""
    return max(1, min(1000, math.ceil(SAMPLE / max(seconds, 1e-7))))


def compare(usual: Sequence[float], other: Sequence[float]) -> Comparison:
    """Compare a run with the usual one by the rounds in which both were timed.

    The uncertainty is two standard errors of the median, from the median absolute deviation.

    >>> compare([2.0, 2.0, 4.0], [1.0, 1.0, 2.0])
    Comparison(ratio=0.5, noise=0.0)
    """
    ratios = [b / a for a, b in zip(usual, other, strict=False)]
    middle = statistics.median(ratios)
    deviation = 1.4826 * statistics.median(abs(r - middle) for r in ratios)
    return Comparison(middle, 2 * 1.2533 * deviation / math.sqrt(len(ratios)))


def fastest(times: Mapping[str, Sequence[float]], usual: str) -> str:
    """Return the fastest run that is faster than the usual one beyond noise, else the usual one."""
    for name in sorted(times, key=lambda x: statistics.median(times[x])):
        if name == usual or compare(times[usual], times[name]).is_faster:
            return name
    return usual


def decide(
    runs: Mapping[str, Callable[[], None]],
    usual: str,
    clock: Clock,
    seconds: float,
    before: Callable[[str], None] = lambda name: None,
    wall: Clock = time.monotonic,
    wait: Callable[[], None] = lambda: None,
) -> tuple[str, dict[str, float]]:
    """Race all runs; return the pick, and the median seconds of each run.

    Of many runs that are equally fast one looks faster by chance, so the fastest must win against
    the usual one again, in a race of the two alone; otherwise the usual one is picked.
    """
    times = race(runs, usual, clock, seconds * (1 - CONFIRMING), before, wall, wait)
    medians = {name: statistics.median(row) for name, row in times.items()}
    best = fastest(times, usual)
    if best != usual and len(times[usual]) > 1:
        two = {name: runs[name] for name in (usual, best)}
        again = race(two, usual, clock, seconds * CONFIRMING, before, wall, wait)
        if not compare(again[usual], again[best]).is_faster:
            best = usual
    return best, medians
