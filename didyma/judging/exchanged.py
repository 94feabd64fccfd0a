"""Edits that exchange parts of a line, names or what a condition chooses between, or two lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

_NAME = re.compile(r"(?<![\w.>])[A-Za-z_]\w*(?:\.[xyzw]\b)?(?!\s*(?:[\w(<*]|&(?!&))|\.\w)")
_KEPT = frozenset(("if", "for", "while", "return", "else", "const", "int", "float"))
_ARM = r"([\w.\[\]*+ -]+?)"
_SETS = re.compile(
    r"\s*((?:const )?(?:int|unsigned|size_t|long|float|double|half|auto|u?int\d+_t) )?"
    r"([A-Za-z_]\w*)(?:\[[^=;]*\]|\.\w+)* [-+*/%&|^]?= [^;]*;\s*$"
)
_CALLS = re.compile(r"\s*[A-Za-z_][\w.:]*(?:<[^<>]*>)?\([^;]*\);\s*$")
_PART = re.compile(r"(?<![\w\])])\((?=[^()]*[^\s\w()])(?:[^()]|\([^()]*\))*\)")
_STATEMENT = re.compile(r"(?<=[\s{;])([A-Za-z_]\w*) [-+*/]?= ([^;=]+);")
_CHOICE = re.compile(rf"\?\s*{_ARM}\s*:\s*{_ARM}(?=\s*[;,)])")


def names(row: str) -> Iterator[str]:
    """Yield a line with two of its names exchanged, those first that stand near each other.

    >>> next(names("y[i] = b * sn + a * cs;"))
    'i[y] = b * sn + a * cs;'
    >>> "y[i] = b * cs + a * sn;" in names("y[i] = b * sn + a * cs;")
    True
    """
    found = [m for m in _NAME.finditer(row) if m[0] not in _KEPT]
    pairs = [(a, b) for a, b in combinations(found, 2) if a[0] != b[0]]
    for a, b in sorted(pairs, key=lambda p: p[1].start() - p[0].start()):
        between = row[a.end() : b.start()]
        yield row[: a.start()] + b[0] + between + a[0] + row[b.end() :]


def choices(row: str) -> Iterator[str]:
    """Yield a line in which a condition chooses the other way.

    >>> [*choices("lo = big ? b : a;")]
    ['lo = big ? a : b;']
    """
    for m in _CHOICE.finditer(row):
        yield f"{row[: m.start()]}? {m[2]} : {m[1]}{row[m.end() :]}"


def parts(row: str) -> Iterator[str]:
    """Yield a line with two parts in brackets exchanged.

    >>> [*parts("r = m + (e >> 1) * 8, c = (e & 1);")]
    ['r = m + (e & 1) * 8, c = (e >> 1);']
    """
    for a, b in combinations(_PART.finditer(row), 2):
        if a[0] != b[0] and b.start() >= a.end():
            between = row[a.end() : b.start()]
            yield row[: a.start()] + b[0] + between + a[0] + row[b.end() :]


def earlier(rows: Sequence[str], lines: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Yield lines, the first one's number, as they are, and with what a name was before it was set.

    It is set in one statement and read in a later one of the line, or of the next line.

    >>> [*earlier(["  a = min(a, b); b = max(a, b);"], [1])][0][2]
    '  auto a_before = a; a = min(a, b); b = max(a_before, b);'
    >>> [*earlier(["  x = c * x - s * y;", "  y = s * x + c * y;"], [1])][0][2]
    '  auto x_before = x; x = c * x - s * y;\\n  y = s * x_before + c * y;'
    """
    for n in lines:
        row = rows[n - 1]
        for old in (row, "\n".join(rows[n - 1 : n + 1])):
            for m in _STATEMENT.finditer(old, 0, len(row)):
                name, rest = m[1], old[m.end() :]
                new = re.sub(rf"(?<![\w.]){name}\b(?! ?[-+*/]?=(?!=))", f"{name}_before", rest)
                reads = re.search(rf"(?<![\w.]){name}\b", m[2])
                if new != rest and (reads or old is row) and not (old is not row and row == rest):
                    yield n, old, f"{old[: m.start()]}auto {name}_before = {name}; {m[0]}{new}"


def statements(rows: Sequence[str], lines: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """Yield pairs of lines, the first one's number, both in order, and both turned round.

    They are statements, one of which names what the other assigns but does not declare, or calls.

    >>> [*statements(["sums[b] = all;", "all += v;", "n = v;"], [1, 2, 3])]
    [(1, 'sums[b] = all;\\nall += v;', 'all += v;\\nsums[b] = all;')]
    >>> [*statements(["int hi = lo + 1;", "lo = max(lo, 0);", "int n = lo;", "n += 1;"], [1, 3])]
    [(1, 'int hi = lo + 1;\\nlo = max(lo, 0);', 'lo = max(lo, 0);\\nint hi = lo + 1;')]
    """
    for n in lines:
        pair = rows[n - 1 : n + 1]
        sets = [m for m in map(_SETS.match, pair) if m]
        named = [m for m, r in zip(sets, pair[::-1], strict=False) if re.search(rf"\b{m[2]}\b", r)]
        calls = len(pair) == 2 and all(map(_CALLS.match, pair)) and pair[0] != pair[1]
        if calls or (len(sets) == 2 and named and not any(m[1] for m in named)):
            yield n, "\n".join(pair), "\n".join(pair[::-1])
