"""What the corpus grows from: members, the lines each executes, and what is tried for a mutant."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from didyma.fuzz import distilled
from didyma.fuzz.chooser import Dice
from didyma.fuzz.distilled import Member
from didyma.fuzz.domains.domain import Domain
from tests.mutants.distil import judges
from tests.mutants.mutant import Mutant

DRAWN = 5  # one in so many cases after the members is drawn anew
INDICES = 1024  # of a seed: what a case is like depends on its index in some domains
QUICK = 24  # of the members that execute a mutant's line, those that are mostly changed


class Recipe(NamedTuple):
    """How a case is made: a member by its key, changed by dice if there are any, or drawn anew."""

    domain: str
    key: str = ""
    dice: int = -1

    @property
    def is_member(self) -> bool:
        """Whether it is a member as it is."""
        return bool(self.key) and self.dice < 0

    @property
    def drawn(self) -> tuple[int, int]:
        """The seed and the index of what is drawn anew."""
        return divmod(self.dice, INDICES)


@dataclass(frozen=True, slots=True)
class Want:
    """A mutant, and the number of the line that it is executed with.

    ``suspect`` is a case that ended the process in which the mutant was planted.
    """

    mutant: Mutant
    line: int
    suspect: Recipe | None = None

    def __str__(self) -> str:
        """Return what is changed, and the id, which outlives moved lines."""
        m = self.mutant
        old, new = (
            " ".join(t.split())[:40] or "nothing"
            for t in (m.source[m.site.start : m.site.end], m.site.new)
        )
        return f"{m.file.removeprefix('codegen/')}: {m.site.operator}: {old} -> {new}, {m.id}"


@dataclass(slots=True)
class Pool:
    """The members that there are, by key, and which of them execute each numbered line."""

    domains: Mapping[str, Domain[Any]]
    members: dict[str, tuple[str, Member]] = field(default_factory=dict[str, tuple[str, Member]])
    reach: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    kills: Counter[str] = field(default_factory=Counter[str])

    def add(self, domain: str, m: Member, lines: Iterable[int]) -> None:
        """Take a member, and the lines that it executes."""
        self.members[m.key] = domain, m
        for line in lines:
            self.reach.setdefault(line, []).append(m.key)

    def case(self, r: Recipe) -> Any:
        """Return the case of a recipe."""
        domain = self.domains[r.domain]
        if not r.key:
            return domain.draw(*r.drawn)
        case = self.members[r.key][1].case(domain)
        return case if r.is_member else distilled.changed(case, domain, Dice(r.dice), r.drawn)

    def ms(self, key: str) -> float:
        """Return the milliseconds that a case like a member takes; 100 if it is like none."""
        return self.members[key][1].ms if key else 100.0

    def recipes(self, want: Want, ms: float) -> Iterator[Recipe]:
        """Yield what may show a mutant: members, for some time, then changes of them without end.

        Nothing is yielded if no member of a domain that would see it executes its line.
        """
        folder = want.mutant.file.split("/")[1]
        reach = [k for k in self.reach.get(want.line, ()) if judges(self.members[k][0], folder)]
        for k in sorted(reach, key=lambda k: self.ms(k) / (1 + self.kills[k])):
            yield Recipe(self.members[k][0], k)
            if (ms := ms - self.ms(k)) < 0:
                break
        quick = heapq.nsmallest(QUICK, reach, key=self.ms)
        chance = Random(want.mutant.id)
        while reach:
            key = chance.choice(quick if chance.randrange(4) else reach)
            is_drawn = not chance.randrange(DRAWN)
            yield Recipe(self.members[key][0], "" if is_drawn else key, chance.getrandbits(32))
