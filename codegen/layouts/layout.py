"""Where the elements of an array with strides lie: in a base array that is in row-major order.

A view of rows, of every second element, of axes in another order: all of them are a part of a
dense base, its axes put in another order.  What is not, such as an array with negative strides, is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Span:
    """An axis of a base, and which of its positions an axis of the view has.

    ``axis`` is that of the view, and its n positions are ``start``, ``start + step``, ... of the
    ``size`` that there are.  With size 0 they are all there are, from the first to the last; with
    step 0 the base has one position, which the view repeats.
    """

    axis: int
    size: int = 0
    start: int = 0
    step: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the axis has the view's own size, whatever that is."""
        return not self.size

    def __str__(self) -> str:
        if self.is_whole:
            return f"{self.axis}"
        if not self.step:
            return f"{self.axis} repeated"
        step = f" by {self.step}" if self.step > 1 else ""
        return f"{self.axis} from {self.start}{step} of {self.size}"


Layout: TypeAlias = tuple[Span, ...]  # the axes of a base, in order


@dataclass(frozen=True, slots=True)
class Placed:
    """The layout of an array, the shape of its base, and how far before it the base begins."""

    layout: Layout
    shape: tuple[int, ...]
    before: int


def is_coalesced(layout: Layout) -> bool:
    """Return whether the last axis that the base has is the view's last but for repeated ones."""
    read = [s.axis for s in layout if s.step]
    return not read or read[-1] == max(read)


def placed(
    shape: Sequence[int],
    strides: Sequence[int],
    room: tuple[int, int],
    misaligned: int,
    aligned: int,
) -> Placed | str:
    """Return where an array lies in a base, or why it does in none.

    Strides count elements.  ``room`` is how many elements the memory has before the first of the
    array and from it on.  A base begins at a multiple of ``aligned`` elements of memory, and the
    array ``misaligned`` elements behind one.

    >>> placed((3, 4), (6, 1), (0, 18), 0, 4).layout
    (Span(axis=0, size=0, start=0, step=1), Span(axis=1, size=6, start=0, step=1))
    >>> placed((3, 4), (1, 3), (0, 12), 0, 4).shape
    (4, 3)
    >>> placed((3,), (-1,), (2, 1), 0, 4)
    'its strides are negative'
    """
    pairs = list(zip(shape, strides, strict=True))
    if 0 in shape:
        return "it is empty"
    if any(s < 0 and n > 1 for n, s in pairs):
        return "its strides are negative"
    ones = [Span(k) for k, (n, _) in enumerate(pairs) if n == 1]
    again = [Span(k, 1, 0, 0) for k, (n, s) in enumerate(pairs) if n > 1 and not s]
    rest = [(s, k) for k, (n, s) in enumerate(pairs) if n > 1 and s]
    rest.sort(key=lambda pair: (-pair[0], pair[1]))
    if not rest:
        return "its memory begins unaligned" if misaligned else _placed(ones, again, [], [], 0)
    axes = [(k, shape[k], s) for s, k in rest]
    whys = list[str]()
    for before in _starts(axes, room, misaligned, aligned):
        found = _within(axes, before)
        if isinstance(found, str):
            whys.append(found)
            continue
        spans, sizes = found
        if before <= room[0] and math.prod(sizes) - before <= room[1]:
            return _placed(ones, again, spans, sizes, before)
        whys.append("a whole row of its base ends outside of its memory")
    return whys[0]


def _placed(
    ones: Sequence[Span],
    again: Sequence[Span],
    spans: Sequence[Span],
    sizes: Sequence[int],
    before: int,
) -> Placed:
    """Return a layout with axes of size 1 where they change the order least."""
    rows = list(zip(spans, sizes, strict=True))
    for span in sorted((*ones, *again), key=lambda s: s.axis):
        at = next((k for k, (s, _) in enumerate(rows) if s.axis > span.axis), len(rows))
        rows.insert(at, (span, 1))
    return Placed(tuple(s for s, _ in rows), tuple(n for _, n in rows), before)


def _starts(
    axes: Sequence[tuple[int, int, int]], room: tuple[int, int], misaligned: int, aligned: int
) -> list[int]:
    """Return how far before an array its base may begin, the best first.

    That is where a row of the memory begins, so that all parts of the rows of an array have one
    layout; else the multiple of the alignment just before; else where the memory ends with a row.
    """
    _, n, pitch = axes[0]
    wanted = [misaligned]
    if len(axes) > 1:
        wanted = [room[0] % pitch, misaligned, n * pitch - room[1]]
    return list(dict.fromkeys(w for w in wanted if w >= 0 and (w - misaligned) % aligned == 0))


def _within(
    axes: Sequence[tuple[int, int, int]], before: int
) -> tuple[list[Span], list[int]] | str:
    """Return the spans and sizes of a base that begins so far before, by descending strides.

    The distance of an axis of the base divides those of the axes outside of it and of the view's.
    """
    (first, n, pitch), *inner = axes
    if not inner:
        size = before + (n - 1) * pitch + 1
        whole = size == n
        return [Span(first) if whole else Span(first, size, before, pitch)], [size]
    spans, sizes = [Span(first)], [n]
    for number, (axis, count, stride) in enumerate(inner, 1):
        unit = 1 if number == len(inner) else math.gcd(pitch, stride)
        size, (start, before), step = pitch // unit, divmod(before, unit), stride // unit
        if start + (count - 1) * step >= size:
            return "its elements overlap, or its rows are no parts of the rows of a base"
        whole = (size, step) == (count, 1)
        spans.append(Span(axis) if whole else Span(axis, size, start, step))
        sizes.append(size)
        pitch = unit
    return "its first element lies in a row before" if before else (spans, sizes)
