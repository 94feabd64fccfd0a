"""What a campaign saw: graphs judged, ops met, findings by group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from didyma.fuzz.groups import Example, Group


@dataclass(slots=True)
class Tally:
    """Counts of the graphs judged."""

    programs: int = 0
    checked: int = 0
    total: int = 0

    @property
    def checked_share(self) -> float:
        """Share of the judged elements that could be decided."""
        return self.checked / self.total if self.total else 1.0


@dataclass(slots=True)
class Result:
    """What a campaign saw; ``by_team`` is keyed by the team's engines joined with ``+``.

    ``seed`` and ``jobs`` repeat it: the graphs of each process are the same again, and how many are
    judged depends on the time.  ``stopped_by`` is the signal that ended it early, 0 for none.
    """

    possible: int
    seed: int = 0
    jobs: int = 1
    seconds: float = 0.0
    by_team: dict[str, Tally] = field(default_factory=dict[str, Tally])
    nodes: list[int] = field(default_factory=list[int])
    covered: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    groups: list[Group] = field(default_factory=list[Group])
    stopped_by: int = 0

    @property
    def findings(self) -> Sequence[Example]:
        """The examples kept, by group."""
        return [e for g in self.groups for e in g.examples]

    @property
    def all(self) -> Tally:
        """Sum over the teams."""
        t = self.by_team.values()
        return Tally(sum(x.programs for x in t), sum(x.checked for x in t), sum(x.total for x in t))

    def rate(self, programs: int) -> float:
        """Programs a minute."""
        return 60 * programs / self.seconds if self.seconds else 0.0

    @property
    def median_nodes(self) -> int:
        """Median number of nodes of a graph."""
        return sorted(self.nodes)[len(self.nodes) // 2] if self.nodes else 0

    def json(self) -> str:
        """Return the result as the JSON of ``didyma fuzz --json``."""
        whole = self.all
        return json.dumps(
            {
                "seed": self.seed,
                "jobs": self.jobs,
                "programs": whole.programs,
                "seconds": round(self.seconds, 3),
                "programs_per_minute": round(self.rate(whole.programs), 1),
                "median_nodes": self.median_nodes,
                "checked_share": round(whole.checked_share, 6),
                "findings": [_finding(e) for e in self.findings],
                "groups": [_group(g) for g in self.groups],
                "coverage": {
                    "pairs": len(self.covered),
                    "possible": self.possible,
                    "ops": len({op for op, _ in self.covered}),
                },
                "engines": {
                    team: {
                        "programs": t.programs,
                        "programs_per_minute": round(self.rate(t.programs), 1),
                        "checked_share": round(t.checked_share, 6),
                    }
                    for team, t in self.by_team.items()
                },
            },
            indent=2,
        )


def _finding(e: Example) -> dict[str, object]:
    f = e.found
    return {
        "level": f.level,
        "where": f.where,
        "kind": f.kind,
        "message": f.message,
        "nodes": f.nodes,
        "file": e.file,
    }


def _group(g: Group) -> dict[str, object]:
    return {
        "level": g.level,
        "kind": g.kind,
        "reason": g.reason,
        "common": sorted(g.common),
        "count": g.count,
        "smallest": _finding(g.examples[0]),
        "files": [e.file for e in g.examples],
    }
