"""The result of a campaign as a record of JSON types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from didyma.fuzz.coverage import report
from didyma.fuzz.domains.domain import Domain
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.groups import Example, Group
from didyma.fuzz.keys import ENGINE
from didyma.fuzz.result import Result, Tally

Record: TypeAlias = dict[str, Any]


def record(r: Result, domains: Iterable[Domain[Any]], *, each: bool = False) -> Record:
    """Return the result of a campaign on some domains.

    With ``each`` it has all of ``coverage.report``.

    ``programs`` counts the cases of all domains.  ``programs_per_minute`` is by the clock, and the
    ``per_minute_per_core`` of a domain by processor time.
    """
    total = r.all
    judged = {d.name: d for d in domains}
    return {
        "seed": r.seed,
        "jobs": r.jobs,
        "programs": total.cases,
        "seconds": round(r.seconds, 3),
        "cpu_seconds": round(total.cpu, 3),
        "programs_per_minute": round(r.rate(total.cases), 1),
        "checked_share": round(total.checked_share, 6),
        "findings": [finding(e) for e in r.findings],
        "groups": [_group(g) for g in r.groups],
        "domains": {name: _domain(d, r) for name, d in judged.items()},
        **_graphs(judged.get("graphs"), r),
        **({"report": report(r)} if each else {}),
        "unexplained_deaths": r.deaths,
        "lost_processes": r.lost,
    }


def _graphs(d: Domain[Any] | None, r: Result) -> Record:
    """Return what is said of graphs alone; nothing where none were judged."""
    if not isinstance(d, Graphs):
        return {}
    t = r.tallies[d.name]
    share = round(t.checked_share, 6)
    judged = {name: t.covered[ENGINE, name] for name in d.engine_names}
    return {
        "median_nodes": t.median_size,
        "coverage": d.summary(t.covered),
        "engines": {
            name: {
                "programs": n, "programs_per_minute": round(r.rate(n), 1), "checked_share": share
            }
            for name, n in judged.items()
        },
    }  # fmt: skip


def _domain(d: Domain[Any], r: Result) -> Record:
    t: Tally = r.tallies[d.name]
    return {
        "cases": t.cases,
        "cpu_seconds": round(t.cpu, 3),
        "share_of_time": r.shares.get(d.name, 0.0),
        "per_minute_per_core": round(t.a_minute, 1),
        "checked_share": round(t.checked_share, 6),
        **_ring(t),
        "median_size": t.median_size,
        "covered": d.summary(t.covered),
    }


def _ring(t: Tally) -> Record:
    """Return how many floats were compared in the ring, and the share whose payloads are known."""
    share = t.ring_share
    return {} if share is None else {"ring_total": t.ring_total, "ring_share": round(share, 6)}


def finding(e: Example) -> Mapping[str, object]:
    """Return the record of a finding."""
    f = e.finding
    return {
        "domain": e.domain,
        "index": e.index,
        "level": f.level,
        "where": f.where,
        "kind": f.kind,
        "message": f.message,
        "nodes": e.size[0],
        "file": e.file,
        "replay": e.replay,
        **({"unshrunk": e.unshrunk} if e.unshrunk else {}),
        **({"others": [str(o) for o in e.others]} if e.others else {}),
    }


def _group(g: Group) -> Mapping[str, object]:
    return {
        "level": g.level,
        "kind": g.kind,
        "reason": g.reason,
        "common": sorted(g.common),
        "count": g.count,
        "smallest": finding(g.smallest),
        "examples": [finding(e) for e in g.examples],
        "files": [e.file for e in g.examples],
    }
