"""Searches for a smaller case: generators that yield one and are sent whether it still fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

C = TypeVar("C")


def greedy(case: C, proposals: Callable[[C], Iterable[C]]) -> Generator[C, bool, None]:
    """Yield the proposals for a case; go on from each that is sent True, until none is."""
    improving = True
    while improving:
        improving = False
        for smaller in proposals(case):
            if (yield smaller):
                case, improving = smaller, True
                break
