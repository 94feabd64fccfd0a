"""The result of a judgement: findings by level, and the share of elements that was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from didyma.oracle import compare
from didyma.oracle.compare import Comparison


class Agreement(StrEnum):
    """Whether a judgement found a disagreement, found none, or could decide nothing."""

    AGREE = "agree"
    DISAGREE = "DISAGREE"
    UNCHECKED = "nothing checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement: the level, the pass, node, function or kernel, and what was seen.

    ``kind`` is ``value``, ``ring`` (payloads in the ring differ), ``plan``, ``fault`` (a check of
    an interpreter or engine), ``counter`` (a kept program needs more than it did) or ``error`` (an
    exception that is none of these).
    """

    level: str
    where: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Level:
    """The verdict of one level: what was compared, and what was found.

    ``subject`` names the engine or the peer that the level judges, and is empty for a level of the
    compiler itself.  ``checks`` counts what was checked other than elements: lines of a plan.
    ``unjudged`` counts uses of a kernel or node that ran but were not judged, because only a sample
    of many uses is.  ``rounds`` counts the sets of inputs that it was judged on.  ``note`` is one
    more line for the reader.
    """

    name: str
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    unjudged: int = 0
    note: str = ""
    subject: str = ""
    checks: int = 0
    rounds: int = 1

    @property
    def outcome(self) -> Agreement:
        """Whether it disagrees, agrees, or checked nothing."""
        if self.findings:
            return Agreement.DISAGREE
        return Agreement.AGREE if self.checks or self.checked else Agreement.UNCHECKED

    @property
    def agree(self) -> bool:
        """True when something was checked and nothing was found."""
        return self.outcome is Agreement.AGREE

    @property
    def checked(self) -> int:
        """Number of elements that could be decided."""
        return sum(c.checked for c in self.comparisons if not c.in_ring)

    @property
    def total(self) -> int:
        """Number of elements compared."""
        return sum(c.total for c in self.comparisons if not c.in_ring)

    @property
    def ring_checked(self) -> int:
        """Number of floats whose payloads in the ring are known."""
        return sum(c.checked for c in self.comparisons if c.in_ring)

    @property
    def ring_total(self) -> int:
        """Number of floats compared in the ring."""
        return sum(c.total for c in self.comparisons if c.in_ring)

    @property
    def checked_share(self) -> float:
        """Share of elements that could be decided; 0 when there were none."""
        return self.checked / self.total if self.total else 0.0

    @property
    def ring_share(self) -> float:
        """Share of floats whose payloads in the ring are known; 0 when there were none."""
        return self.ring_checked / self.ring_total if self.ring_total else 0.0

    @property
    def worst(self) -> float:
        """Largest share of a bar that an element used."""
        return compare.total(self.comparisons).worst

    @property
    def off(self) -> float:
        """Largest error against float64, as a share of the largest value; NaN if not computed."""
        return compare.total(self.comparisons).off


@dataclass(frozen=True, slots=True)
class Setting:
    """The circumstances of a judgement.

    ``sizes`` bind the symbols of the inputs; those in ``given`` were chosen by the user, the others
    by default.  ``rounds`` say what values the inputs had in each round, drawn from ``seed``.
    """

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    given: frozenset[str] = frozenset()
    engines: tuple[str, ...] = ()
    seed: int | None = None
    rounds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The verdicts of all levels, in order.

    ``refused`` is the error with which the reference refuses the inputs, where a data-dependent
    size is out of its range, and ``refusals`` the number of rounds in which it did.
    """

    levels: tuple[Level, ...]
    refused: str = ""
    setting: Setting = Setting()
    refusals: int = 0

    @property
    def outcome(self) -> Agreement:
        """Whether a level disagrees, all agree, or one of the subjects was not checked.

        The compiler, each engine and each peer must have decided at least one element.
        """
        if self.findings:
            return Agreement.DISAGREE
        decided = {level.subject for level in self.levels if level.checked}
        asked = {level.subject for level in self.levels}
        return Agreement.AGREE if decided and asked <= decided else Agreement.UNCHECKED

    @property
    def agree(self) -> bool:
        """True when every subject was checked, and nothing was found."""
        return self.outcome is Agreement.AGREE

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; the first is where to look."""
        return tuple(f for level in self.levels for f in level.findings)

    @property
    def checked_share(self) -> float:
        """Share of elements decided over all levels; 0 when there were none."""
        total = sum(level.total for level in self.levels)
        return sum(level.checked for level in self.levels) / total if total else 0.0

    def __repr__(self) -> str:
        """Return the verdict and the first finding."""
        first = f", {self.findings[0]}" if self.findings else ""
        return f"Report: {self.outcome}{first}"[:200]


def merged(reports: Sequence[Report], setting: Setting) -> Report:
    """Merge the reports of several rounds into one: each level with all its comparisons."""
    levels: dict[tuple[str, int], Level] = {}
    for r in reports:
        met: Counter[str] = Counter()  # several engines may have one name
        for level in r.levels:
            met[level.name] += 1
            key = level.name, met[level.name]
            levels[key] = _joined(levels[key], level) if key in levels else level
    refused = [r.refused for r in reports if r.refused]
    return Report(tuple(levels.values()), refused[0] if refused else "", setting, len(refused))


def _joined(a: Level, b: Level) -> Level:
    return replace(
        a,
        comparisons=a.comparisons + b.comparisons,
        findings=a.findings + b.findings,
        seconds=a.seconds + b.seconds,
        unjudged=a.unjudged + b.unjudged,
        checks=a.checks + b.checks,
        rounds=a.rounds + b.rounds,
        note=a.note or b.note,
    )
