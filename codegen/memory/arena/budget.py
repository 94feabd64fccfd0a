"""The time or the number of steps that a planner may search."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """``deadline`` is a time of the monotonic clock, or None for none.

    Without a deadline planners stop after a number of steps, so that the same problem always has
    the same plan; with one they search until then.  ``brief``: fewer steps, for compiles.
    """

    deadline: float | None = None
    brief: bool = False

    def over(self) -> bool:
        """Return whether the deadline is past."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def left(self, otherwise: float) -> float:
        """Seconds to the deadline, or what is to hold where there is none."""
        return otherwise if self.deadline is None else max(0.1, self.deadline - time.monotonic())

    def part(self, share: float) -> Budget:
        """Return a budget of a share of the time left."""
        if self.deadline is None:
            return self
        now = time.monotonic()
        return Budget(now + max(0.0, self.deadline - now) * share, self.brief)


def within(n: float | None, brief: bool = False) -> Budget:
    """Return a budget that ends in ``seconds``; None for no deadline."""
    return Budget(None if n is None else time.monotonic() + n, brief)
