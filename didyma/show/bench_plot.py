"""A picture of what two records differ in: a row for each benchmark, growth to the right.

What grew by more than is allowed has a red ring.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape

from didyma.bench.records import Change, Comparison

WIDTH, ROW, LETTER = 640, 26, 7.4  # pixels; of a letter, about
EDGE, LEGEND = 16, 20
MOST = 2.0  # doublings at the ends of the axis; what grew or shrank more stands there
COLOURS = (
    "#3672b0", "#d98032", "#4f9d5d", "#b3475f", "#7b5fb0", "#a08a1e", "#2a9d95", "#6d6d6d",
    "#c96fb1", "#7aa6d8", "#8c5a33", "#a6c34c", "#1f3b63",
)  # fmt: skip
TICKS = ((-2.0, "÷4"), (-1.0, "÷2"), (0.0, "equal"), (1.0, "×2"), (2.0, "×4"))


def svg(c: Comparison, title: str) -> str:
    """Return the picture as one SVG document that needs nothing else."""
    return "\n".join(_lines(c, title)) + "\n"


def _lines(c: Comparison, title: str) -> Iterator[str]:
    names = list(dict.fromkeys(x.benchmark for x in c.changes))
    quantities = list(dict.fromkeys(x.quantity for x in c.changes))
    colours = {q: COLOURS[i % len(COLOURS)] for i, q in enumerate(quantities)}
    left = EDGE + LETTER * max((len(n) for n in names), default=10)
    wide = left + WIDTH + 2 * EDGE
    legend = list(_legend(colours, wide))
    top = 44 + LEGEND * (1 + max((row for *_, row in legend), default=0))
    bottom = top + ROW * max(1, len(names))
    high = bottom + 36
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" '
        f'width="{wide:.0f}" height="{high}" font-family="sans-serif" font-size="13">'
    )
    yield f'<rect width="{wide:.0f}" height="{high}" fill="#fff"/>'
    yield f'<text x="{EDGE}" y="28" font-size="16">{escape(title)}</text>'
    for quantity, x, row in legend:
        y: float = 50 + LEGEND * row
        yield f'<circle cx="{x + 5:.0f}" cy="{y}" r="5" fill="{colours[quantity]}"/>'
        yield f'<text x="{x + 15:.0f}" y="{y + 4}">{escape(quantity)}</text>'
    for tick, label in TICKS:
        colour, x = "#ddd" if tick else "#999", left + _along(tick)
        yield f'<path d="M{x:.1f} {top}V{bottom}" stroke="{colour}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{label}</text>'
    for i, name in enumerate(names):
        y = top + ROW * i + ROW / 2
        yield f'<text x="{left - 12:.0f}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        for change in (x for x in c.changes if x.benchmark == name):
            # Each quantity has its own height in a row, so that equal changes do not hide another.
            share = (quantities.index(change.quantity) + 0.5) / len(quantities) - 0.5
            at = y + share * (ROW - 10)
            yield _dot(change, left, at, colours[change.quantity])
    if not names:
        yield f'<text x="{left:.0f}" y="{top + 16}">nothing differs</text>'
    yield "</svg>"


def _legend(quantities: Iterable[str], wide: float) -> Iterator[tuple[str, float, int]]:
    """Yield quantities with their place: from the left, and the row."""
    x, row = float(EDGE), 0
    for q in quantities:
        width = 30 + LETTER * len(q)
        if x + width > wide:
            x, row = float(EDGE), row + 1
        yield q, x, row
        x += width


def _dot(change: Change, left: float, y: float, colour: str) -> str:
    label = f"{change.benchmark}: {change.quantity} {change.before:g} to {change.after:g}"
    ring = ' stroke="#b3261e" stroke-width="2.5"' if change.failed else ""
    x = left + _along(_doublings(change.before, change.after))
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.85"{ring}>'
        f"<title>{escape(label)}</title></circle>"
    )


def _doublings(before: float, after: float) -> float:
    if not before or not after:
        return MOST if after else -MOST
    return max(-MOST, min(MOST, math.log2(after / before)))


def _along(doublings: float) -> float:
    return (doublings + MOST) / (2 * MOST) * WIDTH
