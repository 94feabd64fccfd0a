"""Texts that are rendered in part: with holes, each of which is filled exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError

Fail: TypeAlias = Callable[[int, str, str], DidymaError]  # of a line, what it has, what it should
Fill: TypeAlias = Callable[[], Sequence[str]]  # the lines that come in place of a hole
_HOLE = re.compile("([ \t]*)\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class Hole:
    """A call of a hook: what it is, its line in the template, and what to write there.

    One that is ``last`` is filled after all others, for it says what these use.
    """

    call: str
    line: int
    fill: Fill
    last: bool


@dataclass(frozen=True, slots=True)
class Partial:
    """Makes holes while a text is rendered, and fills them afterwards."""

    fail: Fail
    holes: list[Hole] = field(default_factory=list[Hole])

    def hole(self, call: str, line: int, fill: Fill, *, last: bool = False) -> str:
        """Return the mark of a new hole, to stand in the text once."""
        self.holes.append(Hole(call, line, fill, last))
        return f"\ue000{len(self.holes) - 1}\ue001"

    def finished(self, text: str) -> str:
        """Return the text with every hole filled, each line as deep as its hole stands.

        Holes are filled in the order of the text, those that are ``last`` at the end.  DidymaError
        ``bad-template`` for a hole that stands in the text twice, or not at all.
        """
        order = [int(n) for _, n in _HOLE.findall(text)]
        for n, hole in enumerate(self.holes):
            if (count := order.count(n)) != 1:
                raise self.fail(hole.line, f"the text of {hole.call} {count} times", "it once")
        filled: dict[int, Sequence[str]] = {}
        for n in sorted(order, key=lambda n: self.holes[n].last):
            filled[n] = self.holes[n].fill()

        def written(m: re.Match[str]) -> str:
            return "\n".join(m[1] + line for line in filled[int(m[2])])

        return _HOLE.sub(written, text)
