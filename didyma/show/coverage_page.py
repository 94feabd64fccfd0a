"""What a campaign covered, as one page that needs nothing else: pictures first, then lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from didyma.show.campaign import ranges

Counts: TypeAlias = Mapping[str, Mapping[str, int]]

# Of one hue, from seldom to often; what was never seen is white with a red dot or a red name.
SHADES = ("#e3ecf7", "#bfd5ee", "#93b9e0", "#5f95cc", "#3672b0", "#174f8c")
CELL, SMALL = 16, 9  # pixels of a cell: of dtypes, of neighbours
FEW = 8  # things that are listed with their numbers, and not counted alone
STYLE = """
body { font: 14px/1.45 sans-serif; margin: 24px auto; max-width: 1180px; color: #222 }
h1 { font-size: 22px } h2 { font-size: 17px; margin-top: 30px }
table { border-collapse: collapse } td, th { padding: 2px 12px 2px 0; text-align: left }
td.n, th.n { text-align: right } .never { color: #b3261e } svg text { fill: #333 }
p { max-width: 820px }
details { margin: 8px 0 } summary { cursor: pointer }
"""

DOMAINS_TEXT = """
<p>A domain is a kind of cases. <b>Rate</b>: cases a minute of one core. <b>Time</b>: share of the
campaign's processor time. <b>Checked</b>: share of the elements of results that were compared; at
the others a decision hangs on rounding, so that no single value is right. <b>Covered</b>: how many
different things the cases had.</p>
"""
DECISIONS_TEXT = """
<p>A decision is a rewrite rule that applied, a value that was fused, the schedule of a kernel, or a
reuse of memory. <b>Fired</b>: cases in which it was made. <b>Mattered</b>: of the cases that were
examined, those in which a wrong result of the decision would have been seen. Each decision is
examined until it has mattered a few times. Red: it never fired or never mattered, so that a fault
in it could not have been found.</p>
"""
DTYPES_TEXT = """
<p>Left: ops by the dtype of their first operand. Right: ops by its number of axes;
<i>symbolic</i> means that some size is known at run time alone. A red dot: the op takes the dtype,
and no graph had it. White on the left: the op does not take the dtype. Hover over a cell for its
number of graphs.</p>
"""
VALUES_TEXT = """
<p>Of inputs and constants alone, not of what other ops computed. <i>tiny</i>: below the normal
numbers of the dtype; <i>huge</i>: above the root of its largest number; <i>least</i>,
<i>most</i>: the ends of an integer dtype; <i>width</i>: its number of bits, or more.</p>
"""
PAIRS_TEXT = """
<p>The op of a column read the result of the op of a row. White: no graph had that pair, which may
be impossible, such as a logarithm of a truth value. Hover over a cell for the pair and its number
of graphs.</p>
"""
ATTRIBUTES_TEXT = """
<h2>Attributes</h2><details><summary>Graphs in which each op had attributes of each class</summary>
<p>A number is negative, 0, 1 or more; a list has the classes of its entries; a constant is a scalar
or an array.</p>
"""


def page(r: Mapping[str, Any]) -> str:
    """Return the page of a campaign's record with a report on its coverage."""
    return "\n".join(_page(r)) + "\n"


def _page(r: Mapping[str, Any]) -> Iterator[str]:
    report = r["report"]
    title = f"What {r['programs']:,} cases covered"
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    yield f"<style>{STYLE}</style><h1>{title}</h1>"
    found = f"{len(r['groups'])} groups of findings" if r["groups"] else "no findings"
    many = f"{r['jobs']} processes" if r["jobs"] > 1 else "one process"
    yield f"<p>A campaign of {r['seconds']:.0f} s in {many}, seed {r['seed']}: {found}.</p>"
    yield from _domains(r["domains"])
    yield from _decisions(report["decisions"])
    dtypes = sorted({d for row in report["dtypes"].values() for d in row})
    ranks = sorted({d for row in report["ranks"].values() for d in row})
    yield "<h2>Ops by dtype and by rank</h2>"
    yield DTYPES_TEXT
    yield from _legend()
    never = {tuple(pair.split()) for pair in report["never"]["dtypes"]}
    yield '<div style="display: flex; gap: 30px; flex-wrap: wrap">'
    yield from _heat(report["dtypes"], dtypes, never)
    yield from _heat(report["ranks"], ranks, frozenset())
    yield "</div>"
    yield "<h2>Ops by the kinds of values that they read</h2>"
    yield VALUES_TEXT
    kinds = sorted({k for row in report["values"].values() for k in row})
    yield from _heat(report["values"], kinds, frozenset())
    yield from _neighbours(report["neighbours"], report["never"]["neighbours"])
    yield from _attributes(report["attributes"])
    yield from _lines(report["lines"])


def _domains(domains: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Domains</h2>"
    yield DOMAINS_TEXT
    yield "<table><tr><th>domain<th class=n>cases"
    yield "<th class=n>rate<th class=n>time<th class=n>checked<th>covered</tr>"
    for name, d in domains.items():
        said = ", ".join(_counted(k, v) for k, v in d["covered"].items())
        yield (
            f"<tr><td>{escape(name)}<td class=n>{d['cases']:,}"
            f"<td class=n>{d['per_minute_per_core']:,.0f}<td class=n>{d['share_of_time']:.0%}"
            f"<td class=n>{d['checked_share']:.4f}<td>{escape(said)}</tr>"
        )
    yield "</table>"


def _counted(word: str, counted: Any) -> str:
    """Write how many there are of something, or how often there was each of a few things."""
    if isinstance(counted, int):
        return f"{word}: {counted:,}"
    if len(counted) > FEW:
        return f"{word}: {len(counted)}"
    return f"{word}: " + ", ".join(f"{k} ({n:,})" for k, n in counted.items())


def _decisions(decisions: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    """Show how often each decision was made, and in how many programs examined it mattered."""
    yield "<h2>Decisions of the compiler</h2>"
    yield DECISIONS_TEXT
    for stage, made in decisions.items():
        fired, mattered = (sum(n[k] > 0 for n in made.values()) for k in ("fired", "mattered"))
        most = max((n["fired"] for n in made.values()), default=0)
        yield f"<h3>{escape(stage)}: {fired} of {len(made)} fired, {mattered} mattered</h3>"
        yield "<table><tr><th>decision<th colspan=2>fired<th class=n>mattered</tr>"
        for name, n in sorted(made.items(), key=lambda pair: (pair[1]["fired"], pair[0])):
            style = "" if n["mattered"] else " class=never"
            long = _long(n["fired"], most)
            bar = f'<rect width="{long}" height="9" fill="{SHADES[3]}"/>'
            often = f"{n['fired']:,}" if n["fired"] else "never"
            showed = f"{n['mattered']:,} of {n['examined']:,}" if n["examined"] else "not examined"
            yield f'<tr{style}><td>{escape(name)}<td><svg width="44" height="9">{bar}</svg>'
            yield f"<td class=n>{often}<td class=n>{showed}</tr>"
        yield "</table>"


def _long(n: int, most: int) -> int:
    return round(44 * math.log1p(n) / math.log1p(most)) if n else 0


def _shade(n: int, most: int) -> str:
    return SHADES[min(len(SHADES) - 1, int(len(SHADES) * math.log1p(n) / math.log1p(most + 1)))]


def _legend() -> Iterator[str]:
    """Say what the shades stand for: they grow with the logarithm of the number of graphs."""
    cells = "".join(
        f'<rect x="{CELL * i}" y="0" width="{CELL - 1}" height="{CELL - 1}" fill="{shade}"/>'
        for i, shade in enumerate(SHADES)
    )
    wide = CELL * len(SHADES)
    yield f'<p>one graph <svg width="{wide}" height="{CELL - 1}">{cells}</svg> the most of any</p>'


def _heat(
    counts: Counts, columns: Sequence[str], never: Iterable[tuple[str, ...]]
) -> Iterator[str]:
    """Show a table of ops and something they met, as cells that say on hover how often."""
    rows = sorted({*counts, *(op for op, _ in never)})
    missing, most = {*never}, max((n for row in counts.values() for n in row.values()), default=0)
    columns = sorted({*columns, *(c for _, c in missing)})
    left, top = 150, 90
    wide, high = left + CELL * len(columns) + 60, top + CELL * len(rows) + 8
    yield f'<svg width="{wide}" height="{high}" font-size="11">'
    for j, c in enumerate(columns):
        x = left + CELL * j + 12
        yield f'<text transform="translate({x} {top - 6}) rotate(-50)">{escape(c)}</text>'
    for i, op in enumerate(rows):
        y = top + CELL * i
        yield f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(op)}</text>'
        for j, c in enumerate(columns):
            x, n = left + CELL * j, counts.get(op, {}).get(c, 0)
            if n:
                yield (
                    f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
                    f'fill="{_shade(n, most)}"><title>{escape(f"{op} {c}: {n:,}")}</title></rect>'
                )
            elif (op, c) in missing:
                title = escape(f"{op} {c}: never")
                yield (
                    f'<circle cx="{x + 8}" cy="{y + 8}" r="3" fill="#b3261e">'
                    f"<title>{title}</title></circle>"
                )
    yield "</svg>"


def _neighbours(counts: Counts, missing: int) -> Iterator[str]:
    """Show which op's result which op read: rows make, columns read."""
    ops = sorted({*counts, *(c for row in counts.values() for c in row)})
    most = max((n for row in counts.values() for n in row.values()), default=0)
    seen = sum(map(len, counts.values()))
    yield f"<h2>Ops that read each other: {seen:,} pairs were drawn, {missing:,} were not</h2>"
    yield PAIRS_TEXT
    yield from _legend()
    left = 120
    size = left + SMALL * len(ops) + 10
    yield f'<svg width="{size}" height="{size}" font-size="8">'
    for i, op in enumerate(ops):
        at = left + SMALL * i
        yield f'<text x="{left - 3}" y="{at + 6}" text-anchor="end">{escape(op)}</text>'
        yield f'<text transform="translate({at + 6} {left - 3}) rotate(-90)">{escape(op)}</text>'
        for j, reader in enumerate(ops):
            if n := counts.get(op, {}).get(reader, 0):
                yield (
                    f'<rect x="{left + SMALL * j}" y="{at}" width="{SMALL}" height="{SMALL}" '
                    f'fill="{_shade(n, most)}"><title>{op} to {reader}: {n:,}</title></rect>'
                )
    yield f'<rect x="{left}" y="{left}" width="{SMALL * len(ops)}" height="{SMALL * len(ops)}" '
    yield 'fill="none" stroke="#999"/></svg>'


def _attributes(counts: Counts) -> Iterator[str]:
    yield ATTRIBUTES_TEXT + "<table>"
    for op, row in counts.items():
        said = "; ".join(f"{k} ({n:,})" for k, n in row.items())
        yield f"<tr><td>{escape(op)}<td>{escape(said)}</tr>"
    yield "</table></details>"


def _lines(lines: Mapping[str, Sequence[int]]) -> Iterator[str]:
    if not lines:
        return
    total = sum(map(len, lines.values()))
    yield f"<h2>Lines of codegen that never ran: {total:,}</h2>"
    yield "<p>By file, those with the most lines first.</p><table>"
    for name, numbers in sorted(lines.items(), key=lambda pair: -len(pair[1])):
        yield f"<tr><td>{escape(name)}<td class=n>{len(numbers)}<td>{ranges(numbers)}</tr>"
    yield "</table>"
