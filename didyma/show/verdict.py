"""The verdict on one program: as a record of JSON types, and as a table made from that record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

from didyma import __version__
from didyma.oracle.report import Agreement, Finding, Level, Report
from didyma.show import brief
from didyma.show.console import FINDINGS, line, put

Record: TypeAlias = Mapping[str, Any]

WIDTH = 80  # columns of what is printed, also without a terminal
_HEADS = ("level", "verdict", "rounds", "checked", "worst", "off", "ring", "seconds")
_OUTCOMES = {o.lower(): str(o) for o in Agreement}


def record(report: Report, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict, and the memory that the plan needs, as a record."""
    s = report.setting
    refused = (
        {"refused": report.refused, "refused_rounds": report.refusals} if report.refused else {}
    )
    return {
        "version": __version__,
        "verdict": report.outcome.lower(),
        "agree": report.agree,
        "seed": s.seed,
        "rounds": list(s.rounds),
        "engines": list(s.engines),
        "sizes": dict(s.sizes),
        "default_sizes": [name for name in s.sizes if name not in s.given],
        "levels": [_level(v) for v in report.levels],
        "findings": [_finding(f) for f in report.findings],
        **refused,
        **memory,
    }


def _finding(f: Finding) -> dict[str, str]:
    return {"level": f.level, "where": f.where, "kind": f.kind, "message": f.message}


def _level(v: Level) -> dict[str, Any]:
    return {
        "name": v.name,
        "verdict": v.outcome.lower(),
        "agree": v.agree,
        "rounds": v.rounds,
        "checked_share": round(v.checked_share, 6) if v.total else None,
        "worst": round(v.worst, 4) if np.isfinite(v.worst) else None,
        "off": float(f"{v.off:.4g}") if np.isfinite(v.off) else None,
        "ring_share": round(v.ring_share, 6) if v.ring_total else None,
        "seconds": round(v.seconds, 4),
        **({"note": v.note} if v.note else {}),
    }


def table(r: Record) -> None:
    """Print the record of a verdict: a row for each level, findings, and what the plan needs."""
    out = Console(width=WIDTH, highlight=False)
    line(out, _OUTCOMES[r["verdict"]])
    rows = Table(box=None, padding=(0, 1, 0, 0))
    for head in _HEADS:
        left = head in ("level", "verdict")
        rows.add_column(head, justify="left" if left else "right", overflow="fold")
    for level in r["levels"]:
        rows.add_row(*_cells(level))
    put(out, rows)
    notes = (f"{v['name']}: {v['note']}" for v in r["levels"] if "note" in v)
    for text in (*_legend(r), *notes, *_setting(r), *_findings(r)):
        line(out, text)
    if "planned_peak" in r:
        for text in _memory(r):
            line(out, text)


def _cells(v: Record) -> tuple[str, ...]:
    share, worst = "-", "-"
    if v["checked_share"] is not None:
        share = f"{v['checked_share']:.4f}"
        worst = "outside" if v["worst"] is None else f"{v['worst']:.3f}"
    off = "-" if v["off"] is None else f"{v['off']:.1e}"
    ring = "-" if v["ring_share"] is None else f"{v['ring_share']:.4f}"
    seconds = f"{v['seconds']:.2f}"
    return v["name"], _OUTCOMES[v["verdict"]], str(v["rounds"]), share, worst, off, ring, seconds


def _legend(r: Record) -> Iterator[str]:
    yield "checked: share of elements decided; worst: largest share of an error bar used"
    if any(v["off"] is not None for v in r["levels"]):
        yield "off: largest error against float64, as a share of the largest value"
    if any(v["ring_share"] is not None for v in r["levels"]):
        yield "ring: share of floats whose terms were compared exactly, in the ring"


def _setting(r: Record) -> Iterator[str]:
    rounds = r["rounds"]
    if r["sizes"]:
        yield f"sizes: {brief.sizes(r['sizes'], r['default_sizes'])}"
    if rounds:
        seed = "" if r["seed"] is None else f" from seed {r['seed']}"
        counts = Counter[str](rounds).items()
        kinds = (f"{n} × {k}" if n > 1 else k for k, n in counts)
        many = f"{len(rounds)} round{'s' * (len(rounds) != 1)} of inputs{seed}"
        yield fill(f"{many}: {', '.join(kinds)}", WIDTH, subsequent_indent="  ")
    if "refused" in r:
        many = f"{r['refused_rounds']} of {len(rounds)}"
        yield f"every level refuses {many} rounds, as the reference does: {r['refused']}"
    if r["verdict"] == Agreement.UNCHECKED:
        none = ", ".join(v["name"] for v in r["levels"] if v["verdict"] == Agreement.UNCHECKED)
        yield f"nothing could be decided by: {none or 'any level'}"


def _findings(r: Record) -> Iterator[str]:
    findings, rounds = r["findings"], r["rounds"]
    if findings and len(rounds) > 1:
        yield f"round {len(rounds)} ({rounds[-1]}) disagrees:"
    for f in findings[:FINDINGS]:
        yield f"{f['level']}: {f['where']} ({f['kind']}): {f['message']}"
    if len(findings) > FINDINGS:
        yield f"and {len(findings) - FINDINGS} more findings; --json has them all"


def _memory(r: Record) -> Iterator[str]:
    yield (
        f"memory: planned peak {r['planned_peak']:,} B ({r['planner']}), "
        f"unplanned total {r['unplanned_total']:,} B"
    )
    for name, value in r["inputs"].items():
        yield f"input {name} = {value}"
    kernels = r["kernels"]
    yield f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    yield from (f"  {name}" for name in kernels)
