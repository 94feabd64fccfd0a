"""What a judgement says: findings by level, and how much of the output could be decided."""

from __future__ import annotations

from dataclasses import dataclass, field

from didyma.oracle import compare
from didyma.oracle.compare import Comparison


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

    ``unjudged`` counts uses of a kernel or node that ran, but were not held against bars: of what
    runs many times, some are.
    """

    name: str
    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0
    unjudged: int = 0

    @property
    def agree(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    @property
    def checked_share(self) -> float:
        """Share of elements that could be decided; 1 when there were none."""
        t = compare.total(self.comparisons)
        return t.checked / t.total if t.total else 1.0

    @property
    def worst(self) -> float:
        """Largest share of a bar that an element used."""
        return compare.total(self.comparisons).worst


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict of every level, in order.

    ``refused`` says why the reference refuses the inputs, where it does: a size that only the run
    tells is out of its range.
    """

    levels: tuple[Level, ...]
    refused: str = ""

    @property
    def agree(self) -> bool:
        """True when every level agrees."""
        return all(level.agree for level in self.levels)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; the first is where to look."""
        return tuple(f for level in self.levels for f in level.findings)

    @property
    def checked_share(self) -> float:
        """Share of elements decided over all levels."""
        t = compare.total(c for level in self.levels for c in level.comparisons)
        return t.checked / t.total if t.total else 1.0
