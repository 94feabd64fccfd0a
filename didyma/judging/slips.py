"""Edits that undo common slips: a factor at another term, a lost offset, bound or stride."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from didyma.judging.borrowed import Rule

_NEAR = 3  # lines
_MOST = 6  # products of names: those that a text has most often
_NESTED = r"(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])"
_TERM = rf"[A-Za-z_][\w.]*{_NESTED}?"
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*\()")
_LATER = re.compile(rf"(?<![\w.\])] )({_TERM}) ([-+]) ({_TERM}) \* ({_TERM})(?=[;,)])")
_SOONER = re.compile(rf"(?<![\w.\])] )({_TERM}) \* ({_TERM}) ([-+]) ({_TERM})(?=[;,)])")
_MINUS = re.compile(rf"(?<=[-+=(] )({_TERM}) - ({_TERM}) ([-+]) ({_TERM})(?=[;,)])")
_BELOW = re.compile(r"(?<=[(&] )(\w+) < \w+(?=\)| &&)|(?<=\()(\w+) < \w+(?=\)| &&)")
_STRIDE = re.compile(r"= [^;]*\bblockIdx\.[xyz][^;]*;[^;]*;\s*\w+ \+= (?!gridDim)([\w.]+)(?=\))")
_PRODUCT = re.compile(r"(?<![\w.*/%] )(?<![\w.])([A-Za-z_][\w.]* \* [A-Za-z_]\w*)\b(?! [*/%])")
_SET = re.compile(r"\b(?:int|size_t|unsigned|long) \w+ = (?=[^;]*;)")
_PLACE = re.compile(r"\[(?=[^\[\]]*\])")
_SUM = re.compile(r"(?<=[=\[(] )?(?<![\w.)\]])([A-Za-z_][\w.]*)(?= [-+] )")
_EXTENSION = re.compile(rf"({_TERM}) ([-+*/]) ({_TERM})(?=[;,)]| [-+])")
_GREATER = re.compile(rf"(?<=\()({_TERM}) [<>] ({_TERM})(?=\))")
_TAKES = re.compile(rf"(?<![\w.\])])({_TERM}) = ({_TERM});")
_RETURNS = re.compile(r"(\s*)if \(.*\) (?:return|continue|break);\s*$")
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d[\w.]*|\S")


def cases(text: str) -> Rule:
    """Return the rule that puts a name in the place of one that differs from it in capitals.

    >>> [*cases("#define N 64\\nint n;")("s[n - 1] = 0;")]
    ['s[N - 1] = 0;']
    """
    known: dict[str, list[str]] = {}
    for name in dict.fromkeys(_WORD.findall(text)):
        known.setdefault(name.lower(), []).append(name)

    def rule(row: str) -> Iterator[str]:
        for m in _WORD.finditer(row):
            for name in known.get(m[0].lower(), ()):
                if name != m[0]:
                    yield row[: m.start()] + name + row[m.end() :]

    return rule


def factors(row: str) -> Iterator[str]:
    """Yield a line in which a factor goes from one term of a sum to the other.

    >>> [*factors("l = l + p * scale;")], [*factors("l = l * scale + p;")]
    (['l = l * scale + p;'], ['l = l + p * scale;', 'l = scale + p * l;'])
    """
    for m in _LATER.finditer(row):
        yield f"{row[: m.start()]}{m[1]} * {m[4]} {m[2]} {m[3]}{row[m.end() :]}"
    for m in _SOONER.finditer(row):
        for kept, moved in ((m[1], m[2]), (m[2], m[1])):
            yield f"{row[: m.start()]}{kept} {m[3]} {m[4]} * {moved}{row[m.end() :]}"


def grouped(row: str) -> Iterator[str]:
    """Yield a line that takes a sum or a difference from a term, and not one term after the other.

    >>> [*grouped("loss = lse - x[t[i]] - top;")]
    ['loss = lse - (x[t[i]] - top);']
    """
    for m in _MINUS.finditer(row):
        yield f"{row[: m.start()]}{m[1]} - ({m[2]} {m[3]} {m[4]}){row[m.end() :]}"


def bounded(row: str) -> Iterator[str]:
    """Yield a line that asks, too, whether what must be below a bound is not below zero.

    >>> [*bounded("if (s < 16)")], [*bounded("if (a && s < n && b)")]
    (['if (s >= 0 && s < 16)'], ['if (a && s >= 0 && s < n && b)'])
    """
    for m in _BELOW.finditer(row):
        yield f"{row[: m.start()]}{m[1] or m[2]} >= 0 && {row[m.start() :]}"


def strides(row: str) -> Iterator[str]:
    """Yield a loop over a grid with the stride of all blocks.

    >>> [*strides("for (int i = blockIdx.x * T + threadIdx.x; i < n; i += T)")]
    ['for (int i = blockIdx.x * T + threadIdx.x; i < n; i += gridDim.x * T)']
    """
    for m in _STRIDE.finditer(row):
        yield f"{row[: m.start(1)]}gridDim.x * {row[m.start(1) :]}"


def offsets(text: str) -> Rule:
    """Return the rule that adds a product of the text where an index begins.

    >>> [*offsets("int base = group * width + k;")("int c = i / n;")]
    ['int c = group * width + i / n;']
    """
    found = Counter(m[1] for m in _PRODUCT.finditer(text))
    products = [p for p, _ in found.most_common(_MOST)]

    def rule(row: str) -> Iterator[str]:
        for pattern in (_SET, _PLACE):
            for m in pattern.finditer(row):
                for p in products:
                    if p not in row:
                        yield f"{row[: m.end()]}{p} + {row[m.end() :]}"

    return rule


def multiplied(names: Sequence[str]) -> Rule:
    """Return the rule that multiplies the first term of a sum by one of some names.

    >>> [*multiplied(["warps"])("int row = blockIdx.x + (threadIdx.x >> 5);")]
    ['int row = blockIdx.x * warps + (threadIdx.x >> 5);']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _SUM.finditer(row):
            yield from (f"{row[: m.end()]} * {n}{row[m.end() :]}" for n in names)

    return rule


def neighbours(rows: Sequence[str]) -> Rule:
    """Return the rule that gives a term what it has beside it on a line nearby.

    >>> rows = ["den += expf(x[i] - top);", "sum += x[i];"]
    >>> [*neighbours(rows)(rows[1])]
    ['sum += x[i] - top;']
    """
    places: dict[str, list[int]] = {}
    for k, r in enumerate(rows):
        places.setdefault(r, []).append(k)

    def rule(row: str) -> Iterator[str]:
        for k in places.get(row, ()):
            for other in rows[max(0, k - _NEAR) : k + _NEAR + 1]:
                for e in _EXTENSION.finditer(other) if other != row else ():
                    for m in re.finditer(rf"(?<![\w.]){re.escape(e[1])}(?=\s*[;,)])", row):
                        yield f"{row[: m.end()]} {e[2]} {e[3]}{row[m.end() :]}"

    return rule


def ties(rows: Sequence[str]) -> Rule:
    """Return the rule by which, of equal elements, the one of the least place is taken.

    >>> rows = ["if (v[a] > v[b]) {", "  v[b] = v[a];", "  at[b] = at[a];", "}"]
    >>> [*ties(rows)(rows[0])]
    ['if (v[a] > v[b] || (v[a] == v[b] && at[a] < at[b])) {']
    """
    places: dict[str, list[int]] = {}
    for k, r in enumerate(rows):
        places.setdefault(r, []).append(k)

    def rule(row: str) -> Iterator[str]:
        for m in _GREATER.finditer(row):
            for k in places.get(row, ()):
                taken = {a: b for r in rows[k : k + _NEAR + 1] for a, b in _TAKES.findall(r)}
                if taken.get(m[2]) == m[1]:
                    for a, b in taken.items():
                        if a != m[2]:
                            tie = f" || ({m[1]} == {m[2]} && {b} < {a})"
                            yield row[: m.end()] + tie + row[m.end() :]

    return rule


def returns(row: str) -> Iterator[str]:
    """Yield an empty statement for one that leaves a function or a loop early.

    >>> [*returns("  if (i >= n) return;")]
    ['  ;']
    """
    if m := _RETURNS.match(row):
        yield f"{m[1]};"


def between(rows: Sequence[str], lines: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Yield pairs of lines, the first one's number, both in order, and both with a part exchanged.

    They differ in a few words, of which one of each takes the place of the other's.

    >>> next(between(["a = f(hi, x[i]);", "a = f(lo, x[i + 1]);"], [1, 2]))[2]
    'a = f(lo, x[i]);\\na = f(hi, x[i + 1]);'
    """
    for n in lines:
        if n >= len(rows):
            continue
        one, two = ([*_TOKEN.finditer(r)] for r in rows[n - 1 : n + 1])
        for k, (a, b) in enumerate(zip(one, two, strict=False)):
            if a[0] != b[0] and k and one[k - 1][0] == two[k - 1][0] and a[0][0].isalpha():
                pair = [
                    r[: m.start()] + new + r[m.end() :]
                    for r, m, new in zip(rows[n - 1 : n + 1], (a, b), (b[0], a[0]), strict=True)
                ]
                yield n, "\n".join(rows[n - 1 : n + 1]), "\n".join(pair)
                break
