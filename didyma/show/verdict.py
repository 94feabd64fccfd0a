"""What a judgement of one program prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from didyma import __version__
from didyma.oracle.report import Level, Outcome, Report
from didyma.show.console import FINDINGS, line

WIDTH = 80  # columns of what is printed, also without a terminal
_HEADS = ("level", "verdict", "rounds", "checked", "worst", "off", "seconds")


def verdict_record(report: Report, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict as JSON has it."""
    s = report.setting
    findings = [
        {"level": f.level, "where": f.where, "kind": f.kind, "message": f.message}
        for f in report.findings
    ]
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
        "levels": [_row(v) for v in report.levels],
        "findings": findings,
        **refused,
        **memory,
    }


def _row(v: Level) -> dict[str, Any]:
    return {
        "name": v.name,
        "verdict": v.outcome.lower(),
        "agree": v.agree,
        "rounds": v.rounds,
        "checked_share": round(v.checked_share, 6) if v.total else None,
        "worst": round(v.worst, 4) if np.isfinite(v.worst) else None,
        "off": float(f"{v.off:.4g}") if np.isfinite(v.off) else None,
        "seconds": round(v.seconds, 4),
        **({"note": v.note} if v.note else {}),
    }


def verdict(report: Report, memory: Mapping[str, Any]) -> None:
    """Print the verdict of every level, and what the plan needs."""
    out = Console(width=WIDTH, highlight=False)
    line(out, str(report.outcome))
    table = Table(box=None, padding=(0, 1, 0, 0))
    for head in _HEADS:
        left = head in ("level", "verdict")
        table.add_column(head, justify="left" if left else "right", overflow="fold")
    for v in report.levels:
        table.add_row(*_cells(v))
    out.print(table)
    notes = (f"{v.name}: {v.note}" for v in report.levels if v.note)
    for text in (*_legend(report), *notes, *_setting(report), *_findings(report)):
        line(out, text)
    if memory:
        for text in _memory(memory):
            line(out, text)


def _cells(v: Level) -> tuple[str, ...]:
    share = f"{v.checked_share:.4f}" if v.total else "-"
    worst = f"{v.worst:.3f}" if np.isfinite(v.worst) else "outside"
    worst = worst if v.total else "-"
    off = "-" if np.isnan(v.off) else f"{v.off:.1e}"
    return v.name, str(v.outcome), str(v.rounds), share, worst, off, f"{v.seconds:.2f}"


def _legend(report: Report) -> Iterator[str]:
    yield "checked: share of elements decided; worst: largest share of an error bar used"
    if any(not np.isnan(v.off) for v in report.levels):
        yield "off: largest error against float64, as a share of the largest value"


def _setting(report: Report) -> Iterator[str]:
    s = report.setting
    if s.sizes:
        yield f"sizes: {s.bound()}"
    if s.rounds:
        seed = "" if s.seed is None else f" from seed {s.seed}"
        kinds = (f"{n} × {k}" if n > 1 else k for k, n in Counter(s.rounds).items())
        many = f"{len(s.rounds)} round{'s' * (len(s.rounds) != 1)} of inputs{seed}"
        yield fill(f"{many}: {', '.join(kinds)}", WIDTH, subsequent_indent="  ")
    if report.refused:
        many = f"{report.refusals} of {len(s.rounds)}"
        yield f"every level refuses {many} rounds, as the reference does: {report.refused}"
    if report.outcome is Outcome.UNCHECKED:
        none = ", ".join(v.name for v in report.levels if v.outcome is Outcome.UNCHECKED)
        yield f"nothing could be decided by: {none or 'any level'}"


def _findings(report: Report) -> Iterator[str]:
    if report.findings and len(report.setting.rounds) > 1:
        number = len(report.setting.rounds)
        yield f"round {number} ({report.setting.rounds[-1]}) disagrees:"
    for f in report.findings[:FINDINGS]:
        yield f"{f.level}: {f.where} ({f.kind}): {f.message}"
    if len(report.findings) > FINDINGS:
        yield f"and {len(report.findings) - FINDINGS} more findings; --json has them all"


def _memory(memory: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"memory: planned peak {memory['planned_peak']:,} B ({memory['planner']}), "
        f"unplanned total {memory['unplanned_total']:,} B"
    )
    for name, value in memory["inputs"].items():
        yield f"input {name} = {value}"
    kernels = memory["kernels"]
    yield f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    yield from (f"  {name}" for name in kernels)
