"""Searches for a smaller case: generators that yield one and are sent whether it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import TypeAlias, TypeVar

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")

Search: TypeAlias = Generator[C, bool, None]


def greedy(case: C, proposals: Callable[[C], Iterable[C]]) -> Search[C]:
    """Yield the proposals for a case; go on from each that is sent True, until none is."""
    improving = True
    while improving:
        improving = False
        for smaller in proposals(case):
            if (yield smaller):
                case, improving = smaller, True
                break


def fewest(
    items: Sequence[T], make: Callable[[Sequence[T]], C | None]
) -> Generator[C, bool, Sequence[T]]:
    """Yield the cases that ``make`` makes of fewer items; return the fewest that were sent True.

    Halves are tried first, then what is left without one of four parts, of eight and so on: the
    minimising delta debugging of Zeller and Hildebrandt ("Simplifying and Isolating
    Failure-Inducing Input", 2002).  No single item of the result can be left out.  ``make`` returns
    None for items that make no case.
    """
    parts = 2
    while items:
        size = -(-len(items) // parts)
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        rests = [[*items[:i], *items[i + size :]] for i in range(0, len(items), size)]
        alone = chunks if len(chunks) > 2 else []  # of two parts, each is the rest of the other
        for fewer in (*alone, *rests):
            if (case := make(fewer)) is not None and (yield case):
                parts = 2 if fewer in alone else max(2, len(chunks) - 1)
                items = fewer
                break
        else:
            if parts >= len(items):
                return items
            parts = min(2 * parts, len(items))
    return items


def search(
    case: C,
    shrinkers: Sequence[tuple[float, Callable[[C], Search[C]]]],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Search[C]:
    """Run shrinkers in turn, again and again, until none makes the case smaller or time is over.

    In the first round each shrinker ends at its share of the time.  No case is yielded twice.
    """
    began, refused = clock(), {case}
    shares = [share for share, _ in shrinkers]
    improving = True
    while improving:
        improving = False
        for share, (_, shrinker) in zip(shares, shrinkers, strict=True):
            end, steps = began + share * seconds, shrinker(case)
            smaller = next(steps, None)
            while smaller is not None:
                fails = False
                if smaller not in refused:
                    if clock() > end:
                        break
                    fails = yield smaller
                    refused.add(smaller)
                if fails:
                    case, improving = smaller, True
                smaller = _sent(steps, fails)
        shares = [1.0] * len(shares)


def _sent(steps: Search[C], fails: bool) -> C | None:
    """Send a search whether its case fails; return the next case, None if it has ended."""
    try:
        return steps.send(fails)
    except StopIteration:
        return None
