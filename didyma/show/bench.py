"""Benchmarks for people: counters, what two records differ in, times beside other libraries."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from rich.markup import escape
from rich.table import Table

from didyma.bench.counters import MEANINGS
from didyma.bench.gpu import OWN, SUSPECT, Timed
from didyma.bench.records import Change, Comparison
from didyma.show.console import console, line, put

Record: TypeAlias = Mapping[str, Any]

SHOWN = ("launches", "bytes", "of least", "accesses", "longest", "registers")


def counted(rows: Iterable[Record]) -> None:
    """Print counters, one workload per row; the meaning of each counter stands below."""
    out, table = console(), Table(box=None, pad_edge=False)
    table.add_column("workload", no_wrap=True)
    for name in SHOWN:
        table.add_column(name, justify="right", no_wrap=True)
    for r in rows:
        table.add_row(r["name"], *_counted(r["extra_info"]))
    put(out, table)
    for m in MEANINGS:
        line(out, f"{m.name}: {m.text}")


def _counted(found: Mapping[str, int]) -> Iterator[str]:
    moved = found["read"] + found["written"]
    yield f"{found['launches']}"
    yield f"{moved:,}"
    yield f"{moved / found['least']:.2f}"
    yield f"{found['accesses']:,}"
    yield f"{found['longest']:,}"
    spills = f" + {found['spills']} B" if found.get("spills") else ""
    yield f"{found['registers']}{spills}" if "registers" in found else ""


def changes(c: Comparison) -> None:
    """Print what two records differ in: failures first, then what grew most."""
    out = console()
    if c.changes:
        table = Table(box=None, pad_edge=False)
        for name in ("benchmark", "quantity"):
            table.add_column(name, no_wrap=True)
        for name in ("before", "after", "change"):
            table.add_column(name, justify="right", no_wrap=True)
        for x in ordered(c.changes):
            mark = " FAILED" if x.failed else ""
            row = (_number(x.before), _number(x.after), _share(x.growth) + mark)
            table.add_row(escape(x.benchmark), x.quantity, *row)
        put(out, table)
    for word, names in (("only before", c.lost), ("only after", c.new)):
        if names:
            line(out, f"{word}: {', '.join(names)}")
    failed = sum(x.failed for x in c.changes)
    line(out, f"{c.compared} benchmarks compared, {len(c.changes)} changes, {failed} failed")


def ordered(found: Sequence[Change]) -> list[Change]:
    """Return failures first, then by growth, the most first."""
    return sorted(found, key=lambda x: (not x.failed, -x.growth, x.benchmark, x.quantity))


def comparison(c: Comparison) -> dict[str, Any]:
    """Return what two records differ in as JSON types; an infinite growth is null."""
    rows = [
        {
            "benchmark": x.benchmark, "quantity": x.quantity, "before": x.before,
            "after": x.after, "growth": x.growth if math.isfinite(x.growth) else None,
            "failed": x.failed,
        }
        for x in ordered(c.changes)
    ]  # fmt: skip
    return {
        "compared": c.compared, "failed": sum(x.failed for x in c.changes), "changes": rows,
        "lost": list(c.lost), "new": list(c.new),
    }  # fmt: skip


def timed(rows: Sequence[Timed]) -> None:
    """Print times and shares of the copy's bandwidth, one workload per row."""
    out, table = console(), Table()
    contenders = list(dict.fromkeys(r.contender for r in rows))
    for name in ("workload", *contenders, "times the best peer"):
        table.add_column(name, justify="left" if name == "workload" else "right")
    by_workload: dict[str, dict[str, Timed]] = {}
    for r in rows:
        by_workload.setdefault(r.workload, {})[r.contender] = r
    for name, found in by_workload.items():
        cells = ["none" if c not in found else figures(found[c]) for c in contenders]
        ratio = speed_up(found)
        table.add_row(name, *cells, "" if ratio is None else f"{ratio:.2f}")
    put(out, table)
    ratios = [r for r in map(speed_up, by_workload.values()) if r is not None]
    if ratios:
        line(out, f"geometric mean: {statistics.geometric_mean(ratios):.2f} times the best peer")
    for r in rows:
        if r.reason:
            line(out, f"{r.workload}, {r.contender}: {r.reason}")
        if r.off is not None and not r.off <= SUSPECT:
            line(out, f"{r.workload}: WRONG: off by {r.off:.2g} of the largest magnitude")


def speed_up(found: Mapping[str, Timed]) -> float | None:
    """Return the best peer's time over ours; None unless both were timed."""
    own = found[OWN].seconds if OWN in found else None
    peers = [t.seconds for name, t in found.items() if name != OWN and t.seconds]
    return min(peers) / own if own and peers else None


def figures(t: Timed) -> str:
    """Return a time in microseconds and its share of the copy's bandwidth; "none" without one."""
    if t.seconds is None or t.share is None:
        return "none"
    return f"{1e6 * t.seconds:,.1f} us  {t.share:.2f}"


def _number(x: float) -> str:
    return f"{x:,}" if float(x).is_integer() else f"{x:.4g}"


def _share(x: float) -> str:
    return f"{100 * x:+.1f} %" if math.isfinite(x) else "from 0"
