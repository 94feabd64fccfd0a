"""Findings with one cause stand together: one planted fault should make one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from didyma.fuzz.messages import Found

KEPT = 3  # examples kept of a group, the smallest


@dataclass(frozen=True, slots=True)
class Example:
    """A finding that is kept: the engines it was judged on, and its file, if it has one."""

    found: Found
    engines: tuple[str, ...]
    file: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """What makes one example smaller than another: nodes, then elements of the inputs."""
        return self.found.nodes, self.found.case.elements()


@dataclass(slots=True)
class Group:
    """Findings of one level, kind and reason whose smallest graphs have a trait in common.

    ``count`` is how many there were; ``examples`` holds the smallest of them, in order of size.
    """

    level: str
    kind: str
    reason: str
    common: frozenset[str]
    count: int = 0
    examples: list[Example] = field(default_factory=list[Example])

    @property
    def smallest(self) -> Found:
        """The smallest finding."""
        return self.examples[0].found

    def takes(self, f: Found) -> bool:
        """Return whether a finding may have the cause of these."""
        alike = not self.common or not f.traits or not self.common.isdisjoint(f.traits)
        return (self.level, self.kind, self.reason) == f.cause and alike

    def add(self, e: Example) -> Example | None:
        """Count a finding and keep it if it is small; return the example dropped, if any."""
        self.count += 1
        if e.found.traits:
            self.common = self.common & e.found.traits if self.common else e.found.traits
        if any(x.found.case == e.found.case for x in self.examples):
            return e
        self.examples = sorted([*self.examples, e], key=lambda x: x.size)
        return self.examples.pop() if len(self.examples) > KEPT else None


def group_of(groups: Sequence[Group], f: Found) -> Group | None:
    """Return the group that a finding belongs to: of several, the one with most in common."""
    alike = [g for g in groups if g.takes(f)]
    return max(alike, key=lambda g: len(g.common & f.traits), default=None)
