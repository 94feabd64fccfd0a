"""Edits that bring what a text declares and forgets, or what it has beside a name elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from didyma.judging.borrowed import Rule

_MOST = 4  # terms beside a name: those that a text has most often
_BESIDE = re.compile(
    r"(?<![\w.\])])([A-Za-z_][\w.]*)\s*([*/%+^-]|<<|>>)\s*([A-Za-z_][\w.]*|\d+)\b(?![\w.(\[])"
)
_POINTER = re.compile(r"\w+(?:\* | \*)\w")  # a declaration such as ``float* x``, no product
_ANY_NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*\b(?!\s*\()")
INDEX = re.compile(r"(?<=\[)[A-Za-z_]\w*(?=\])")  # of one name
_STATEMENT = re.compile(r"\s*(?!return\b|for\b|if\b|while\b|else\b|#)[\w*&].*;\s*(?://.*)?$")
_DECLARES = re.compile(
    r"\s*(?:const\s+|__shared__\s+|extern\s+)*[A-Za-z_]\w*[\s*&]+\w+\s*(?:[=;,\[])"
)


def names(text: str, of_kind: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Return what a text declares and never uses, each with the others of its kind.

    What is only read to be changed itself is not used.
    """
    return [
        (n, [o for o in row if o != n])
        for row in of_kind.values() for n in row if count(n, _others(n, text)) == 1
    ]  # fmt: skip


def _others(name: str, text: str) -> str:
    """Return a text without the statements that change a name.

    >>> _others("a", "int a = 3; a = max(a, b); a += 1; c = a;")
    'int a = 3;   c = a;'
    """
    return re.sub(rf"(?:^\s*|(?<=[;{{)]))\s?{name} [-+*/|&]?= [^;]*;", " ", text, flags=re.M)


def count(name: str, text: str) -> int:
    """Return how often a text has a name."""
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def taken(unused: Sequence[tuple[str, Sequence[str]]]) -> Rule:
    """Return the rule that puts an unused name in the place of one of its kind."""

    def rule(row: str) -> Iterator[str]:
        for name, others in unused:
            for other in others:
                for m in re.finditer(rf"\b{re.escape(other)}\b", row):
                    yield row[: m.start()] + name + row[m.end() :]

    return rule


def given(unused: Sequence[tuple[str, Sequence[str]]]) -> Rule:
    """Return the rule that gives an unused name, after a statement, to one of its kind on the line.

    >>> [*given([("t", ["v", "best"])])("best = v;")]
    ['best = v; v = t;', 'best = v; best = t;']
    """

    def rule(row: str) -> Iterator[str]:
        if _STATEMENT.match(row) and not _DECLARES.match(row):
            for name, others in unused:
                yield from (f"{row} {o} = {name};" for o in others if count(o, row))

    return rule


def extended(text: str, names: re.Pattern[str] = _ANY_NAME) -> Rule:
    """Return the rule that extends a name by what a text has beside it elsewhere.

    >>> [*extended("y[ty * TM + i] = x[k0 + r];")("z[ty][r]")]
    ['z[ty * TM][r]', 'z[ty][k0 + r]']
    >>> [*extended("float* x;")("y = x[i];")]
    []
    """
    after: dict[str, Counter[str]] = {}
    before: dict[str, Counter[str]] = {}
    for at in range(len(text)):
        if (m := _BESIDE.match(text, at)) and not _POINTER.match(text, at):
            after.setdefault(m[1], Counter())[f" {m[2]} {m[3]}"] += 1
            if m[2] in "+*":
                before.setdefault(m[3], Counter())[f"{m[1]} {m[2]} "] += 1

    def rule(row: str) -> Iterator[str]:
        for m in names.finditer(row):
            name = m[0]
            added = [f"{name}{t}" for t, _ in after.get(name, Counter()).most_common(_MOST)]
            added += [f"{t}{name}" for t, _ in before.get(name, Counter()).most_common(_MOST)]
            for new in added:
                yield _put(row, m.start(), m.end(), new)

    return rule


def _put(row: str, start: int, end: int, new: str) -> str:
    """Put an expression in a place of a line, in parentheses where it is a factor."""
    left, right = row[:start].rstrip()[-1:], row[end:].lstrip()[:1]
    factor = left in ("*", "/", "%", "-", ")") or right in ("*", "/", "%")
    return f"{row[:start]}({new}){row[end:]}" if factor else row[:start] + new + row[end:]


def divided(ints: Sequence[str]) -> Rule:
    """Return the rule that divides a term of an assignment by one of some numbers."""

    def rule(row: str) -> Iterator[str]:
        start = row.find("=") + 1
        for m in re.finditer(r"[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?(?=\s*[-+);,])", row[start:]):
            end = start + m.end()
            for n in ints if start else ():
                yield f"{row[:end]} / {n}{row[end:]}"

    return rule


def repeated(of_kind: Mapping[str, Sequence[str]], text: str) -> Rule:
    """Return the rule that repeats a statement for another name of its kind that is used less."""
    used = {n: count(n, text) for row in of_kind.values() for n in row}
    pairs = [p for row in of_kind.values() for p in permutations(row, 2) if used[p[1]] < used[p[0]]]

    def rule(row: str) -> Iterator[str]:
        if _STATEMENT.match(row) and not _DECLARES.match(row):
            for name, other in pairs:
                if count(name, row):
                    again = re.sub(rf"\b{re.escape(name)}\b", other, row.strip())
                    yield f"{row} {again}"

    return rule


def updated(of_kind: Mapping[str, Sequence[str]], text: str) -> Rule:
    """Return the rule that updates, after a statement, a number that never changes from its start.

    It takes the value of others of its kind: of those that are named after it, if there are some.

    >>> kinds = {"float": ["m", "next"]}
    >>> [*updated(kinds, "float m = -1e30f; float next = max(m, s);")("  l += p;")]
    ['  l += p; m = next;']
    """
    still = [
        (n, [o for o in row if o != n and n in o.split("_")] or [o for o in row if o != n])
        for row in of_kind.values() for n in row
        if re.search(rf"\b{n}\s*=\s*-?(?:\d|INFINITY|FLT_MAX)", text)
        and not re.search(rf"\bconst(?:expr)?\s+\w+\s+{n}\b", text)
        and len(re.findall(rf"\b{n}\s*(?:[-+*/]?=(?!=)|\+\+|--)|(?:\+\+|--){n}\b", text)) == 1
    ]  # fmt: skip

    def rule(row: str) -> Iterator[str]:
        if _STATEMENT.match(row):
            for name, others in still:
                for other in others:
                    yield f"{row} {name} = {other};"

    return rule
