"""The hunt for one mutant, in a child: checks in turn until one kills it or its time is over."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from tests.mutants.forking import Say, limit_cpu

GRACE = 10.0  # seconds of processor time, which any compile takes less than
_PRIOR = 10  # cases that what was recorded of a check's others counts for
_LEAST = 0.01  # share of cases that execute a mutant, where nothing shows that any does


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of checks without a mutant.

    ``limit`` gives the processor time that a case of a check may take, in seconds; ``lost`` says
    which decision was made in cases of a check and is not among those given; empty if none.
    """

    seconds: float
    limit: Callable[[str], float]
    lost: Callable[[str, Sequence[int], Set[str]], str]


@dataclass(frozen=True, slots=True)
class Queue:
    """The cases of a check for a mutant: those known to execute it, and those that may.

    ``share`` is the part of recorded cases that execute the mutant's function.  A check that is
    ``late`` begins after so many seconds, and from then on is next until it used half of all.
    """

    known: Sequence[int]
    others: Sequence[int] = ()
    share: float = 1.0
    late: float | None = None

    @property
    def all(self) -> tuple[int, ...]:
        """Return the cases in order, known ones first."""
        return (*self.known, *self.others)


def hunt(
    checks: Sequence[Any],  # of the module ``checks``, which may be imported again
    cases: Mapping[str, Queue],
    bounds: Bounds,
    say: Say,
    executed: Callable[[], bool] = lambda: True,
) -> None:
    """Judge cases until one has a finding; say what is judged, and the verdict.

    While there are cases known to execute the mutant, the check that has used the least time is
    next, so quick ones see many.  Then it is the one that has used the least time for each case
    that executed it, as ``executed`` says afterwards, and as was recorded.  Late ones are next when
    their time has come.
    """
    queues = {name: q for name, q in cases.items() if q.known or q.others}
    turns = {c.name: _Turn(c, queues[c.name]) for c in checks if c.name in queues}
    rest = dict(turns)
    start = time.process_time()
    count = 0
    executed()
    while rest and time.process_time() - start < bounds.seconds:
        used = time.process_time() - start
        turn = min(rest.values(), key=lambda t: t.rank(used))
        name = turn.check.name
        count += 1
        index = turn.cases[turn.done]
        say(("at", name, count, time.process_time() - start, index))
        limit_cpu(bounds.limit(name))
        found = turn.next()
        limit_cpu(0.0)
        turn.executed += executed()
        if turn.done == len(turn.cases):
            del rest[name]
        if found is None and name not in rest:
            found, index = turn.lost(bounds), -1
        if found is not None:
            say(("killed", name, count, time.process_time() - start, *map(str, found), index))
            return
    for turn in rest.values():
        if (found := turn.lost(bounds)) is not None:
            name = turn.check.name
            say(("killed", name, count, time.process_time() - start, *found, -1))
            return
    reached = sum(t.executed for t in turns.values())
    say(("survived", "", count, time.process_time() - start, reached))


@dataclass(slots=True)
class _Turn:
    """A check, how far it is, and the decisions made in its cases so far."""

    check: Any
    queue: Queue
    cases: tuple[int, ...] = field(init=False)
    judge: Callable[[int], Any] | None = None
    done: int = 0
    executed: int = 0
    spent: float = 0.0
    decisions: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.cases = self.queue.all

    def rank(self, used: float) -> tuple[int, float, int]:
        """Return by what checks are ordered after some time was used; the least is next."""
        if self.queue.late is not None:
            due = used >= self.queue.late and self.spent <= used / 2
            return 0 if due else 3, self.spent, self.done
        if self.done < len(self.queue.known):
            return 1, self.spent, self.done
        hits = _PRIOR * max(self.queue.share, _LEAST) + self.executed
        return 2, self.spent * (_PRIOR + self.done) / hits, self.done

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
