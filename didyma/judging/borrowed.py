"""Edits that put what a text has elsewhere in the place of a part of a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

from didyma.judging.expressions import split

Rule: TypeAlias = Callable[[str], Iterator[str]]  # of a line, its edited forms

_MOST = 8  # expressions of a kind: those that a text has most often
_PLACE = re.compile(r"\[([^\[\]]+)\]")
_SHARED = re.compile(r"\b__shared__\s[^;]*;")
_TEST = r"[\w.+\-*/% \[\]]+?\s*(?:<=|>=|==|!=|<|>)\s*[\w.+\-*/% \[\]]+?"
_ATOM = re.compile(rf"(?:(?<=[(&|] )|(?<=\())({_TEST})(?=\s*(?:\)|&&|\|\|))")
_LOOPING = re.compile(rf"(?<=; )({_TEST})(?=;)")
LIMIT = re.compile(r"(?:<=|>=|(?<![<>])[<>](?![<>]))\s*([\w.+\-*/ ]+?)\s*(?=[;)]|&&|\|\||\?)")
_FIELD = re.compile(r"\b[A-Za-z_]\w*\.[A-Za-z_]\w*\b(?!\s*\()")
_FACTOR = re.compile(r"(?<=[-+*/=(] )[A-Za-z_][\w.]*(?=\s*[-+*/;)])")
_LOOP = re.compile(r"\bfor\s*\(")
_CALL = re.compile(r"\b(?!if\b|for\b|while\b|switch\b|sizeof\b)([A-Za-z_]\w*)\s*\(")
_GIVEN = re.compile(r"(?<=[(,=/*+-] )[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?(?=\s*[-+*/;),])")
_SIDE = re.compile(r"(?<=[(&|] )\w+(?= [<>]=? )|(?<=\()\w+(?= [<>]=? )|(?<=return )\w+(?= [<>]=? )")
_USUAL = ("fabsf", "expf", "sqrtf", "logf")
_TYPES = ("float", "int", "double", "long long", "unsigned")
_TYPE = re.compile(
    r"(?<![\w<])(?:(?:un)?signed (?:char|short|int)|long long|float|double|int|unsigned|short|char"
    r"|half|u?int(?:8|16|32)_t|__half|__nv_bfloat16)\b(?=\s+\w+\s*(?:[=;,{]|\[))"
)


def rules(text: str) -> tuple[tuple[float, Rule], ...]:
    """Return the rules that a text's own expressions make, each with its weight."""
    places = _often(m[1].strip() for m in _PLACE.finditer(text))
    extents = [x.strip() for m in _SHARED.finditer(text) for x in _PLACE.findall(m[0])]
    limits = _often(m[1].strip() for m in LIMIT.finditer(text))
    tests = _often(m[1] for m in _ATOM.finditer(text))
    fields = _often(m[0] for m in _FIELD.finditer(text) if not m[0].endswith((".x", ".y", ".z")))
    return (
        (-1.2, _unwrapped), (-0.4, _wrapped(text, _GIVEN)), (0.4, _wrapped(text, _SIDE)),
        (0.0, _swapped), (-0.3, _put(_PLACE, places)),
        (-0.6, _put(LIMIT, limits)), (0.2, _put(LIMIT, _often(extents))), (0.3, _narrowed(tests)),
        (-0.4, _put(_ATOM, tests)), (-0.2, _scaled(fields)), (-1.0, _typed),
    )  # fmt: skip


def _often(found: Iterator[str] | Sequence[str]) -> list[str]:
    return [x for x, _ in Counter(found).most_common(_MOST)]


def _put(pattern: re.Pattern[str], others: Sequence[str]) -> Rule:
    """Return the rule that puts others in the place of the first group of each match."""

    def rule(row: str) -> Iterator[str]:
        for m in pattern.finditer(row):
            for new in others:
                if new != m[1].strip():
                    yield row[: m.start(1)] + new + row[m.end(1) :]

    return rule


def _swapped(row: str) -> Iterator[str]:
    """Yield a line with two of its indices exchanged."""
    for a, b in combinations([*_PLACE.finditer(row)], 2):
        if a[1] != b[1]:
            between = row[a.end(1) : b.start(1)]
            yield row[: a.start(1)] + b[1] + between + a[1] + row[b.end(1) :]


def _narrowed(tests: Sequence[str]) -> Rule:
    """Return the rule that asks one of some comparisons beside each of a line."""

    def rule(row: str) -> Iterator[str]:
        for m in (_LOOPING if _LOOP.search(row) else _ATOM).finditer(row):
            for other in tests:
                if other != m[1]:
                    yield f"{row[: m.end()]} && {other}{row[m.end() :]}"

    return rule


def _scaled(fields: Sequence[str]) -> Rule:
    """Return the rule that multiplies what a line assigns by a field of a structure."""

    def rule(row: str) -> Iterator[str]:
        start = row.find("=") + 1
        for m in _FACTOR.finditer(row, start) if start else ():
            for new in fields:
                yield f"{row[: m.end()]} * {new}{row[m.end() :]}"

    return rule


def _unwrapped(row: str) -> Iterator[str]:
    """Yield a line in which what a call is given, or a call in it, takes the call's place."""
    for m in _CALL.finditer(row):
        if end := closing(row, m.end() - 1):
            for given in _given(row[m.end() : end]):
                yield f"{row[: m.start()]}({given}){row[end + 1 :]}"


def _wrapped(text: str, terms: re.Pattern[str]) -> Rule:
    """Return the rule that gives a term of a line to a function that a text calls, or a usual one.

    >>> "m = fmaxf(m, fabsf(x[i]));" in _wrapped("", _GIVEN)("m = fmaxf(m, x[i]);")
    True
    >>> next(_wrapped("", _SIDE)("return d <= delta ? d : delta;"))
    'return fabsf(d) <= delta ? d : delta;'
    """
    called = _often(m[1] for m in _CALL.finditer(text))
    functions = list(dict.fromkeys((*_USUAL, *called)))

    def rule(row: str) -> Iterator[str]:
        for m in terms.finditer(row):
            for f in functions:
                yield f"{row[: m.start()]}{f}({m[0]}){row[m.end() :]}"

    return rule


def _given(text: str) -> Iterator[str]:
    """Yield the arguments of a call, and after each that is a call itself the arguments of that.

    >>> [*_given("f(g(a), 1), b")]
    ['f(g(a), 1)', 'g(a)', 'a', '1', 'b']
    """
    for one in filter(None, split(text)):
        yield one
        m = _CALL.match(one)
        if m and closing(one, m.end() - 1) == len(one) - 1:
            yield from _given(one[m.end() : -1])


def closing(row: str, at: int) -> int:
    """Return where a parenthesis is closed; 0 if it is not."""
    depth = 0
    for k in range(at, len(row)):
        depth += {"(": 1, ")": -1}.get(row[k], 0)
        if not depth:
            return k
    return 0


def _typed(row: str) -> Iterator[str]:
    """Yield a line with a variable of another type."""
    for m in _TYPE.finditer(row):
        for new in _TYPES:
            if new != m[0]:
                yield row[: m.start()] + new + row[m.end() :]
