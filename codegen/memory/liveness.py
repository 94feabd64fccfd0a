"""When each buffer is in use, over the lines of a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Return,
    Reuse,
    View,
)


@dataclass(frozen=True, slots=True)
class Range:
    """First and last line at which a buffer's bytes matter, both included."""

    start: int
    end: int

    def overlaps(self, other: Range) -> bool:
        """Tell whether two buffers are alive at one line; a kernel's operands and results are."""
        return self.start <= other.end and other.start <= self.end


def touches(line: Line) -> tuple[str, ...]:
    """Values whose bytes a line reads or writes."""
    match line:
        case Launch(_, args):
            return args
        case Extern(_, outputs, inputs):
            return (*outputs, *inputs)
        case Copy(value, source):
            return (value, source)
        case View(_, of):
            return (of,)
        case Return(values):
            return values
        case Allocate() | Free() | Reuse() | PlacementAllocate() | Assert():
            return ()
        case _:
            assert_never(line)


def roots(lines: Iterable[Line]) -> dict[str, str]:
    """The value whose bytes each view shows, through any number of views."""
    found: dict[str, str] = {}
    for line in lines:
        if isinstance(line, View):
            found[line.value] = found.get(line.of, line.of)
    return found


def live_ranges(lines: Sequence[Line], borrowed: Iterable[str] = ()) -> dict[str, Range]:
    """Range of every value that owns bytes, by first use.

    A use of a view is a use of its root.  What is returned is in use to the last line.
    ``borrowed`` (inputs and constants) belong to the caller and have no range.

    >>> lines = [Launch("f", ("x", "a")), View("b", "a"), Launch("g", ("b", "c")), Return(("c",))]
    >>> live_ranges(lines, ["x"])
    {'a': Range(start=0, end=2), 'c': Range(start=2, end=3)}
    """
    root = roots(lines)
    skip = set(borrowed)
    found: dict[str, Range] = {}
    for i, line in enumerate(lines):
        for value in touches(line):
            owner = root.get(value, value)
            if owner in skip:
                continue
            first = found.get(owner)
            found[owner] = Range(i if first is None else first.start, i)
    return found
