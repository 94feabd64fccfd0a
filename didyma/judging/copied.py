"""Edits that bring to a line what a line like it has, since kernels compute much twice.

The idea is that of E. Barr, Y. Brun, P. Devanbu, M. Harman and F. Sarro, *The Plastic Surgery
Hypothesis*, 2014: most of what mends a program stands elsewhere in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from didyma.judging.borrowed import Rule

_TOKEN = re.compile(r"[A-Za-z_]\w*|[\d.]+f?|[<>=!+*/%&|^-]=|<<|>>|&&|\|\||\+\+|--|\S")
_SETS = re.compile(
    r"\s*((?:[\w:]+[\s*&]+)*[A-Za-z_][\w.]*(?:\[[^\]]*\])*\s*[-+*/|&]?=(?!=))[^;]*;\s*$"
)
_LEAST = 6  # tokens of a line
_ALIKE = 0.6  # of the tokens of two lines
_MOST = 4  # lines that are like another, the most alike first
_PARTS = 4  # in which two lines may differ


class _Line(NamedTuple):
    """A line with its tokens and where these stand."""

    row: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    counts: Counter[str]

    @classmethod
    def of(cls, row: str) -> _Line:
        found = [*_TOKEN.finditer(row)]
        tokens = tuple(m[0] for m in found)
        return cls(row, tokens, tuple(m.span() for m in found), Counter(tokens))

    def part(self, start: int, end: int) -> str:
        """Return some tokens as they stand in the line, with what separates them."""
        return self.row[self.spans[start][0] : self.spans[end - 1][1]] if start < end else ""


def lines(rows: Sequence[str]) -> Rule:
    """Return the rule that puts a line that sets the same name in the place of one.

    >>> rows = ["const float s = f(a[j]) + f(r[j]);", "const float s = f(a[j]);"]
    >>> [*lines(rows)(rows[1])]
    ['const float s = f(a[j]) + f(r[j]);']
    """
    known: dict[str, dict[str, None]] = {}
    for r in rows:
        if m := _SETS.match(r):
            known.setdefault(m[1], {})[r.strip()] = None

    def rule(row: str) -> Iterator[str]:
        if m := _SETS.match(row):
            others = (o for o in known.get(m[1], {}) if o != row.strip())
            yield from (row[: m.start(1)] + o for o in others)

    return rule


def parts(rows: Sequence[str]) -> Rule:
    """Return the rule that brings a part that a line like it has.

    Names that differ elsewhere in the two lines take each other's places in what is brought.

    >>> rows = ["v.x = p.x * w + g[i] + q.x;", "v.y = p.y * w + q.y;"]
    >>> "v.y = p.y * w + g[i] + q.y;" in parts(rows)(rows[1])
    True
    """
    known = [line for r in dict.fromkeys(rows) if len((line := _Line.of(r)).tokens) >= _LEAST]

    def rule(row: str) -> Iterator[str]:
        own = _Line.of(row)
        if len(own.tokens) >= _LEAST:
            alike = [(_overlap(own, o), o) for o in known if o.tokens != own.tokens]
            near = sorted((p for p in alike if p[0] >= _ALIKE), key=lambda p: -p[0])[:_MOST]
            yield from dict.fromkeys(new for _, other in near for new in _brought(own, other))

    return rule


def _overlap(a: _Line, b: _Line) -> float:
    return 2 * (a.counts & b.counts).total() / (len(a.tokens) + len(b.tokens))


def _brought(own: _Line, other: _Line) -> Iterator[str]:
    """Yield a line with what another has in one place in which they differ."""
    matcher = SequenceMatcher(None, own.tokens, other.tokens, autojunk=False)
    parts = [p[1:] for p in matcher.get_opcodes() if p[0] != "equal"]
    if len(parts) > _PARTS:
        return
    names = {
        other.tokens[c]: own.tokens[a] for a, b, c, d in parts
        if b - a == d - c == 1 and own.tokens[a].isidentifier() and other.tokens[c].isidentifier()
    }  # fmt: skip
    for a, b, c, d in parts:
        new = other.part(c, d)
        for brought in dict.fromkeys((new, _TOKEN.sub(lambda m: names.get(m[0], m[0]), new))):
            yield _put(own, a, b, brought, other, c)


def _put(own: _Line, a: int, b: int, new: str, other: _Line, c: int) -> str:
    """Put text in the place of some tokens, or before one, with a space where the other has one."""
    if a < b:
        start, end = own.spans[a][0], own.spans[b - 1][1]
        return own.row[: start if new else own.spans[max(0, a - 1)][1]] + new + own.row[end:]
    start = own.spans[a - 1][1] if a else own.spans[0][0]
    space = " " if c and other.spans[c - 1][1] < other.spans[c][0] else ""
    return own.row[:start] + space + new + own.row[start:]
