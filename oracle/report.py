"""What a judgement says: findings by level, and how much of the output could be decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from didyma.oracle import compare
from didyma.oracle.compare import Comparison

_SHOWN = 3  # findings in a repr


class Outcome(StrEnum):
    """The word for what a judgement found."""

    AGREE = "agree"
    DISAGREE = "DISAGREE"
    UNCHECKED = "nothing checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement: the level, the pass, node, function or kernel, and what was seen.

    ``kind`` is ``value``, ``plan``, ``fault`` (a check of an interpreter or engine) or ``error``
    (an exception that is none of these).
    """

    level: str
    where: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.message}"


@dataclass(slots=True)
class Level:
    """What one level had to say.

    ``subject`` names the engine or the peer that the level judges, and is empty for a level of the
    compiler itself.  ``checks`` counts what was checked other than elements: lines of a plan.
    ``unjudged`` counts uses of a kernel or node that ran, but were not held against bars: of what
    runs many times, some are.  ``rounds`` counts the sets of inputs that it was judged on.
    ``note`` is what else there is to say of it, in one line.
    """

    name: str
    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0
    unjudged: int = 0
    note: str = ""
    subject: str = ""
    checks: int = 0
    rounds: int = 1

    @property
    def outcome(self) -> Outcome:
        """Whether it disagrees, agrees, or checked nothing."""
        if self.findings:
            return Outcome.DISAGREE
        return Outcome.AGREE if self.checks or self.checked else Outcome.UNCHECKED

    @property
    def agree(self) -> bool:
        """True when something was checked and nothing was found."""
        return self.outcome is Outcome.AGREE

    @property
    def checked(self) -> int:
        """Number of elements that could be decided."""
        return sum(c.checked for c in self.comparisons)

    @property
    def total(self) -> int:
        """Number of elements compared."""
        return sum(c.total for c in self.comparisons)

    @property
    def checked_share(self) -> float:
        """Share of elements that could be decided; 0 when there were none."""
        return self.checked / self.total if self.total else 0.0

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
    """What a judgement was made with.

    ``sizes`` bind the symbols of the inputs; those in ``given`` were chosen by the user, the others
    by default.  ``rounds`` say what values the inputs had in each round, drawn from ``seed``.
    """

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    given: frozenset[str] = frozenset()
    engines: tuple[str, ...] = ()
    seed: int | None = None
    rounds: tuple[str, ...] = ()

    def bound(self) -> str:
        """Return the sizes as people read them; empty where there are none."""
        words = (
            f"{s} = {n}{'' if s in self.given else ' (default)'}" for s, n in self.sizes.items()
        )
        return ", ".join(words)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The verdict of every level, in order.

    ``refused`` says why the reference refuses the inputs, where it does: a data-dependent size is
    out of its range.  ``refusals`` counts the rounds in which it did.
    """

    levels: tuple[Level, ...]
    refused: str = ""
    setting: Setting = Setting()
    refusals: int = 0

    @property
    def outcome(self) -> Outcome:
        """Whether a level disagrees, all agree, or something that was to be judged was not checked.

        The compiler, each engine and each peer must have decided at least one element.
        """
        if self.findings:
            return Outcome.DISAGREE
        decided = {level.subject for level in self.levels if level.checked}
        asked = {level.subject for level in self.levels}
        return Outcome.AGREE if decided and asked <= decided else Outcome.UNCHECKED

    @property
    def agree(self) -> bool:
        """True when all that was to be judged was checked, and nothing was found."""
        return self.outcome is Outcome.AGREE

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
        """Return the verdict, a line for each level, and the first findings."""
        s = self.setting
        many = f", {len(s.rounds)} round{'s' * (len(s.rounds) != 1)}" if s.rounds else ""
        seed = f", seed {s.seed}" if s.seed is not None else ""
        lines = [f"Report: {self.outcome}{many}{seed}"]
        if s.sizes:
            lines.append(f"  sizes: {s.bound()}")
        if self.refused:
            lines.append(f"  the reference refuses {self.refusals} of them: {self.refused}")
        width = max((len(level.name) for level in self.levels), default=0)
        lines += [f"  {level.name:{width}}  {_said(level)}" for level in self.levels]
        lines += [f"  {level.name}: {level.note}" for level in self.levels if level.note]
        lines += [f"  {f}" for f in self.findings[:_SHOWN]]
        if len(self.findings) > _SHOWN:
            lines.append(f"  and {len(self.findings) - _SHOWN} more findings")
        return "\n".join(line if len(line) <= 200 else f"{line[:199]}…" for line in lines)


def _said(level: Level) -> str:
    if level.outcome is Outcome.UNCHECKED and np.isnan(level.off):
        return str(level.outcome)
    if not level.comparisons:
        return f"{level.outcome}, {level.checks:,} checks" if level.checks else str(level.outcome)
    worst = f"worst {level.worst:.3g} of its bar" if np.isfinite(level.worst) else "outside its bar"
    off = f", off by {level.off:.1e} of the largest value" if not np.isnan(level.off) else ""
    return f"{level.outcome}, {level.checked_share:.2%} of {level.total:,} elements, {worst}{off}"


def merged(reports: Sequence[Report], setting: Setting) -> Report:
    """Return one report of several rounds: each level with all that it saw."""
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
        comparisons=[*a.comparisons, *b.comparisons],
        findings=[*a.findings, *b.findings],
        seconds=a.seconds + b.seconds,
        unjudged=a.unjudged + b.unjudged,
        checks=a.checks + b.checks,
        rounds=a.rounds + b.rounds,
        note=a.note or b.note,
    )
