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
CELL, SMALL = 16, 7  # pixels of a cell: of dtypes, of neighbours
STYLE = """
body { font: 14px/1.45 sans-serif; margin: 24px auto; max-width: 1180px; color: #222 }
h1 { font-size: 22px } h2 { font-size: 17px; margin-top: 30px }
table { border-collapse: collapse } td, th { padding: 2px 12px 2px 0; text-align: left }
td.n, th.n { text-align: right } .never { color: #b3261e } svg text { fill: #333 }
.flow { columns: 4; column-gap: 24px } .flow div { break-inside: avoid }
details { margin: 8px 0 } summary { cursor: pointer }
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
    yield f"<p>{r['seconds']:.0f} s on {r['jobs']} processes, seed {r['seed']}, {found}.</p>"
    yield from _domains(r["domains"])
    yield from _decisions(report["decisions"])
    dtypes = sorted({d for row in report["dtypes"].values() for d in row})
    ranks = sorted({d for row in report["ranks"].values() for d in row})
    yield "<h2>Ops by dtype and by rank</h2>"
    yield "<p>Darker: more graphs. A red dot: the op takes the dtype, and no graph had it.</p>"
    never = {tuple(pair.split()) for pair in report["never"]["dtypes"]}
    yield '<div style="display: flex; gap: 30px; flex-wrap: wrap">'
    yield from _heat(report["dtypes"], dtypes, never)
    yield from _heat(report["ranks"], ranks, frozenset())
    yield "</div>"
    yield from _neighbours(report["neighbours"], report["never"]["neighbours"])
    yield from _attributes(report["attributes"])
    yield from _lines(report["lines"])


def _domains(domains: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Domains</h2><table><tr><th>domain<th class=n>cases"
    yield "<th class=n>a minute of a core<th class=n>time<th class=n>checked share<th>covered</tr>"
    for name, d in domains.items():
        said = ", ".join(
            f"{v:,} {k}" if isinstance(v, int) else f"{len(v)} {k}" for k, v in d["covered"].items()
        )
        yield (
            f"<tr><td>{escape(name)}<td class=n>{d['cases']:,}"
            f"<td class=n>{d['per_minute_per_core']:,.0f}<td class=n>{d['share_of_time']:.0%}"
            f"<td class=n>{d['checked_share']:.4f}<td>{escape(said)}</tr>"
        )
    yield "</table>"


def _decisions(decisions: Counts) -> Iterator[str]:
    """How often each rewrite rule fired, each schedule was chosen, each plan decision was taken."""
    yield "<h2>Decisions of the compiler</h2>"
    for stage, fired in decisions.items():
        done, most = sum(n > 0 for n in fired.values()), max(fired.values(), default=0)
        yield f"<h3>{escape(stage)}: {done} of {len(fired)}</h3><div class=flow>"
        for name, n in sorted(fired.items(), key=lambda pair: (pair[1], pair[0])):
            style = "" if n else " class=never"
            bar = f'<svg width="44" height="9"><rect width="{_long(n, most)}" height="9" ' \
                  f'fill="{SHADES[3]}"/></svg>'  # fmt: skip
            yield f"<div{style}>{bar} {escape(name)}: {f'{n:,}' if n else 'never'}</div>"
        yield "</div>"


def _long(n: int, most: int) -> int:
    return round(44 * math.log1p(n) / math.log1p(most)) if n else 0


def _shade(n: int, most: int) -> str:
    return SHADES[min(len(SHADES) - 1, int(len(SHADES) * math.log1p(n) / math.log1p(most + 1)))]


def _heat(
    counts: Counts, columns: Sequence[str], never: Iterable[tuple[str, ...]]
) -> Iterator[str]:
    """A table of ops and something they met, as cells that say on hover how often."""
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
    """Which op's result which op read: rows make, columns read."""
    ops = sorted({*counts, *(c for row in counts.values() for c in row)})
    most = max((n for row in counts.values() for n in row.values()), default=0)
    seen = sum(map(len, counts.values()))
    yield f"<h2>Ops that read each other: {seen:,} pairs, {missing:,} never drawn</h2>"
    yield "<p>A row's op made what a column's op read. White: never. Hover names the pair.</p>"
    left = 120
    size = left + SMALL * len(ops) + 10
    yield f'<svg width="{size}" height="{size}" font-size="7">'
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
    yield "<h2>Attributes</h2><details><summary>How often each op had attributes of each class"
    yield "</summary><table>"
    for op, row in counts.items():
        said = "; ".join(f"{k} ({n:,})" for k, n in row.items())
        yield f"<tr><td>{escape(op)}<td>{escape(said)}</tr>"
    yield "</table></details>"


def _lines(lines: Mapping[str, Sequence[int]]) -> Iterator[str]:
    if not lines:
        return
    total = sum(map(len, lines.values()))
    yield f"<h2>Lines of codegen that never ran: {total:,}</h2><table>"
    for name, numbers in sorted(lines.items(), key=lambda pair: -len(pair[1])):
        yield f"<tr><td>{escape(name)}<td class=n>{len(numbers)}<td>{ranges(numbers)}</tr>"
    yield "</table>"
