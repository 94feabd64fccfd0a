"""How natural a line is in its text: at faults, words stand beside each other as nowhere else.

The idea is that of B. Ray, V. Hellendoorn, S. Godhane, Z. Tu, A. Bacchelli and P. Devanbu, *On the
"Naturalness" of Buggy Code*, 2016, with the text itself as the only corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ne

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*f?|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||\+\+|--|\S")
_LENGTHS = (2, 3)  # of sequences of tokens
_BESIDE = 3  # lines
# How much more likely an edit is for each sequence that it makes less strange, if its words are of
# its line, or of lines beside it, if a word is almost the one before, and for each new token.
_GAIN, _HERE, _NEAR, _ALIKE, _NEW = 0.17, 0.5, 0.4, 0.35, -0.4


@dataclass(frozen=True, slots=True)
class Naturalness:
    """The sequences of tokens of a text's lines, and of all of them; and the tokens of lines."""

    lines: Sequence[Counter[tuple[str, ...]]]
    whole: Counter[tuple[str, ...]]
    tokens: Sequence[Counter[str]]

    @classmethod
    def of(cls, rows: Sequence[str]) -> Naturalness:
        """Count the sequences of lines.

        >>> known = Naturalness.of(["s += x[i];", "t += y[i];", "y[j] = s;"])
        >>> known.gain(3, "y[i] = s;"), known.gain(3, "y[x] = s;")
        (4, 0)
        """
        lines = [_sequences(r) for r in rows]
        tokens = [Counter(_TOKEN.findall(r)) for r in rows]
        return cls(lines, sum(lines, Counter[tuple[str, ...]]()), tokens)

    def gain(self, line: int, new: str) -> int:
        """Return how many sequences that no other line has a line, counted from 1, has fewer as."""
        old = self.lines[line - 1]
        edited = _sequences(new)
        strange = [
            sum(1 for s in a - b if self.whole[s] == old[s])
            for a, b in ((old, edited), (edited, old))
        ]
        return strange[0] - strange[1]

    def likely(self, line: int, new: str) -> float:
        """Return the logarithm of how much more likely than others a line's edit mends a slip.

        >>> known = Naturalness.of(["float s, t;", "s += x[i];", "s += y[j];"])
        >>> known.likely(3, "s += y[i];") > known.likely(3, "s += y[s];")
        True
        """
        old, edited = self.tokens[line - 1], Counter(_TOKEN.findall(new))
        added, lost = edited - old, old - edited
        words, gone = ([w for w in row if w[0].isalnum() or w[0] == "_"] for row in (added, lost))
        beside = self.tokens[max(0, line - 1 - _BESIDE) : line + _BESIDE]
        near = all(any(w in row for row in beside) for w in words) if words else False
        here = all(w in old for w in words) if words else False
        alike = len(words) == len(gone) == 1 and _alike(words[0], gone[0])
        return (
            _GAIN * max(-8, min(8, self.gain(line, new)))
            + _HERE * here + _NEAR * near + _ALIKE * alike + _NEW * min(6, added.total())
        )  # fmt: skip


def _alike(a: str, b: str) -> bool:
    return len(a) == len(b) > 1 and sum(map(ne, a, b)) < 2


def _sequences(row: str) -> Counter[tuple[str, ...]]:
    tokens = ["", *_TOKEN.findall(row), ""]
    return Counter(tuple(tokens[k : k + n]) for n in _LENGTHS for k in range(len(tokens) - n + 1))
