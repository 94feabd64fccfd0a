"""Findings of one cause form one group: one fault should make one group, two faults two."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from didyma.oracle.report import Finding

KEPT = 3  # examples kept of a group, the smallest

_ERROR = re.compile(r"DidymaError: ([\w-]+) at|\w*Fault: ([\w-]+)|(\w+):")


@dataclass(frozen=True, slots=True)
class Example:
    """A finding with the case that shows it, as small as it could be made.

    ``size`` orders examples; its first number counts the nodes of a graph.  ``domain`` is the name
    of the case's domain, ``file`` where it was saved and ``replay`` the command that judges it
    again, both empty if there is none.  ``unshrunk`` is the error that ended the shrinking, if any.
    """

    case: Any
    finding: Finding
    traits: frozenset[str]
    size: tuple[int, ...]
    domain: str
    others: tuple[Finding, ...] = ()
    file: str = ""
    replay: str = ""
    unshrunk: str = ""


def reason(f: Finding) -> str:
    """Return the pass at fault, the kind of error, or how the process ended; else nothing.

    >>> reason(Finding("host", "fused_0", "error", "ValueError: 3 is too many"))
    'ValueError'
    """
    if f.kind in ("error", "fault"):
        named = _ERROR.match(f.message)
        return next(filter(None, named.groups()), "") if named else ""
    if f.kind == "crash":
        return f.message
    return f.where if f.level == "passes" else ""


def cause(f: Finding) -> tuple[str, str, str]:
    """Return what a smaller case must have in common with a finding to show the same fault.

    A broken plan is one, whether the laws of programs refuse it or the replay of the plan does.
    """
    if f.level == "plan":
        return f.level, "plan", ""
    return f.level, f.kind, reason(f)


@dataclass(slots=True)
class Group:
    """Findings of one level, kind and reason whose smallest cases have a trait in common.

    ``count`` is how many there were; ``examples`` holds the smallest of them, in order of size.
    """

    level: str
    kind: str
    reason: str
    common: frozenset[str]
    count: int = 0
    examples: list[Example] = field(default_factory=list[Example])

    @property
    def smallest(self) -> Example:
        """The smallest example."""
        return self.examples[0]

    def takes(self, e: Example) -> bool:
        """Return whether a finding may have the cause of these."""
        shared = not self.common or not e.traits or not self.common.isdisjoint(e.traits)
        return (self.level, self.kind, self.reason) == cause(e.finding) and shared

    def add(self, e: Example) -> Example | None:
        """Count a finding and keep it if it is small; return the example dropped, if any."""
        self.count += 1
        if e.traits:
            self.common = self.common & e.traits if self.common else e.traits
        if any(x.case == e.case for x in self.examples):
            return e
        self.examples = sorted([*self.examples, e], key=lambda x: x.size)
        return self.examples.pop() if len(self.examples) > KEPT else None


def group_of(groups: Sequence[Group], e: Example) -> Group | None:
    """Return the group that a finding belongs to: of several, the one with most in common."""
    matches = [g for g in groups if g.takes(e)]
    return max(matches, key=lambda g: len(g.common & e.traits), default=None)
