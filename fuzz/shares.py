"""How a campaign shares its time among domains: by what each still finds.

Each domain has a floor.  What is left goes to the domains in proportion to their novelty: the
share of recent processor time that went to cases which covered something new.  This is probability
matching over discounted rewards, as for bandits whose arms wear out (Garivier and Moulines, "On
Upper-Confidence Bound Policies for Switching Bandit Problems", 2011), with the chance of each arm
read as a share of time, so that nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

HALF_LIFE = 10.0  # processor seconds of a domain after which an outcome counts half
PRIOR = 1.0  # seconds of novelty that every domain is trusted with
MOST_FLOORS = 0.75  # floors together leave the rest to be won
TURN = 0.1  # seconds that a turn is taken to need, until it ends


class Shares:
    """The processor time that each domain had, and how much of it showed something new.

    ``floors`` are least shares by name; ``fixed`` are shares that the user chose.
    """

    def __init__(self, floors: Mapping[str, float], fixed: Mapping[str, float]) -> None:
        free = 1.0 - sum(fixed.values())
        rest = {name: floor for name, floor in floors.items() if name not in fixed}
        scale = min(1.0, MOST_FLOORS / (sum(rest.values()) or 1.0)) * free
        self._least = {name: fixed.get(name, floor * scale) for name, floor in floors.items()}
        self._fixed = frozenset(fixed)
        self._spent = dict.fromkeys(floors, 0.0)
        self._recent = dict.fromkeys(floors, PRIOR)
        self._fresh = dict.fromkeys(floors, PRIOR)

    def novelty(self, name: str) -> float:
        """Return the share of a domain's recent time that showed something new, from 0 to 1."""
        return self._fresh[name] / self._recent[name]

    def share(self, name: str) -> float:
        """Return the share of time that a domain is to have."""
        if name in self._fixed:
            return self._least[name]
        left = 1.0 - sum(self._least.values())
        among = {n: self.novelty(n) for n in self._least if n not in self._fixed}
        total = sum(among.values())
        return self._least[name] + left * (among[name] / total if total else 1 / len(among))

    def next(self, open: Collection[str]) -> str:
        """Return which of some domains is the farthest behind its share; it gets a turn.

        One that has had none comes first.
        """
        total = sum(self._spent.values()) + TURN

        def behind(name: str) -> tuple[bool, float]:
            return not self._spent[name], self.share(name) * total - self._spent[name]

        chosen = max(open, key=behind)
        self.begin(chosen)
        return chosen

    def begin(self, name: str) -> None:
        """Count a turn of a domain that begins, whoever chose it; ``done`` counts its time."""
        self._spent[name] += TURN

    def done(self, name: str, seconds: float, fresh: float) -> None:
        """Count a turn that took so many processor seconds, some on cases with something new."""
        self._spent[name] += seconds - TURN
        kept = 0.5 ** (seconds / HALF_LIFE)
        self._recent[name] = self._recent[name] * kept + seconds
        self._fresh[name] = self._fresh[name] * kept + fresh

    def record(self) -> dict[str, float]:
        """Return the share of time that each domain has had so far."""
        total = sum(self._spent.values())
        return {n: round(s / total, 4) + 0.0 if total else 0.0 for n, s in self._spent.items()}


def possible(names: Sequence[str], fixed: Mapping[str, float]) -> bool:
    """Return whether shares can be kept: of known domains, in (0, 1], together at most 1.

    They are exactly 1 where every domain has one.
    """
    total = sum(fixed.values())
    whole = abs(total - 1.0) < 1e-6
    known = set(fixed) <= set(names) and all(0.0 < s <= 1.0 for s in fixed.values())
    return known and (whole or (total < 1.0 and set(fixed) != set(names)))
