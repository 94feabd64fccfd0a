"""What campaigns print."""

from __future__ import annotations

from rich.table import Table

from didyma.fuzz.allocator.campaign import Result as MemoryResult
from didyma.fuzz.campaign import Result
from didyma.show.console import FINDINGS, console, line


def memory_campaign(r: MemoryResult) -> None:
    """Print what a campaign on memory plans saw, and how to see each finding again."""
    out = console()
    rate = f"{r.a_minute:,.0f} a minute of a core"
    table = Table(title=f"{r.schedules:,} schedules in {r.seconds:.0f} s, {rate}")
    table.add_column("domain")
    table.add_column("schedules", justify="right")
    for domain, n in sorted(r.by_domain.items()):
        table.add_row(domain, f"{n:,}")
    out.print(table)
    for c in r.findings[:FINDINGS]:
        again = f"--domain {c.domain} --seed {c.seed} --count 1 --run-every 1"
        line(out, f"{c.domain}, planner {c.planner}: python -m didyma.fuzz.allocator {again}")
        for v in c.verdicts[:3]:
            line(out, f"  {v.check}: {v.message}")


def campaign(r: Result) -> None:
    """Print what a campaign saw."""
    out = console()
    table = Table(title=f"{r.all.programs} programs in {r.seconds:.0f} s")
    for head in ("engine", "programs", "a minute", "checked share"):
        table.add_column(head, justify="left" if head == "engine" else "right")
    for team, t in r.by_team.items():
        rate = f"{r.rate(t.programs):.0f}"
        table.add_row(team, str(t.programs), rate, f"{t.checked_share:.4f}")
    out.print(table)
    out.print(_coverage(r))
    line(out, f"median graph: {r.median_nodes} nodes")
    if not r.findings:
        line(out, "findings: none")
    for f, file in zip(r.findings, r.files, strict=True):
        line(out, f"finding: {f.level} ({f.kind}) in {f.where}, {f.nodes} nodes: {f.message}")
        if file:
            line(out, f"  replay with: didyma replay {file}")


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
