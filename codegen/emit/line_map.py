"""Which line of a program each line of its module was written for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from didyma.codegen.emit.integers import quoted
from didyma.codegen.emit.names import sanitise
from didyma.refimpl.ir.program import Launch, Line
from didyma.refimpl.ir.text.program import show_instruction


class Row(str):
    """A line of Python with the line of the program that it was written for."""

    __slots__ = ("origin",)
    origin: Line

    @classmethod
    def of(cls, text: str, origin: Line) -> Row:
        """Return a row."""
        row = cls(text)
        row.origin = origin
        return row


def table(sections: Iterable[tuple[int, Iterable[str]]]) -> Iterator[str]:
    """Yield the lines of the table ``LINES`` of a module.

    ``sections`` are runs of its lines, each with the number of its first.
    """
    yield "LINES = rt.lines("
    for at, rows in sections:
        for origin, run in groupby(rows, lambda row: row.origin if isinstance(row, Row) else None):
            count = sum(row.count("\n") + 1 for row in run)
            if origin is not None:
                yield f"    ({at}, {at + count - 1}, {_line(origin)}),"
            at += count
    yield ")"


def _line(s: Line) -> str:
    values = (quoted(sanitise(v)) for v in s.args) if isinstance(s, Launch) else ()
    return ", ".join((quoted(show_instruction(s)), *values))
