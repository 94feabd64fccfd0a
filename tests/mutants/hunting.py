"""The hunt for one mutant, in a child: checks in turn until one kills it or its time is over."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from tests.mutants.forking import Say, limit_cpu

GRACE = 10.0  # seconds of processor time, which any compile takes less than


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of checks without a mutant.

    ``limit`` gives the processor time that a case of a check may take, in seconds; ``lost`` says
    which decision was made in cases of a check and is not among those given; empty if none.
    """

    seconds: float
    limit: Callable[[str], float]
    lost: Callable[[str, Sequence[int], Set[str]], str]


def hunt(
    checks: Sequence[Any],  # of the module ``checks``, which may be imported again
    cases: Mapping[str, Sequence[int]],
    bounds: Bounds,
    say: Say,
) -> None:
    """Judge cases until one has a finding; say what is judged, and the verdict.

    The check that has used the least time is next, so quick ones see many cases.  ``cases`` are
    those of each check that are worth judging.
    """
    turns = {c.name: _Turn(c, cases[c.name]) for c in checks if cases.get(c.name)}
    rest = dict(turns)
    start = time.process_time()
    count = 0
    while rest and time.process_time() - start < bounds.seconds:
        turn = min(rest.values(), key=lambda t: (t.spent, t.done))
        name = turn.check.name
        count += 1
        say(("at", name, count, time.process_time() - start))
        limit_cpu(bounds.limit(name))
        found = turn.next()
        limit_cpu(0.0)
        if turn.done == len(turn.cases):
            del rest[name]
        if found is None and name not in rest:
            found = turn.lost(bounds)
        if found is not None:
            say(("killed", name, count, time.process_time() - start, *map(str, found)))
            return
    for turn in rest.values():
        if (found := turn.lost(bounds)) is not None:
            name = turn.check.name
            say(("killed", name, count, time.process_time() - start, *found))
            return
    say(("survived", "", count, time.process_time() - start))


@dataclass(slots=True)
class _Turn:
    """A check, how far it is, and the decisions made in its cases so far."""

    check: Any
    cases: Sequence[int]
    judge: Callable[[int], Any] | None = None
    done: int = 0
    spent: float = 0.0
    decisions: set[str] = field(default_factory=set[str])

    def next(self) -> tuple[str, str, str] | None:
        """Judge the next case; return its finding, or the error that judging it raised."""
        began = time.process_time()
        try:
            judge = self.judge = self.judge or self.check.open()
            found = judge(self.cases[self.done])
        except MemoryError:
            raise
        except Exception as e:
            found = (self.check.name, "error", f"{type(e).__name__}: {e}")
        verdict: tuple[str, str, str] | None = None
        self.done += 1
        self.spent += time.process_time() - began
        if isinstance(found, frozenset):
            self.decisions |= found
        else:
            verdict = found
        return verdict

    def lost(self, bounds: Bounds) -> tuple[str, str, str] | None:
        """Return the finding that a decision is no longer made."""
        message = bounds.lost(self.check.name, self.cases[: self.done], self.decisions)
        return (self.check.name, "lost", message) if message else None


def fresh(name: str) -> Any:
    """Return a module, imported again if it was forgotten."""
    return importlib.import_module(name)
