"""What a campaign saw: cases judged, what they covered, findings by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from didyma.fuzz.domains.domain import Key
from didyma.fuzz.groups import Example, Group
from didyma.fuzz.worker import Batch


@dataclass(slots=True)
class Tally:
    """Counts of the cases judged; ``cpu`` is the processor time they took, in seconds.

    ``sizes`` counts the cases of each size, ``covered`` those that cover each key.
    """

    cases: int = 0
    checked: int = 0
    total: int = 0
    ring_checked: int = 0
    ring_total: int = 0
    cpu: float = 0.0
    sizes: Counter[int] = field(default_factory=Counter[int])
    covered: Counter[Key] = field(default_factory=Counter[Key])

    def add(self, b: Batch | Tally) -> None:
        """Count further cases."""
        self.cases += b.cases
        self.checked += b.checked
        self.total += b.total
        self.ring_checked += b.ring_checked
        self.ring_total += b.ring_total
        self.cpu += b.cpu
        self.sizes.update(b.sizes)
        self.covered.update(b.covered)

    @property
    def checked_share(self) -> float:
        """Share of the judged elements that could be decided."""
        return self.checked / self.total if self.total else 1.0

    @property
    def ring_share(self) -> float | None:
        """Share of the floats compared in the ring whose payloads are known; None without any."""
        return self.ring_checked / self.ring_total if self.ring_total else None

    @property
    def a_minute(self) -> float:
        """How many cases a minute of one core are drawn and judged."""
        return 60 * self.cases / self.cpu if self.cpu else 0.0

    @property
    def median_size(self) -> int:
        """Median size of a case."""
        left = self.cases // 2
        for size, n in sorted(self.sizes.items()):
            left -= n
            if left < 0:
                return size
        return 0


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``seconds`` are those of the clock, since the first process began.

    ``seed`` and ``jobs`` repeat it: the cases of each process are the same again, and how many are
    judged depends on the time.  ``tallies`` are by the name of a domain, ``shares`` the part of the
    time that each had.  ``stopped_by`` is the signal that ended it early, 0 for none.  ``reached``
    are lines of the compiler that ran, where they were watched.  ``deaths`` counts processes that
    ended at cases of which none ended a process when judged alone, ``lost`` those that could not be
    started again.
    """

    seed: int = 0
    jobs: int = 1
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    shares: dict[str, float] = field(default_factory=dict[str, float])
    groups: list[Group] = field(default_factory=list[Group])
    draft: Example | None = None
    tried: int = 0
    stopped_by: int = 0
    reached: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    deaths: int = 0
    lost: int = 0

    @property
    def findings(self) -> Sequence[Example]:
        """The examples kept, by group."""
        return [e for g in self.groups for e in g.examples]

    @property
    def all(self) -> Tally:
        """Sum over the domains."""
        whole = Tally()
        for t in self.tallies.values():
            whole.add(t)
        return whole

    @property
    def cases(self) -> int:
        """Number of cases judged."""
        return sum(t.cases for t in self.tallies.values())

    @property
    def keys(self) -> int:
        """Number of keys covered."""
        return sum(len(t.covered) for t in self.tallies.values())

    def rate(self, cases: int) -> float:
        """Return how many cases a minute that is."""
        return 60 * cases / self.seconds if self.seconds else 0.0
