"""How natural a line is in its text: at faults, words stand beside each other as nowhere else.

The idea is that of B. Ray, V. Hellendoorn, S. Godhane, Z. Tu, A. Bacchelli and P. Devanbu, *On the
"Naturalness" of Buggy Code*, 2016, with the text itself as the only corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*f?|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||\+\+|--|\S")
_LENGTHS = (2, 3)  # of sequences of tokens


@dataclass(frozen=True, slots=True)
class Naturalness:
    """The sequences of tokens of a text's lines, and of all of them."""

    lines: Sequence[Counter[tuple[str, ...]]]
    whole: Counter[tuple[str, ...]]

    @classmethod
    def of(cls, rows: Sequence[str]) -> Naturalness:
        """Count the sequences of lines.

        >>> known = Naturalness.of(["s += x[i];", "t += y[i];", "y[j] = s;"])
        >>> known.gain(3, "y[i] = s;"), known.gain(3, "y[x] = s;")
        (4, 0)
        """
        lines = [_sequences(r) for r in rows]
        return cls(lines, sum(lines, Counter[tuple[str, ...]]()))

    def gain(self, line: int, new: str) -> int:
        """Return how many sequences that no other line has a line, counted from 1, has fewer as."""
        old = self.lines[line - 1]
        edited = _sequences(new)
        strange = [
            sum(1 for s in a - b if self.whole[s] == old[s])
            for a, b in ((old, edited), (edited, old))
        ]
        return strange[0] - strange[1]


def _sequences(row: str) -> Counter[tuple[str, ...]]:
    tokens = ["", *_TOKEN.findall(row), ""]
    return Counter(tuple(tokens[k : k + n]) for n in _LENGTHS for k in range(len(tokens) - n + 1))
