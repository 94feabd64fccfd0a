"""Edits that bring to a line what stands near it: factors, indices, names, and what it copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain

from didyma.judging.borrowed import Rule

_LINES = 4
_MOST = 8  # sums of a text: the first ones
_NAME = r"(?<![\w.])[A-Za-z_][\w.]*(?![\w.(\[])"
_GROWS = re.compile(r"\b[A-Za-z_][\w.]* ([-+])= ([^;=]+)(?=;)")
_FACTOR = re.compile(rf"({_NAME}) \*|\* ({_NAME})")
_LOOP = re.compile(r"\bfor\s*\(\s*(?:const\s+)?\w+(?:\s+\w+)? (\w+) = ")
_WHOLE = re.compile(r"(?<=\[)\w+(?=\])|(?<= = )\w+(?=;)")
_INDEX = re.compile(r"(?<=\[)[^\[\]]+(?=\])")
_SUM = re.compile(rf"(?<![\w.*/%] )({_NAME} \+ {_NAME})(?! [*/%])")
_COPIED = re.compile(r"\b(?:int|unsigned|float|double|auto|\w+_t) (\w+) = (\w+);")
_SET = re.compile(r"(?<=[\w\]] = )[^=;][^;]*(?=;)")
_DECLARED = re.compile(
    r"\b(?!return\b|else\b|case\b|struct\b)[A-Za-z_][\w:]*(?:<[^<>;]*>)?[ *&]+(\w+)(?=\s*[=;,])"
)
_SQUARED = re.compile(r"(?<=\* )([A-Za-z_]\w*)(?=;|\)| [-+])")
_CHANGE = re.compile(r"\b([A-Za-z_]\w*)\(([A-Za-z_]\w*) - ([A-Za-z_]\w*)\)")
_TAKES = re.compile(r"(?<=[\s{])([A-Za-z_]\w*) = ([A-Za-z_]\w*);")
_ADDS = re.compile(r"\b([A-Za-z_]\w*) \+= ")


def rules(text: str, rows: Sequence[str], floats: Container[str]) -> tuple[tuple[float, Rule], ...]:
    """Return the rules that a text and its lines make, each with its weight."""
    turns = [*dict.fromkeys(_LOOP.findall(text))]
    sums = [*dict.fromkeys(_SUM.findall(text))][:_MOST]
    return (
        (0.6, _scaled(rows)), (0.6, _indexed), (0.4, _without(text)), (0.4, _based(turns)),
        (0.2, _stored(rows)), (0.2, _squared(floats)), (0.6, _rescaled(text)),
        (-0.2, _each(_INDEX, lambda x: sums if _SUM.fullmatch(x) else ())),
        (-0.4, _each(_INDEX, lambda _: turns)), (-0.6, _each(_SET, lambda _: ("0",))),
    )  # fmt: skip


def _each(pattern: re.Pattern[str], put: Callable[[str], Sequence[str]]) -> Rule:
    """Return the rule that puts texts in the place of each match, one at a time."""

    def rule(row: str) -> Iterator[str]:
        for m in pattern.finditer(row):
            yield from (row[: m.start()] + n + row[m.end() :] for n in put(m[0]) if n != m[0])

    return rule


def _near(rows: Sequence[str], of: Callable[[int], Sequence[str]]) -> dict[str, list[str]]:
    """Return what some function of its number, from 0, gives for each line that is a statement."""
    found: dict[str, list[str]] = {}
    for k, row in enumerate(rows):
        if row.rstrip().endswith((";", "}")):
            found.setdefault(row, []).extend(of(k))
    return found


def _scaled(rows: Sequence[str]) -> Rule:
    """Return the rule that scales what a sum grows by as one on a line nearby is scaled.

    >>> [*_scaled(["l += part[s];", "o += f * v[s];"])("l += part[s];")]
    ['l += f * part[s];']
    """

    def factors(k: int) -> Sequence[str]:
        around = [*rows[max(0, k - _LINES) : k], *rows[k + 1 : k + 1 + _LINES]]
        grown = chain.from_iterable(_GROWS.finditer(r) for r in around)
        return [n for m in grown for pair in _FACTOR.findall(m[2]) for n in pair if n]

    known = _near(rows, factors)

    def rule(row: str) -> Iterator[str]:
        for m in _GROWS.finditer(row):
            grown = f"({m[2]})" if re.search(" [-+?] ", m[2]) else m[2]
            for n in dict.fromkeys(known.get(row, ())):
                if not re.search(rf"\b{re.escape(n)}\b", row):
                    yield f"{row[: m.start(2)]}{n} * {grown}{row[m.end(2) :]}"

    return rule


def _indexed(row: str) -> Iterator[str]:
    """Yield a line in which an array has the index of another one.

    >>> [*_indexed("y = n * g[c] + b[o + c];")]
    ['y = n * g[o + c] + b[o + c];', 'y = n * g[c] + b[c];']
    """
    places = [*_INDEX.finditer(row)]
    for m in places:
        for other in dict.fromkeys(p[0] for p in places):
            if other != m[0]:
                yield row[: m.start()] + other + row[m.end() :]


def _without(text: str) -> Rule:
    """Return the rule that takes from a name what it began as, as an exclusive sum does.

    >>> [*_without("int sum = v;")("y[i] = before + sum;")]
    ['y[i] = before + sum - v;']
    """
    known = dict(_COPIED.findall(text))

    def rule(row: str) -> Iterator[str]:
        for m in re.finditer(r"(?<![\w.])[A-Za-z_]\w*(?=[;,)])", row):
            if m[0] in known:
                yield f"{row[: m.end()]} - {known[m[0]]}{row[m.end() :]}"

    return rule


def _based(turns: Sequence[str]) -> Rule:
    """Return the rule that adds to a loop's variable that of another one, such as a tile's begin.

    >>> [*_based(["base", "j"])("at = j;")]
    ['at = base + j;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _WHOLE.finditer(row):
            for n in turns if m[0] in turns else ():
                if n != m[0]:
                    yield f"{row[: m.start()]}{n} + {row[m.start() :]}"

    return rule


def _stored(rows: Sequence[str]) -> Rule:
    """Return the rule that assigns a name that one of the lines before declares.

    >>> [*_stored(["T r = a + b;", "y[i] = x[i];"])("y[i] = x[i];")]
    ['y[i] = r;']
    """

    def names(k: int) -> Sequence[str]:
        return [n for r in rows[max(0, k - _LINES) : k] for n in _DECLARED.findall(r)]

    known = _near(rows, names)

    def rule(row: str) -> Iterator[str]:
        for m in _SET.finditer(row):
            for n in dict.fromkeys(known.get(row, ())):
                if n != m[0]:
                    yield row[: m.start()] + n + row[m.end() :]

    return rule


def _squared(floats: Container[str]) -> Rule:
    """Return the rule that squares the last factor of a product.

    >>> [*_squared(["g"])("v = b * v + c * g;")]
    ['v = b * v + c * g * g;']
    """
    return _each(_SQUARED, lambda n: (f"{n} * {n}",) if n in floats else ())


def _rescaled(text: str) -> Rule:
    """Return the rule that scales a sum before the largest element that it hangs on grows.

    >>> [*_rescaled("s += expf(v - m);")("if (v > m) { m = v; }")]
    ['if (v > m) { s *= expf(m - v); m = v; }']
    """
    functions = {(a, b): f for f, a, b in _CHANGE.findall(text)}
    sums = [*dict.fromkeys(_ADDS.findall(text))]

    def rule(row: str) -> Iterator[str]:
        for m in _TAKES.finditer(row):
            f = functions.get((m[2], m[1])) or functions.get((m[1], m[2]))
            for n in sums if f else ():
                yield f"{row[: m.start()]}{n} *= {f}({m[1]} - {m[2]}); {row[m.start() :]}"

    return rule
