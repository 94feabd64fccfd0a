"""Findings of several campaigns, from their files, grouped by cause as one campaign groups them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.groups import Example, Findings, Group
from didyma.fuzz.replay import Recorded


@dataclass(frozen=True, slots=True)
class Found:
    """A finding's file, what it records, and what judging it again showed, if that was done.

    ``old`` says that it was known before: it stands in a folder of earlier findings.
    """

    path: Path
    recorded: Recorded
    outcome: Outcome | None = None
    old: bool = False

    @property
    def fails(self) -> bool:
        """Whether it disagrees, as far as is known."""
        return self.outcome is None or bool(self.outcome.findings)

    def example(self) -> Example | None:
        """Return it as an example to group; None where nothing says what was found."""
        r, o = self.recorded, self.outcome
        finding, traits = r.finding, r.traits
        if finding is None and o is not None and o.findings:
            finding, traits = o.findings[0], o.traits
        if finding is None:
            return None
        case = r.case
        nodes = sum(len(f.nodes) for f in r.module.functions)
        return Example(
            case, finding, traits, (nodes, case.elements()), "", file=str(self.path),
            replay=f"didyma replay {self.path}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """A group of findings with all of its files; ``new`` if none of them was known before.

    ``fails`` says whether one of them still does.
    """

    group: Group
    files: tuple[Path, ...]
    new: bool
    fails: bool


def causes(found: Sequence[Found]) -> list[Cause]:
    """Group findings by cause; the groups of old findings alone are left out."""
    by_file = {str(f.path): f for f in found}
    findings = Findings()
    for f in found:
        if (e := f.example()) is not None:
            findings.add(e)
    rows = [_cause(g, by_file) for g in findings.groups()]
    return [c for c in rows if c.files]


def _cause(g: Group, by_file: Mapping[str, Found]) -> Cause:
    members = [by_file[name] for name in sorted(g.files)]
    here = [f for f in members if not f.old]
    new = len(here) == len(members)
    return Cause(g, tuple(f.path for f in here), new, any(f.fails for f in here))


def record(causes: Sequence[Cause], unknown: Sequence[Path] = ()) -> dict[str, Any]:
    """Return groups as a record of JSON types; ``unknown`` are files of which no cause is known."""
    return {
        "groups": [
            {
                "level": c.group.level,
                "kind": c.group.kind,
                "reason": c.group.reason,
                "common": sorted(c.group.common),
                "count": len(c.files),
                "new": c.new,
                "fails": c.fails,
                "nodes": c.group.smallest.size[0],
                "where": c.group.smallest.finding.where,
                "message": c.group.smallest.finding.message,
                "smallest": c.group.smallest.file,
                "files": [str(f) for f in c.files],
            }
            for c in causes
        ],
        "unknown": [str(path) for path in unknown],
    }
