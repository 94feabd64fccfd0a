"""The meter of a campaign: what its cases have covered, and what is to be drawn because it is rare.

A *wish* is a motif with an element of each of its axes, such as ``("pair", "exp", "log")``: a piece
that a graph is to have.  What a graph covers is counted by key (``didyma.fuzz.keys``), and the
keys that fewest graphs covered decide which wishes come next.  Counts are added up in the process
that leads the campaign, from what its workers report anyway; a worker is sent the wishes of its
next cases and nothing else.  So a case is a function of the campaign's seed, its index and its
wishes, and a finding, which holds the graph itself, is replayed without the meter.

Steering by the rarest pair of features comes from combinatorial testing (D. Kuhn, R. Kacker and
Y. Lei, "Practical Combinatorial Testing", NIST SP 800-142, 2010).
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Key: TypeAlias = tuple[str, ...]
Wish: TypeAlias = tuple[str, ...]

EACH = 3  # wishes of one case
LATER = frozenset(("read",))  # motifs of wishes that are refinements of others
AGENDA = 288  # wishes that are chosen at once
DECIDED = 24  # of these, those for decisions of the compiler
MATTERED = "mattered"  # what keys of decisions that mattered begin with


def agenda(
    wanted: Mapping[Wish, Key],
    counts: Mapping[Key, int],
    asked: Mapping[Wish, int],
    order: str,
    length: int = AGENDA,
) -> tuple[Wish, ...]:
    """Return the ``length`` wishes whose keys were covered least.

    ``wanted`` gives the key that a wish is meant to cover; what is ``LATER`` counts as covered
    once.  A wish that was ``asked`` often without success may be impossible, so half the square of
    that number counts as covered.  ``order`` seeds the order of wishes that are equally rare.
    ``DECIDED`` wishes in ``AGENDA`` are for decisions that are to matter, which are far fewer than
    other keys and would hardly be among the first.

    >>> wanted = {("pair", "exp", op): ("pair", "exp", op) for op in ("exp", "log", "sum")}
    >>> agenda(wanted, {("pair", "exp", "log"): 3}, {("pair", "exp", "exp"): 2}, "any", 2)
    (('pair', 'exp', 'sum'), ('pair', 'exp', 'exp'))
    """
    chance = random.Random(order).random

    def rarity(wish: Wish) -> tuple[float, float]:
        seen = counts.get(wanted[wish], 0) + (wish[0] in LATER)
        return seen + asked.get(wish, 0) ** 2 / 2, chance()

    decided = [wish for wish, key in wanted.items() if key[0] == MATTERED]
    first = heapq.nsmallest(length * DECIDED // AGENDA, decided, key=rarity)
    others = (wish for wish in wanted if wish not in first)
    found = heapq.nsmallest(length - len(first), others, key=rarity)
    for i, wish in enumerate(first):
        found.insert(i * AGENDA // DECIDED, wish)
    return tuple(found)


def text(wishes: Sequence[Wish]) -> str:
    """Write wishes as ``parse`` reads them.

    >>> text((("pair", "exp", "log"), ("use", "exp f16", "")))
    'pair,exp,log;use,exp f16,'
    """
    return ";".join(map(",".join, wishes))


def parse(words: str) -> tuple[Wish, ...]:
    """Read wishes that ``text`` wrote; no words are no wishes."""
    return tuple(tuple(w.split(",")) for w in words.split(";")) if words else ()


class Meter:
    """Counts what the cases of one domain covered, and hands out wishes for the next ones.

    With one worker the wishes of a case depend on the seed and the cases before it; with several
    they also depend on the order in which the workers report.  One case in ``free`` has no wishes.
    """

    def __init__(self, wanted: Mapping[Wish, Key], seed: int, free: int = 4) -> None:
        self._free = free
        self._wanted = wanted
        self._seed = seed
        self._counts: Counter[Key] = Counter()
        self._asked: Counter[Wish] = Counter()
        self._agendas = 0
        self._next: deque[tuple[Wish, ...]] = deque()

    def see(self, covered: Mapping[Key, int]) -> None:
        """Add the counts of judged cases."""
        self._counts.update(covered)

    def take(self, most: int) -> Sequence[tuple[Wish, ...]]:
        """Return the wishes of up to ``most`` cases, at least of one; nothing if none are wanted.

        Wishes are chosen an agenda at a time, and cases of two agendas are never mixed: so one
        worker is given the same wishes however many cases it asks for.
        """
        if not self._wanted:
            return ()
        if not self._next:
            order = f"{self._seed} {self._agendas}"
            chosen = agenda(self._wanted, self._counts, self._asked, order)
            self._agendas += 1
            self._asked.update(chosen)
            some = [chosen[i : i + EACH] for i in range(0, len(chosen), EACH)]
            asked = self._free - 1
            for i in range(0, len(some), asked):
                self._next += [*some[i : i + asked], ()]
        return [self._next.popleft() for _ in range(min(most, len(self._next)))]

    def give_back(self, unused: Iterable[tuple[Wish, ...]]) -> None:
        """Take back the wishes of cases that were not drawn; they come first next time."""
        self._next.extendleft(reversed(list(unused)))
