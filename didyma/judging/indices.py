"""Edits of what an index is computed of: quotients, remainders, halves, and counts from the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from didyma.judging.borrowed import Rule

_PART = re.compile(r"\b([A-Za-z_]\w*) [/%] ([A-Za-z_]\w*)\b(?![\w.(\[])")
_UNDECODED = re.compile(r"(?<![\w.])(?<!\* )\b([A-Za-z_]\w*) ([/%]) ([A-Za-z_]\w*)\b(?![\w.(\[])")
_DECODED = re.compile(r"(?<![\w.])[A-Za-z_]\w*( [/%] \w+)( [/%] \w+)\b(?![\w.(\[])")
_HALF = re.compile(r"(?<![\w.] [/%*] )\b([A-Za-z_]\w*) / 2\b")
_PAIR = re.compile(r"\[([^\[\]]+)\]\[([^\[\]]+)\]")
_ADDED = re.compile(r"(.+) ([-+] [\w.]+)$")
_COUNTED = re.compile(r"\bint (\w+) = 0; \1 < (\w+);")


def remainders(ints: Sequence[str]) -> Rule:
    """Return the rule that divides by another number, or takes the remainder of it.

    >>> [*remainders(["k", "n"])("c = i % k;")]
    ['c = i / k;', 'c = i / n;', 'c = i % n;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _PART.finditer(row):
            for op, n in product("/%", ints):
                if (new := f"{m[1]} {op} {n}") != m[0] and n != m[1]:
                    yield row[: m.start()] + new + row[m.end() :]

    return rule


def decoded(ints: Sequence[str]) -> Rule:
    """Return the rule that takes of an index the part that one of some extents leaves, or less.

    >>> [*decoded(["n"])("c = i / k;")], [*decoded(["n"])("c = i % k;")]
    (['c = i % n / k;'], ['c = i / n % k;'])
    >>> [*decoded(["n"])("c = i / n % k;")]
    ['c = i % k;', 'c = i / n;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _DECODED.finditer(row):
            yield row[: m.start(1)] + row[m.start(2) :]
            yield row[: m.end(1)] + row[m.end() :]
        for m in _UNDECODED.finditer(row):
            for n in ints if not _DECODED.match(row, m.start()) else ():
                if n not in (m[1], m[3]):
                    other = "%" if m[2] == "/" else "/"
                    yield f"{row[: m.end(1)]} {other} {n}{row[m.end(1) :]}"

    return rule


def halves(row: str) -> Iterator[str]:
    """Yield a line with the reach of a window instead of its half.

    >>> [*halves("t = i - W / 2;")]
    ['t = i - (W - 1);', 't = i - (W - 1) / 2;', 't = i - (W + 1) / 2;']
    """
    for m in _HALF.finditer(row):
        for new in ("({} - 1)", "({} - 1) / 2", "({} + 1) / 2"):
            yield row[: m.start()] + new.format(m[1]) + row[m.end() :]


def backwards(text: str) -> Rule:
    """Return the rule that counts from the end what a loop counts from the start, or the reverse.

    >>> rule = backwards("for (int k = 0; k < N; ++k)")
    >>> [*rule("s += w[k];")], [*rule("s += w[N - 1 - k];")]
    (['s += w[N - 1 - k];'], ['s += w[k];'])
    """
    loops = [*dict.fromkeys((m[1], m[2]) for m in _COUNTED.finditer(text))]

    def rule(row: str) -> Iterator[str]:
        for name, extent in loops if not row.lstrip().startswith("for") else ():
            end = f"{extent} - 1 - {name}"
            for m in re.finditer(rf"\b(?:{re.escape(end)}|{name})\b", row):
                yield row[: m.start()] + (name if m[0] == end else end) + row[m.end() :]

    return rule


def shifted(row: str) -> Iterator[str]:
    """Yield a line in which what is added to one of two indices is added to the other.

    >>> [*shifted("a = s[row][col + 8];")]
    ['a = s[row + 8][col];']
    """
    for m in _PAIR.finditer(row):
        one, two = m.groups()
        if k := _ADDED.fullmatch(two):
            yield f"{row[: m.start()]}[{one} {k[2]}][{k[1]}]{row[m.end() :]}"
        if k := _ADDED.fullmatch(one):
            yield f"{row[: m.start()]}[{k[1]}][{two} {k[2]}]{row[m.end() :]}"
