"""What the processes of a campaign do: draw cases, judge them, and count what they saw."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

from didyma.fuzz import distilled
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.lines import Reached, watcher
from didyma.fuzz.steering.meter import Wish
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError

BATCH_SECONDS = 0.1  # so that a slow machine, too, reports in time
BATCH_CASES = 512  # fewer where a case is to be judged alone


@dataclass(slots=True)
class Batch:
    """What was seen of some cases, one after another.

    ``cpu`` is the processor time they took, in seconds, and ``fresh`` that of those which covered a
    key that was new to the process.  ``sizes`` and ``covered`` count cases.  ``found`` is the last
    case with its outcome, if it has a finding.  ``reached`` are the lines of the compiler that ran
    for the first time, where they are watched.
    """

    cases: int = 0
    checked: int = 0
    total: int = 0
    ring_checked: int = 0
    ring_total: int = 0
    cpu: float = 0.0
    fresh: float = 0.0
    sizes: Counter[int] = field(default_factory=Counter[int])
    covered: Counter[Key] = field(default_factory=Counter[Key])
    found: tuple[Any, Outcome] | None = None
    reached: Reached = frozenset()

    def add(self, o: Outcome, seconds: float, fresh: bool) -> None:
        """Count a judged case."""
        self.cases += 1
        self.checked += o.checked
        self.total += o.total
        self.ring_checked += o.ring_checked
        self.ring_total += o.ring_total
        self.cpu += seconds
        self.fresh += seconds * fresh
        self.sizes[o.size] += 1
        self.covered.update(o.covered)


@dataclass(frozen=True, slots=True)
class Undrawn:
    """A case that could not be drawn, which is an error of the domain itself."""

    seed: int
    index: int


class Opened:
    """A domain in a process: its judge, which keeps engines open, and the keys seen so far."""

    def __init__(self, domain: Domain[Any]) -> None:
        self.domain = domain
        self.judge: Judge[Any] = domain.judge()
        self.seen: set[Key] = set()

    def judged(self, case: object) -> Outcome:
        """Judge a case; an error that no level expects is a finding, too."""
        try:
            return self.judge(case)
        except Exception as e:
            message = f"{type(e).__name__}: {e}"
            return Outcome((self.domain.failure(case, "error", message),), unexpected=message)

    def drawn(self, seed: int, index: int, wishes: Sequence[Wish] | None) -> tuple[Any, Outcome]:
        """Draw a case and judge it; an error of the drawing is a finding, too."""
        try:
            case = drawn(self.domain, seed, index, wishes)
        except Exception as e:
            message = f"{type(e).__name__}: {e}"
            finding = Finding(self.domain.name, "draw", "error", message)
            return Undrawn(seed, index), Outcome((finding,), unexpected=message)
        return case, distilled.held(self.domain, self.judged(case), wishes or ())

    def fresh(self, o: Outcome) -> bool:
        """Return whether an outcome covers what none before did, and remember it."""
        new = [k for k in o.covered if k not in self.seen]
        self.seen.update(new)
        return bool(new)


def drawn(domain: Domain[Any], seed: int, index: int, wishes: Sequence[Wish] | None) -> Any:
    """Draw a case with what is wished for, or a kept one; None means that nobody was asked."""
    if wishes is None:
        return domain.draw(seed, index)
    if distilled.is_wish(wishes):
        return distilled.drawn(domain, seed, index, wishes[0])
    return domain.draw_wished(seed, index, wishes)


def judge_some(
    packed: bytes,
    seed: int,
    indices: range,
    lines: bool = False,
    wishes: Sequence[Sequence[Wish] | None] | None = None,
) -> Batch:
    """Draw and judge cases of a domain, until one shows a finding or ``BATCH_SECONDS`` are over.

    With ``lines`` the lines of the compiler that run are watched.  ``wishes`` are those of each
    case, if it has any.
    """
    opened = _opened(packed)
    batch = Batch()
    end = time.monotonic() + BATCH_SECONDS
    for i, wished in zip(indices, wishes if wishes is not None else repeat(None), strict=False):
        began = time.process_time()
        case, o = opened.drawn(seed, i, wished)
        batch.add(o, time.process_time() - began, opened.fresh(o))
        if o.findings:
            batch.found = case, o
            break
        if time.monotonic() > end:
            break
    if lines:
        batch.reached = watcher().drain()
    return batch


def judge_one(packed: bytes, case: object) -> Outcome:
    """Judge a case of a domain."""
    return _opened(packed).judged(case)


def ready() -> None:
    """Do nothing: the answer says that the process is ready."""


def open_all(packed: tuple[bytes, ...], lines: bool = False) -> None:
    """Open domains, as a process does before its first case; with ``lines`` watch them first."""
    if lines:
        watcher()
    for p in packed:
        _opened(p)


def close_all() -> None:
    """Forget the domains that are open, and what their judges have noted."""
    _opened.cache_clear()


@lru_cache(maxsize=16)
def _opened(packed: bytes) -> Opened:
    """Return a pickled domain, opened once in each process."""
    try:
        domain: Domain[Any] = pickle.loads(packed)
    except DidymaError:
        raise
    except Exception as e:
        raise untransferable(e) from None
    return Opened(domain)


def packed(domain: Domain[Any]) -> bytes:
    """Pickle a domain; DidymaError ``bad-option`` where that cannot be."""
    try:
        return pickle.dumps(domain)
    except Exception as e:
        raise untransferable(e) from None


def untransferable(e: Exception) -> DidymaError:
    """Return the error that says that a domain cannot be sent to another process."""
    return DidymaError(
        "bad-option", "engines and planner of a campaign",
        got=f"an object that another process cannot load: {type(e).__name__}: {e}",
        want="objects that pickle takes, of classes of a module",
        help="register it by an entry point, and give its name instead",
    )  # fmt: skip
