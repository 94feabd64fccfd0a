"""What a judgement of one program prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.table import Table

from didyma.oracle.report import Report
from didyma.show.console import FINDINGS, console, line


def verdict_record(report: Report, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict as JSON has it."""
    rows = [
        {
            "name": v.name,
            "agree": v.agree,
            "checked_share": round(v.checked_share, 6),
            "worst": round(v.worst, 4) if np.isfinite(v.worst) else None,
            "seconds": round(v.seconds, 4),
        }
        for v in report.levels
    ]
    findings = [
        {"level": f.level, "where": f.where, "kind": f.kind, "message": f.message}
        for f in report.findings
    ]
    refused = {"refused": report.refused} if report.refused else {}
    return {"agree": report.agree, "levels": rows, "findings": findings, **refused, **memory}


def verdict(report: Report, memory: Mapping[str, Any]) -> None:
    """Print the verdict of every level, and what the plan needs."""
    out = console()
    table = Table(title="agree" if report.agree else "DISAGREE")
    for head in ("level", "agrees", "checked share", "worst", "seconds"):
        table.add_column(head, justify="left" if head == "level" else "right")
    for v in report.levels:
        worst = f"{v.worst:.3f} of its bar" if np.isfinite(v.worst) else "outside"
        share = f"{v.checked_share:.4f}" if v.comparisons else "-"
        agrees = "yes" if v.agree else "NO"
        table.add_row(v.name, agrees, share, worst if v.comparisons else "-", f"{v.seconds:.2f}")
    out.print(table)
    if report.refused:
        line(out, f"every level refuses these inputs, as the reference does: {report.refused}")
    for f in report.findings[:FINDINGS]:
        line(out, f"{f.level}: {f.where} ({f.kind}): {f.message}")
    if len(report.findings) > FINDINGS:
        line(out, f"and {len(report.findings) - FINDINGS} more findings; --json has them all")
    if memory:
        bound = ", ".join(f"{k} = {v}" for k, v in memory["dims"].items())
        line(
            out,
            f"memory{f' at {bound}' if bound else ''}: planned peak {memory['planned_peak']:,} B"
            f" ({memory['planner']}), unplanned total {memory['unplanned_total']:,} B",
        )
        for name, value in memory["inputs"].items():
            line(out, f"input {name} = {value}")
        kernels = memory["kernels"]
        line(out, f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}")
        for name in kernels:
            line(out, f"  {name}")
