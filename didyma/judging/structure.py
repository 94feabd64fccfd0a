"""Edits of how an expression is built: brackets, layouts of indices, conjuncts, sibling lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations

from didyma.judging.borrowed import Rule, closing

_BESIDE = 4  # lines between a line and one that computes the same along another axis
_CLOSE = 0.01  # of a known number
_KNOWN = (
    "1.44269504", "0.69314718", "3.14159265", "6.28318531", "1.57079633", "0.70710678",
    "1.41421356", "0.79788456", "0.04471500", "0.39894228", "1.12837917", "2.30258509",
)  # fmt: skip
_AXES = (
    ("width", "height"),
    ("x", "y"),
    ("w", "h"),
    ("W", "H"),
    ("X", "Y"),
    ("i", "j"),
    ("col", "row"),
    ("n", "m"),
)
_TERM = r"(?:[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?|\d+\.?\d*(?:e[-+]?\d+)?f?)"
_CALL = re.compile(r"\b(?!if\b|for\b|while\b|switch\b)[A-Za-z_]\w*\(")
_LAST = re.compile(rf"( [-+] (?:{_TERM}))$")
_AFTER = re.compile(rf" [-+] (?:{_TERM})(?![\w.(\[])(?! [*/%])")
_SUM = re.compile(rf"(?<![\w.] [*/%] )(?<![\w.])({_TERM}) ([-+]) ({_TERM}) ([*/%]) ({_TERM})")
_PAIR = rf"\(({_TERM} [-+] {_TERM})\)"
_GROUP = re.compile(rf"(?<!\w){_PAIR}(?= [*/%])|(?<= [*/%] ){_PAIR}")
_LAYOUT = re.compile(
    r"(?<=[\[(])(\w+|\([^()]*\)) \* (\w+) \+ (\w+(?: \+ \w+)?|\([^()]*\))(?=[\])])"
)
_PLAIN = re.compile(r"\w+")
_CONJUNCT = re.compile(r"(?<=[(=] )[^()&|;=]+ (?:&&|\|\|) |(?<=\()[^()&|;]+ (?:&&|\|\|) ")
_NEXT = re.compile(r" (?:&&|\|\|) [^()&|;?]+(?=[);?])")
_SIGN = re.compile(r"(?<=[\w\])] )[-+](?= [\w(])")
_REAL = re.compile(r"(?<![\w.])(\d+\.\d+)(?=f?\b)")
_SMALL = re.compile(r"(?<![\w.])\d(?![\w.])")
_WHOLE = re.compile(r"\(int\)\s?\(?|__float2int_r[nzud]\(|\b(?:floor|ceil|rint|round|trunc)f\(")
_ROUNDINGS = ("floorf(", "ceilf(", "rintf(", "roundf(", "truncf(", "__float2int_rn(")
_SET = re.compile(r"(\s*(?:const )?(?:[A-Za-z_][\w:]*[\s*&]+)?)([A-Za-z_]\w*)(.*)$")
_COUNTED = re.compile(r"\bint (\w+) = [^,;]*;\s*$")
_ASKED = re.compile(r"(?:(?<=[(&=?:] )|(?<=\())[\w.+* -]+ [<>]=? [\w.]+\b(?! *[-+*/(\[])")
_TILES = re.compile(r"\bfor \([^;]*\b(\w+) = [^;]*; \1 [^;]*; \1 \+= ")
_PLACE = re.compile(r"\[([^\[\]]+)\]")
_STATEMENT = re.compile(r"(\s*)[A-Za-z_]\w*(?:\[[^;=]*\]|\.\w+)* [-+*/|&]?= [^;]*;\s*$")


def brackets(row: str) -> Iterator[str]:
    """Yield a line of which a term enters or leaves the brackets beside it.

    >>> [*brackets("v = sqrtf(a + eps);")], [*brackets("i = (a + b) * c;")]
    (['v = sqrtf(a) + eps;'], ['i = a + b * c;'])
    >>> [*brackets("v = s / (n + 1e-5f);")]
    ['v = s / n + 1e-5f;']
    """
    for m in _CALL.finditer(row):
        end = closing(row, m.end() - 1)
        if end and (last := _LAST.search(row[m.end() : end])):
            k = m.end() + last.start()
            yield f"{row[:k]}){last[1]}{row[end + 1 :]}"
        if end and (after := _AFTER.match(row, end + 1)):
            yield f"{row[:end]}{after[0]}){row[after.end() :]}"
    for m in _GROUP.finditer(row):
        yield f"{row[: m.start()]}{m[1] or m[2]}{row[m.end() :]}"
    for m in _SUM.finditer(row):
        yield f"{row[: m.start()]}({m[1]} {m[2]} {m[3]}) {m[4]} {m[5]}{row[m.end() :]}"


def layouts(extents: Sequence[str]) -> Rule:
    """Return the rule that lays an index out in the other order, by one of some extents.

    >>> [*layouts(["m", "n"])("y[(a + 1) * n + b]")]
    ['y[b * m + (a + 1)]', 'y[b * n + (a + 1)]']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _LAYOUT.finditer(row):
            inner = m[3] if _PLAIN.fullmatch(m[3]) or m[3].startswith("(") else f"({m[3]})"
            for n in extents:
                yield f"{row[: m.start()]}{inner} * {n} + {m[1]}{row[m.end() :]}"

    return rule


def signs(row: str) -> Iterator[str]:
    """Yield a line of which two signs beside each other are turned round.

    >>> [*signs("y = oy - P + ky;")]
    ['y = oy + P - ky;']
    """
    for a, b in pairwise(_SIGN.finditer(row)):
        between, turned = row[a.end() : b.start()], {"+": "-", "-": "+"}
        if a[0] != b[0] and not re.search("[,;=?:<>]", between):
            yield f"{row[: a.start()]}{turned[a[0]]}{between}{turned[b[0]]}{row[b.end() :]}"


def conjuncts(row: str) -> Iterator[str]:
    """Yield a line that asks one thing less.

    >>> [*conjuncts("if (a < b && c < d)")]
    ['if (c < d)', 'if (a < b)']
    """
    for pattern in (_CONJUNCT, _NEXT):
        for m in pattern.finditer(row):
            yield row[: m.start()] + row[m.end() :]


def constants(row: str) -> Iterator[str]:
    """Yield a line with a number of mathematics in the place of one that is near it.

    >>> [*constants("exp2f(x * 1.4426f)")]
    ['exp2f(x * 1.44269504f)']
    """
    for m in _REAL.finditer(row):
        for known in _KNOWN:
            value = float(known)
            if m[1] != known and abs(float(m[1]) - value) < _CLOSE * value:
                yield row[: m.start()] + known + row[m.end() :]


def counts(row: str) -> Iterator[str]:
    """Yield a line of which two small numbers beside each other are one more, or one less.

    >>> [*counts("max(w[1], w[2])")]
    ['max(w[2], w[3])', 'max(w[0], w[1])']
    """
    for a, b in pairwise(_SMALL.finditer(row)):
        between = row[a.end() : b.start()]
        for by in (1, -1):
            x, y = int(a[0]) + by, int(b[0]) + by
            if min(x, y) >= 0:
                yield f"{row[: a.start()]}{x}{between}{y}{row[b.end() :]}"


def roundings(row: str) -> Iterator[str]:
    """Yield a line that rounds another way.

    >>> next(roundings("q = (int)(x / s);"))
    'q = floorf(x / s);'
    """
    for m in _WHOLE.finditer(row):
        if m[0].endswith("("):
            others = (f for f in _ROUNDINGS if f != m[0])
            yield from (row[: m.start()] + f + row[m.end() :] for f in others)


def dropped(row: str) -> Iterator[str]:
    """Yield an empty statement for one that sets something."""
    if m := _STATEMENT.match(row):
        yield f"{m[1]};"


def conditions(rows: Sequence[str], ints: Sequence[str]) -> Rule:
    """Return the rule that sets something only if one number nearby is below another, or not.

    >>> rows = ["for (int d = 1; d < 32; d *= 2) {", "  if (lane) v += up;", "  v += up;"]
    >>> [*conditions(rows, ["d", "lane"])(rows[2])][:2]
    ['  if (d < lane) v += up;', '  if (d >= lane) v += up;']
    """
    places: dict[str, list[int]] = {}
    for k, r in enumerate(rows):
        places.setdefault(r, []).append(k)

    def rule(row: str) -> Iterator[str]:
        m = _STATEMENT.match(row)
        for k in places.get(row, ()) if m else ():
            near = {w for r in rows[max(0, k - _BESIDE) : k + 2] for w in _PLAIN.findall(r)}
            for a, b in permutations([n for n in ints if n in near], 2):
                for compared in "<", ">=":
                    indent = m[1] if m else ""
                    yield f"{indent}if ({a} {compared} {b}) {row.lstrip()}"

    return rule


def guarded(unused: Sequence[str]) -> Rule:
    """Return the rule that leaves out what equals a number that nothing uses.

    >>> [*guarded(["padding"])("int id = ids[k];")]
    ['int id = ids[k]; if (id == padding) continue;', 'int id = ids[k]; if (id == padding) return;']
    """

    def rule(row: str) -> Iterator[str]:
        if m := _COUNTED.search(row):
            for n in unused:
                for leave in ("continue", "return"):
                    yield f"{row} if ({m[1]} == {n}) {leave};"

    return rule


def tiled(rows: Sequence[str]) -> Rule:
    """Return the rule that adds to an index where the tile of a loop around the line begins.

    >>> rows = ["for (int k0 = 0; k0 < n; k0 += T) {", "  s[e] = x[e];", "}", "y[i] = s[e];"]
    >>> [*tiled(rows)(rows[1])], [*tiled(rows)(rows[3])]
    (['  s[k0 + e] = x[e];', '  s[e] = x[k0 + e];'], [])
    """
    around: dict[str, list[str]] = {}
    loops: list[tuple[int, str]] = []
    depth = 0
    for row in rows:
        found = around.setdefault(row, [])
        found += [name for _, name in loops if name not in found]
        if m := _TILES.search(row):
            loops.append((depth, m[1]))
        depth += row.count("{") - row.count("}")
        loops = [p for p in loops if depth > p[0]]

    def rule(row: str) -> Iterator[str]:
        names = around.get(row, ())
        for m in _PLACE.finditer(row) if names else ():
            for name in names:
                if not re.search(rf"\b{name}\b", m[1]):
                    yield f"{row[: m.start(1)]}{name} + {row[m.start(1) :]}"

    return rule


def siblings(rows: Sequence[str]) -> Rule:
    """Return the rule that computes along one axis what a line nearby computes along another.

    >>> rows = ["float fx = (ox + 0.5f) / w;", "float fy = oy / h;"]
    >>> [*siblings(rows)(rows[1])]
    ['float fy = (oy + 0.5f) / h;']
    """
    words = {w for r in rows for w in _PLAIN.findall(r)}
    places: dict[str, list[int]] = {}
    for k, r in enumerate(rows):
        places.setdefault(r, []).append(k)

    def turned(text: str) -> str:
        return _PLAIN.sub(lambda m: _other(m[0], words), text)

    def rule(row: str) -> Iterator[str]:
        own = _SET.match(row)
        for k in places.get(row, ()) if own else ():
            for other in rows[max(0, k - _BESIDE) : k + _BESIDE + 1]:
                m = _SET.match(other)
                if m and own and m[2] != own[2] and turned(m[2]) == own[2]:
                    yield f"{own[1]}{own[2]}{turned(m[3])}"

    return rule


def axes(rows: Sequence[str]) -> Rule:
    """Return the rule that asks along another axis, too, what a line asks along one.

    >>> rows = ["int h, w, height, width;", "if (h < height)"]
    >>> [*axes(rows)(rows[1])]
    ['if (h < height && w < width)']
    """
    words = {w for r in rows for w in _PLAIN.findall(r)}

    def rule(row: str) -> Iterator[str]:
        for m in _ASKED.finditer(row):
            other = _PLAIN.sub(lambda w: _other(w[0], words), m[0])
            if other not in row:
                yield f"{row[: m.end()]} && {other}{row[m.end() :]}"

    return rule


def _other(word: str, words: set[str]) -> str:
    """Return the name that is for the other axis what a name is for one, or the name itself."""
    for pair in _AXES:
        for a, b in (pair, pair[::-1]):
            for k in range(len(word)):
                if word.startswith(a, k):
                    new = word[:k] + b + word[k + len(a) :]
                    if new in words and new != word:
                        return new
    return word
