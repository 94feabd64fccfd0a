"""What the commands print for people; tables are at least 96 columns wide, also in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from didyma.codegen.runtime.registry import Availability
from didyma.fuzz.allocator.campaign import Result as MemoryResult
from didyma.fuzz.campaign import Result
from didyma.oracle.report import Report
from didyma.refimpl.ops.spec import Op

_FINDINGS = 20  # of one report, printed


def _console() -> Console:
    console = Console(highlight=False)
    return Console(width=max(console.width, 96), highlight=False)


def _line(console: Console, text: str) -> None:
    """Print a line as it is: neither wrapped nor read as markup, so that it can be copied."""
    console.print(text, soft_wrap=True, markup=False)


def memory_campaign(r: MemoryResult) -> None:
    """Print what a campaign on memory plans saw, and how to see each finding again."""
    console = _console()
    rate = f"{r.a_minute:,.0f} a minute of a core"
    table = Table(title=f"{r.schedules:,} schedules in {r.seconds:.0f} s, {rate}")
    table.add_column("domain")
    table.add_column("schedules", justify="right")
    for domain, n in sorted(r.by_domain.items()):
        table.add_row(domain, f"{n:,}")
    console.print(table)
    for c in r.findings[:_FINDINGS]:
        again = f"--domain {c.domain} --seed {c.seed} --count 1 --run-every 1"
        _line(console, f"{c.domain}, planner {c.planner}: python -m didyma.fuzz.allocator {again}")
        for v in c.verdicts[:3]:
            _line(console, f"  {v.check}: {v.message}")


def campaign(r: Result) -> None:
    """Print what a campaign saw."""
    console = _console()
    table = Table(title=f"{r.all.programs} programs in {r.seconds:.0f} s")
    for head in ("engine", "programs", "a minute", "checked share"):
        table.add_column(head, justify="left" if head == "engine" else "right")
    for team, t in r.by_team.items():
        rate = f"{r.rate(t.programs):.0f}"
        table.add_row(team, str(t.programs), rate, f"{t.checked_share:.4f}")
    console.print(table)
    console.print(_coverage(r))
    _line(console, f"median graph: {r.median_nodes} nodes")
    if not r.findings:
        _line(console, "findings: none")
    for f, file in zip(r.findings, r.files, strict=True):
        _line(console, f"finding: {f.level} ({f.kind}) in {f.where}, {f.nodes} nodes: {f.message}")
        if file:
            _line(console, f"  replay with: didyma replay {file}")


def _coverage(r: Result) -> Table:
    """Table of how often each op met each dtype: a digit, or + for ten times and more."""
    title = f"op × dtype coverage: {len(r.covered)} of {r.possible} pairs"
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    dtypes = sorted({d for _, d in r.covered})
    table.add_column("op", no_wrap=True)
    for d in dtypes:
        table.add_column(d, justify="right", no_wrap=True)
    for op in sorted({o for o, _ in r.covered}):
        counts = [r.covered.get((op, d), 0) for d in dtypes]
        table.add_row(op, *("·" if c == 0 else "+" if c > 9 else str(c) for c in counts))
    return table


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
    console = _console()
    table = Table(title="agree" if report.agree else "DISAGREE")
    for head in ("level", "agrees", "checked share", "worst", "seconds"):
        table.add_column(head, justify="left" if head == "level" else "right")
    for v in report.levels:
        worst = f"{v.worst:.3f} of its bar" if np.isfinite(v.worst) else "outside"
        share = f"{v.checked_share:.4f}" if v.comparisons else "-"
        agrees = "yes" if v.agree else "NO"
        table.add_row(v.name, agrees, share, worst if v.comparisons else "-", f"{v.seconds:.2f}")
    console.print(table)
    if report.refused:
        _line(console, f"every level refuses these inputs, as the reference does: {report.refused}")
    for f in report.findings[:_FINDINGS]:
        _line(console, f"{f.level}: {f.where} ({f.kind}): {f.message}")
    if len(report.findings) > _FINDINGS:
        _line(console, f"and {len(report.findings) - _FINDINGS} more findings; --json has them all")
    if memory:
        bound = ", ".join(f"{k} = {v}" for k, v in memory["dims"].items())
        _line(
            console,
            f"memory{f' at {bound}' if bound else ''}: planned peak {memory['planned_peak']:,} B"
            f" ({memory['planner']}), unplanned total {memory['unplanned_total']:,} B",
        )
        for name, value in memory["inputs"].items():
            _line(console, f"input {name} = {value}")
        kernels = memory["kernels"]
        _line(console, f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}")
        for name in kernels:
            _line(console, f"  {name}")


def ops(chosen: Sequence[Op]) -> None:
    """Print a line for each op."""
    console = _console()
    table = Table("op", "kind", "dtypes", "meaning", box=None, padding=(0, 2, 0, 0))
    for x in chosen:
        table.add_row(x.name, x.kind, str(len(x.dtypes)), Text(x.doc.splitlines()[0]))
    console.print(table)
    _line(console, f"{len(chosen)} ops; `didyma ops NAME` tells all of one")


def op(x: Op) -> None:
    """Print everything about one op."""
    console = _console()
    low, high = x.arity
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row(x.name, Text(x.doc))
    table.add_row("kind", x.kind)
    table.add_row("operands", str(low) if low == high else f"{low} to {high}")
    table.add_row("dtypes", " ".join(x.dtypes))
    for a in x.attrs:
        choices = f" ({', '.join(a.choices)})" if a.choices else ""
        table.add_row("attribute", Text(f"{a.name}: {a.kind}{choices}; {a.doc}"))
    table.add_row("special values", Text(x.special))
    with np.printoptions(precision=6, threshold=40, linewidth=76):
        for i, operand in enumerate(x.example.operands):
            table.add_row("example" if i == 0 else "", Text(f"operand {i} = {operand!r}"))
        for key, value in x.example.attrs:
            table.add_row("", Text(f"{key} = {value!r}"))
        table.add_row("", Text(f"result = {x.example.result!r}"))
    console.print(table)


def doctor(
    states: Sequence[Availability],
    formats: Sequence[Availability],
    versions: Mapping[str, str | None],
) -> None:
    """Print what can run here, with a command that mends each thing that cannot."""
    console = _console()
    table = Table("engine", "works here", "why")
    for s in (*states, *formats):
        table.add_row(s.name, "yes" if s.runs else "no", Text(s.why))
    console.print(table)
    for s in (*states, *formats):
        if not s.runs:
            _line(console, f"to mend {s.name}: {s.mend}")
    have = [f"{name} {v}" for name, v in versions.items() if v is not None]
    lack = [name for name, v in versions.items() if v is None]
    _line(console, f"found: {', '.join(have)}")
    if lack:
        _line(console, f"absent: {', '.join(lack)}")
