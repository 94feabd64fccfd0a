"""The results of campaigns as tables, made from their records: lines that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from didyma.show.console import console, line, put

Record: TypeAlias = Mapping[str, Any]

WIDTH = 79  # of the table of coverage
SOME = 40  # names of what was never seen that are printed; a page and JSON have all


def campaign(r: Record) -> None:
    """Print the record of a campaign; the coverage of graphs as a table if it has the counts."""
    out = console()
    line(out, f"{r['programs']:,} cases in {r['seconds']:.0f} s, {r['jobs']} jobs")
    table = Table()
    for head in ("domain", "cases", "a minute of a core", "time", "checked share"):
        table.add_column(head, justify="left" if head == "domain" else "right")
    for name, d in r["domains"].items():
        rate, time = f"{d['per_minute_per_core']:,.0f}", f"{d['share_of_time']:.0%}"
        checked = f"{d['checked_share']:.4f}" if d["cases"] else "-"
        table.add_row(name, f"{d['cases']:,}", rate, time, checked)
    put(out, table)
    if "engines" in r:
        c = r["coverage"]
        pairs = f"{c['pairs']} of {c['possible']} pairs of op and dtype"
        line(out, f"graphs: on {' and '.join(r['engines'])}; {c['ops']} ops, {pairs}; "
             f"median {r['median_nodes']} nodes")  # fmt: skip
    if "report" in r:
        _report(out, r["report"])
    for name, d in r["domains"].items():
        if "ring_share" in d:
            line(out, f"{name}: {d['ring_share']:.2%} of {d['ring_total']:,} floats in the ring")
    again = f"repeat with --seed {r['seed']} --jobs {r['jobs']} and the same domains and engines"
    line(out, f"seed {r['seed']}; {again}")
    if r["unexplained_deaths"]:
        line(out, f"{r['unexplained_deaths']} processes died at cases that went well alone")
    if r["lost_processes"]:
        line(out, f"{r['lost_processes']} processes could not be started again")
    if not r["groups"]:
        line(out, "findings: none")
    for number, g in enumerate(r["groups"], 1):
        _group(out, number, g)


def _group(out: Console, number: int, g: Record) -> None:
    """Print a group's smallest finding, how many there were, and the files that are kept."""
    f, count = g["smallest"], g["count"]
    many = f"{count} findings" if count > 1 else "1 finding"
    line(out, "")
    line(out, f"group {number}: {g['level']} ({g['kind']}), {many}")
    if count > 1 and g["common"]:
        line(out, f"  in common: {', '.join(g['common'])}")
    nodes = f"{f['nodes']} node{'s' * (f['nodes'] != 1)}"
    line(out, f"  smallest: {nodes}, in {f['where']}: {f['message']}")
    for e in g["examples"]:
        line(out, f"  replay with: {e['replay']}")
        if "unshrunk" in e:
            line(out, f"  could not be shrunk: {e['unshrunk']}")
    if len(g["examples"]) < count and f["file"]:
        line(out, f"  kept: the smallest {len(g['examples'])}")


def _report(out: Console, report: Record) -> None:
    """Print what was covered: ops by dtype, decisions, and what never was."""
    _coverage(out, report["dtypes"])
    for stage, fired in report["decisions"].items():
        done, mattered = (sum(n[k] > 0 for n in fired.values()) for k in ("fired", "mattered"))
        line(out, f"{stage}: {done} of {len(fired)} decisions fired, {mattered} mattered")
    _decisions(out, report["decisions"])
    never = report["never"]
    line(out, f"neighbours never drawn: {never['neighbours']:,} pairs of ops")
    for said, what in _NEVER.items():
        names = never[what]
        if names:
            line(out, f"{said}, {len(names)}: {', '.join(names[:SOME])}"
                 + (", …" if len(names) > SOME else ""))  # fmt: skip
    if report["lines"]:
        total = sum(map(len, report["lines"].values()))
        line(out, f"lines of codegen that never ran: {total:,}")
        for name, numbers in report["lines"].items():
            line(out, f"  {name}: {ranges(numbers)}")


_NEVER: Mapping[str, str] = MappingProxyType(
    {
        "dtypes that no graph gave an op": "dtypes",
        "decisions that never fired": "decisions",
        "decisions that fired and never mattered": "mattered",
    }
)


def _decisions(out: Console, decisions: Mapping[str, Record]) -> None:
    """Print how many programs had each decision, and in how many of those examined it mattered."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("decision", "stage", "fired", "mattered"):
        table.add_column(head, justify="left" if head in ("decision", "stage") else "right")
    for stage, fired in decisions.items():
        for name, n in fired.items():
            mattered = f"{n['mattered']} of {n['examined']}" if n["examined"] else "·"
            table.add_row(name, stage, f"{n['fired']:,}" if n["fired"] else "·", mattered)
    put(out, table)


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers in ranges.

    >>> ranges([3, 4, 5, 9, 11, 12])
    '3-5, 9, 11-12'
    """
    found: list[list[int]] = []
    for n in numbers:
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in found)


def _coverage(out: Console, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Print how often each op met each dtype: a digit, or + for ten times and more."""
    dtypes = sorted({d for row in counts.values() for d in row})
    left = max(map(len, counts), default=0)
    for some in _lines(dtypes, WIDTH - left - 1):
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("op", no_wrap=True)
        for d in some:
            table.add_column(d, justify="right", no_wrap=True)
        for op, row in counts.items():
            cells = [row.get(d, 0) for d in some]
            if any(cells):
                table.add_row(op, *("·" if c == 0 else "+" if c > 9 else str(c) for c in cells))
        put(out, table)


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
