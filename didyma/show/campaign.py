"""The output of campaigns for people: lines that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from didyma.fuzz.graph_domain import possible
from didyma.fuzz.groups import Group
from didyma.fuzz.memory_domain import a_minute, counts
from didyma.fuzz.result import Result
from didyma.show.console import FINDINGS, console, line

WIDTH = 79  # of the table of coverage


def memory_campaign(r: Result) -> None:
    """Print what a campaign on memory plans saw, and how to see each finding again."""
    out = console()
    rate = f"{a_minute(r):,.0f} a minute of a core"
    line(out, f"{r.all.cases:,} schedules in {r.seconds:.0f} s, {rate}")
    table = Table()
    table.add_column("domain")
    table.add_column("schedules", justify="right")
    for domain, n in counts(r, "domain").items():
        table.add_row(domain, f"{n:,}")
    out.print(table)
    line(out, f"seed {r.seed}; repeat with --memory --seed {r.seed}")
    for e in r.findings[:FINDINGS]:
        line(out, f"{e.finding.level}, planner {e.finding.where}: {e.replay}")
        for f in (e.finding, *e.others)[:3]:
            line(out, f"  {f.kind}: {f.message}")


def campaign(r: Result, coverage: bool = False) -> None:
    """Print what a campaign saw; ``coverage`` asks for the table of ops and dtypes."""
    out = console()
    line(out, f"{r.all.cases:,} programs in {r.seconds:.0f} s")
    table = Table()
    for head in ("engine", "programs", "a minute", "checked share"):
        table.add_column(head, justify="left" if head == "engine" else "right")
    for name, t in r.tallies.items():
        table.add_row(name, str(t.cases), f"{r.rate(t.cases):.0f}", f"{t.checked_share:.4f}")
    out.print(table)
    ops = len({op for op, _ in r.covered})
    pairs = f"{len(r.covered)} of {possible()} pairs of op and dtype"
    line(out, f"coverage: {ops} ops, {pairs}; median graph: {r.median_size} nodes")
    if coverage:
        _coverage(out, r)
    line(out, f"seed {r.seed}; repeat with --seed {r.seed} --jobs {r.jobs} and the same engines")
    if not r.groups:
        line(out, "findings: none")
    for number, g in enumerate(r.groups, 1):
        _group(out, number, g)


def _group(out: Console, number: int, g: Group) -> None:
    """Print a group's smallest finding, how many there were, and the files that are kept."""
    f, nodes = g.smallest.finding, g.smallest.size[0]
    many = f"{g.count} findings" if g.count > 1 else "1 finding"
    line(out, "")
    line(out, f"group {number}: {g.level} ({g.kind}), {many}")
    if g.count > 1 and g.common:
        line(out, f"  in common: {', '.join(sorted(g.common))}")
    line(out, f"  smallest: {nodes} node{'s' * (nodes != 1)}, in {f.where}: {f.message}")
    for e in g.examples:
        if e.file:
            line(out, f"  replay with: {e.replay}")
        if e.unshrunk:
            line(out, f"  could not be shrunk: {e.unshrunk}")
    if len(g.examples) < g.count and g.examples[0].file:
        line(out, f"  kept: the smallest {len(g.examples)}")


def _coverage(out: Console, r: Result) -> None:
    """Print how often each op met each dtype: a digit, or + for ten times and more."""
    dtypes = sorted({d for _, d in r.covered})
    left = max((len(op) for op, _ in r.covered), default=0)
    for some in _lines(dtypes, WIDTH - left - 1):
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("op", no_wrap=True)
        for d in some:
            table.add_column(d, justify="right", no_wrap=True)
        for op in sorted({o for o, d in r.covered if d in some}):
            counts = [r.covered.get((op, d), 0) for d in some]
            table.add_row(op, *("·" if c == 0 else "+" if c > 9 else str(c) for c in counts))
        out.print(table)


def _lines(words: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    """Yield words in lines of at most ``width`` characters, or of one word."""
    taken: list[str] = []
    for word in words:
        if taken and sum(len(w) + 1 for w in taken) + len(word) > width:
            yield taken
            taken = []
        taken.append(word)
    if taken:
        yield taken
