"""A picture of a placement: time to the right, addresses upward, names on hover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import TypeAlias

from didyma.codegen.memory.arena import Placement, Problem, loads, lower_bound
from didyma.codegen.runtime.disk import must_take_file
from didyma.refimpl.errors import DidymaError

Scale: TypeAlias = Callable[[float], float]

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 1200, 640, 96, 56, 44
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Neighbours in address should differ in colour; lightness is equal, so none stands out.
COLOURS = ("#8fb8de", "#f2b880", "#9fd3a9", "#e3a3b5", "#c3b1e1", "#e8d174", "#8ed1cb", "#d0b49f")


def size(n: float) -> str:
    """Return bytes for people: three digits and a unit.

    >>> size(512), size(1536)
    ('512 B', '1.5 KiB')
    """
    k = 0
    while n >= 1024 and k < len(UNITS) - 1:
        n, k = n / 1024, k + 1
    return f"{n:.4g} {UNITS[k]}"


def must_be_svg(path: Path) -> None:
    """Raise ``unknown-format`` for a picture of another format, ``unwritable`` without a folder."""
    if path.suffix != ".svg":
        raise DidymaError(
            "unknown-format", f"--plot {path}", got=path.suffix or "no suffix",
            want="a name in .svg",
            help="a browser shows it, and most programs turn it into other formats",
        )  # fmt: skip
    must_take_file(path)


def svg(p: Problem, placed: Placement, title: str) -> str:
    """Return the picture as one SVG document that needs nothing else."""
    return "\n".join(_lines(p, placed, title)) + "\n"


def _lines(p: Problem, placed: Placement, title: str) -> Iterator[str]:
    start = int(p.lower.min(initial=0)) if p.count else 0
    end = max(int(p.upper.max(initial=0)), start + 1)
    top = max(placed.peak, 1)

    def x(t: float) -> float:
        return LEFT + (t - start) / (end - start) * WIDTH

    def y(address: float) -> float:
        return TOP + HEIGHT - address / top * HEIGHT

    wide, high = LEFT + WIDTH + 24, TOP + HEIGHT + BOTTOM
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}" font-family="sans-serif" font-size="13">'
    )
    yield "<style>rect.b:hover{fill-opacity:1;stroke:#000;stroke-width:2}</style>"
    yield f'<rect width="{wide}" height="{high}" fill="#fff"/>'
    bound = lower_bound(p)
    ratio = f"{placed.peak / bound:.4f}" if bound else "1"
    heading = f"{title}: peak {placed.peak:,} B, lower bound {bound:,} B, ratio {ratio}"
    yield f'<text x="{LEFT}" y="28" font-size="16">{escape(heading)}</text>'
    for k in range(5):
        a = top * k / 4
        yield f'<path d="M{LEFT} {y(a):.1f}H{LEFT + WIDTH}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y(a) + 4:.1f}" text-anchor="end">{size(a)}</text>'
    for t in sorted({start + (end - start) * k // 6 for k in range(7)}):
        yield f'<text x="{x(t):.1f}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{t}</text>'
    middle = LEFT + WIDTH / 2
    yield f'<text x="{middle}" y="{TOP + HEIGHT + 38}" text-anchor="middle">time</text>'
    yield from _buffers(p, placed, x, y)
    yield from _load(p, x, y)
    yield "</svg>"


def _buffers(p: Problem, placed: Placement, x: Scale, y: Scale) -> Iterator[str]:
    line = 0.6 if p.count < 2_000 else 0.1
    yield f'<g stroke="#444" stroke-width="{line}" fill-opacity="0.85">'
    rows = zip(
        p.names, p.lower.tolist(), p.upper.tolist(), p.size.tolist(), placed.offsets.tolist(),
        strict=True,
    )  # fmt: skip
    for k, (name, low, high, bytes_, at) in enumerate(rows):
        if low == high or not bytes_:
            continue
        label = f"{name}: {bytes_:,} B at {at:,}, times {low} to {high}"
        w, h = x(high) - x(low), y(at) - y(at + bytes_)
        yield (
            f'<rect class="b" x="{x(low):.2f}" y="{y(at + bytes_):.2f}" width="{w:.2f}" '
            f'height="{h:.2f}" fill="{COLOURS[k % len(COLOURS)]}"><title>{escape(label)}</title>'
            "</rect>"
        )
    yield "</g>"


def _load(p: Problem, x: Scale, y: Scale) -> Iterator[str]:
    """Draw the bytes alive at each time as a line: what a perfect plan would need."""
    times, load = loads(p)
    if not len(times):
        return
    steps = [f"M{x(int(times[0])):.2f} {y(0):.2f}"]
    steps += (f"H{x(t):.2f}V{y(n):.2f}" for t, n in zip(times.tolist(), load.tolist(), strict=True))
    yield (
        f'<path d="{"".join(steps)}" fill="none" stroke="#b00" stroke-width="1.2" '
        'pointer-events="none"/>'
    )
    yield f'<text x="{LEFT + WIDTH}" y="28" fill="#b00" text-anchor="end">bytes alive</text>'
