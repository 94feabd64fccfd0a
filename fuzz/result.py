"""What a campaign saw: cases judged, what they covered, findings by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.groups import Example, Group


@dataclass(slots=True)
class Tally:
    """Counts of the cases judged; ``cpu`` is the processor time they took, in seconds."""

    cases: int = 0
    checked: int = 0
    total: int = 0
    cpu: float = 0.0

    @property
    def checked_share(self) -> float:
        """Share of the judged elements that could be decided."""
        return self.checked / self.total if self.total else 1.0


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``seconds`` are those of the clock, since the first process began.

    ``seed`` and ``jobs`` repeat it: the cases of each process are the same again, and how many are
    judged depends on the time.  ``tallies`` are by the name of a domain, ``covered`` counts the
    cases that cover each key.  ``stopped_by`` is the signal that ended it early, 0 for none.
    """

    seed: int = 0
    jobs: int = 1
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    sizes: list[int] = field(default_factory=list[int])
    covered: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    groups: list[Group] = field(default_factory=list[Group])
    stopped_by: int = 0

    def count(self, domain: str, o: Outcome) -> None:
        """Count a judged case."""
        tally = self.tallies[domain]
        tally.cases += 1
        tally.checked += o.checked
        tally.total += o.total
        tally.cpu += o.seconds
        self.sizes.append(o.size)
        self.covered.update(o.covered)

    @property
    def findings(self) -> Sequence[Example]:
        """The examples kept, by group."""
        return [e for g in self.groups for e in g.examples]

    @property
    def all(self) -> Tally:
        """Sum over the domains."""
        t = self.tallies.values()
        return Tally(
            sum(x.cases for x in t), sum(x.checked for x in t), sum(x.total for x in t),
            sum(x.cpu for x in t),
        )  # fmt: skip

    def rate(self, cases: int) -> float:
        """Return how many cases a minute that is."""
        return 60 * cases / self.seconds if self.seconds else 0.0

    @property
    def median_size(self) -> int:
        """Median size of a case."""
        return sorted(self.sizes)[len(self.sizes) // 2] if self.sizes else 0
