"""The text of one kernel as it grows, with the statement from which each line comes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from didyma.refimpl.ir.loop import Stmt


class TextLine(NamedTuple):
    """A line of text, its depth, and the statement from which it comes."""

    depth: int
    text: str
    origin: Stmt | None = None


class TextLines:
    """The lines in order; ``captured`` collects lines separately until they are spliced in."""

    def __init__(self) -> None:
        self._out: list[TextLine] = []
        self._depth = 0
        self.origin: Stmt | None = None

    def add(self, text: str) -> None:
        """Append a line."""
        self._out.append(TextLine(self._depth, text, self.origin))

    @contextmanager
    def indented(self) -> Generator[None]:
        """Indent the lines that are appended inside."""
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def captured(self) -> Generator[list[TextLine]]:
        """Collect the lines that are appended inside, one level deeper, in a list of their own."""
        outer, aside = self._out, list[TextLine]()
        self._out = aside
        self._depth += 1
        yield aside
        self._depth -= 1
        self._out = outer

    def splice(self, lines: Sequence[TextLine]) -> None:
        """Append captured lines."""
        self._out += lines

    def all(self) -> Sequence[TextLine]:
        """Every line so far."""
        return self._out
