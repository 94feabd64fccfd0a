"""What the plan checker asks of the lines of a program, before it replays them."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.program import Line


def inner(line: Line) -> tuple[Line, ...]:
    """Lines in the blocks of a line."""
    match line:
        case ir.If(_, then, other):
            return (*then, *other)
        case ir.While(test, _, body):
            return (*test, *body)
        case ir.Repeat(_, _, body):
            return body
        case _:
            return ()


def bound(lines: Sequence[Line]) -> set[str]:
    """Symbols that get their value at run time."""
    found: set[str] = set()
    for line in lines:
        if isinstance(line, ir.Bind):
            found.add(line.dim)
        found |= bound(inner(line))
    return found


def count(lines: Sequence[Line]) -> int:
    """Lines, and those in their blocks."""
    return sum(1 + count(inner(line)) for line in lines)


def streams(line: Line) -> set[int]:
    """Streams beside the first, and with one of them the first."""
    match line:
        case ir.Wait(stream, on):
            return {0, stream, on}
        case ir.Launch(_, _, stream) if stream:
            return {0, stream}
        case _:
            return {s for x in inner(line) for s in streams(x)}
