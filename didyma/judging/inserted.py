"""Edits that put a statement before or after a line: barriers, fences, zeros in variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from didyma.judging.edits import Edit

_VARIABLE = re.compile(r"\b__device__\s+(?:volatile\s+|unsigned\s+)*\w+\s+(\w+)\s*(?:=[^;()]*)?;")
_STATEMENT = re.compile(r"\s+(?!(?:return|break|continue)\b)[^#{}]*;\s*$")


def with_barriers(
    text: str, lines: Sequence[int], races: Sequence[int], *, fences: bool = False
) -> Iterator[Edit]:
    """Yield edits that put a barrier of the block, or a fence, before one of some lines of a text.

    Of the ``races``, lines in pairs, the first one tells which edits come first: those between its
    two lines, then those after both, since a loop or a call may come back to the first.

    >>> text = "a[t] = 1;\\nb = a[u];\\nc = b;"
    >>> [e.line for e in with_barriers(text, [1, 2, 3], [2, 1])]
    [2, 3, 1]
    """
    rows = text.split("\n")
    low, high = sorted(races[:2]) if len(races) > 1 else (0, 0)
    for n in sorted(lines, key=lambda n: (n <= low, n > high, abs(n - low))):
        if 0 < n <= len(rows) and (row := rows[n - 1]).strip():
            indent = row[: len(row) - len(row.lstrip())]
            for call in ("__syncthreads();", "__threadfence();")[: 1 + fences]:
                yield Edit(n, row, f"{indent}{call} {row.lstrip()}")


def with_resets(text: str, lines: Sequence[int]) -> Iterator[Edit]:
    """Yield edits that set a variable of a text to zero after one of some lines, the last first.

    >>> text = "__device__ int count;\\nvoid f() {\\n  y[0] = 1;\\n}"
    >>> [e.new for e in with_resets(text, [2, 3, 4])]
    ['  y[0] = 1; count = 0;']
    """
    rows = text.split("\n")
    ends = [n for n in sorted(lines, reverse=True) if _STATEMENT.match(rows[n - 1])]
    for name in dict.fromkeys(_VARIABLE.findall(text)):
        yield from (Edit(n, rows[n - 1], f"{rows[n - 1]} {name} = 0;") for n in ends)
