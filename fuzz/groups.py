"""Findings of one cause form one group: one fault should make one group, two faults two."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from didyma.fuzz.steering.meter import Wish
from didyma.fuzz.traits import SYMBOLIC
from didyma.oracle.report import Finding
from didyma.refimpl.ops import OPS

KEPT = 3  # examples kept of a group, the smallest

_LOOPS = ("loop", "kernel")  # levels that tell a fault of the lowered loops from a schedule's
_ERROR = re.compile(r"DidymaError: ([\w-]+) at|\w*Fault: (?:\d+ )?([\w-]+)|(\w+):")


@dataclass(frozen=True, slots=True)
class Example:
    """A finding with the case that shows it, as small as it could be made.

    ``size`` orders examples; its first number counts the nodes of a graph.  ``domain`` is the name
    of the case's domain, ``file`` where it was saved and ``replay`` the command that judges it
    again, both empty if there is none.  ``unshrunk`` is the error that ended the shrinking, if any.
    ``index`` is that of the case in its domain from which this one was made, and ``wishes`` are
    what a meter asked that case to have, None without a meter.
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
    index: int = 0
    wishes: tuple[Wish, ...] | None = None


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

    A broken plan is one, whether the laws of programs refuse it or the replay of the plan does.  So
    is what a kernel must not do, wherever it runs, and the error of a wrapper, whatever it calls.
    """
    if f.level == "plan":
        return f.level, "plan", ""
    if f.level not in _LOOPS and f.message.startswith("LoopFault: "):
        return "kernel", "fault", reason(f)
    if f.kind == "wrapper" and (raised := _ERROR.match(f.message)):
        return "program", "error", next(filter(None, raised.groups()), "")
    return f.level, f.kind, reason(f)


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one level, kind and reason whose smallest cases have traits in common.

    ``count`` is how many there were; ``examples`` holds the smallest of them, in order of size, and
    ``files`` are those of all.
    """

    level: str
    kind: str
    reason: str
    common: frozenset[str]
    count: int
    examples: tuple[Example, ...]
    files: frozenset[str] = frozenset()

    @property
    def smallest(self) -> Example:
        """The smallest example."""
        return self.examples[0]

    @property
    def cause(self) -> tuple[str, str, str]:
        """What ``cause`` gives of every finding of the group."""
        return self.level, self.kind, self.reason


def united(groups: Sequence[Group]) -> Group:
    """Return one group of several of one cause; those without traits say nothing of the common."""
    different: dict[int, Example] = {}
    for e in sorted((e for g in groups for e in g.examples), key=lambda e: e.size):
        if all(e.case != other.case for other in different.values()):
            different[len(different)] = e
    common = [g.common for g in groups if g.common]
    return Group(
        *groups[0].cause,
        common[0].intersection(*common) if common else frozenset[str](),
        sum(g.count for g in groups),
        tuple(different.values())[:KEPT],
        frozenset[str]().union(*(g.files for g in groups)),
    )


class Findings:
    """The findings of a campaign, counted by their causes and traits."""

    def __init__(self) -> None:
        self._counted: dict[tuple[tuple[str, str, str], frozenset[str]], Group] = {}

    def add(self, e: Example) -> None:
        """Count a finding."""
        key = cause(e.finding), e.traits
        one = Group(*key[0], e.traits, 1, (e,), frozenset([e.file]))
        self._counted[key] = united([self._counted[key], one]) if key in self._counted else one

    def groups(self) -> list[Group]:
        """Return as few groups as traits in common allow, in the order of their first findings.

        Of wrong values the trait that most kinds of findings have makes a group, then that which
        most of the others have, and so on: the greedy cover of Chvatal ("A Greedy Heuristic for the
        Set-Covering Problem", 1979).  Failed compiles are one group for each function that raised,
        and faults one for each reason.  Groups of one level that compute something in common are
        one: a wrong index may be a wrong value here and an access out of bounds there.
        """
        kinds = list(self._counted.values())
        parts: list[list[Group]] = []
        for chosen in dict.fromkeys(g.cause for g in kinds):
            some = [g for g in kinds if g.cause == chosen]
            parts += [some] if chosen[1] == "fault" else _cover(some)
        return [
            united(part) for part in sorted(_joined(parts), key=lambda p: min(map(kinds.index, p)))
        ]


def _joined(parts: Sequence[list[Group]]) -> list[list[Group]]:
    """Join parts of one level whose findings all compute something in common."""
    joined: list[list[Group]] = []
    for part in parts:
        level, computed = part[0].level, _computed(part)
        for other in joined:
            if other[0].level == level and computed & _computed(other):
                other += part
                break
        else:
            joined.append(list(part))
    return joined


def _computed(part: Sequence[Group]) -> frozenset[str]:
    """Return what all findings of some groups compute: ops, operations, or with symbolic sizes."""
    common = part[0].common.intersection(*(g.common for g in part))
    return frozenset(t for t in common if t.endswith(" of numbers") or t == SYMBOLIC or t in OPS)


def _cover(kinds: Sequence[Group]) -> list[list[Group]]:
    """Part groups of one cause into as few as traits in common allow."""
    parts: list[list[Group]] = []
    rest = [g for g in kinds if g.common]
    while rest:
        by_trait = {t: [g for g in rest if t in g.common] for g in rest for t in sorted(g.common)}
        part = max(by_trait.values(), key=lambda p: (len(p), len(united(p).common)))
        parts.append(part)
        rest = [g for g in rest if g not in part]
    if bare := [g for g in kinds if not g.common]:
        if not parts:
            return [bare]
        max(parts, key=lambda part: sum(g.count for g in part)).extend(bare)
    return parts
