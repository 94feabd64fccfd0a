"""How natural a line is in its text: at faults, words stand beside each other as nowhere else.

The idea is that of B. Ray, V. Hellendoorn, S. Godhane, Z. Tu, A. Bacchelli and P. Devanbu, *On the
"Naturalness" of Buggy Code*, 2016, with the text itself as the only corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import ne
from typing import TypeVar

T = TypeVar("T")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*f?|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||\+\+|--|\S")
_LENGTHS = (2, 3)  # of sequences of tokens
_BESIDE = 3  # lines
# How much more likely an edit is for each sequence that it makes less strange, if its words are of
# its line, or of lines beside it, if a word is almost the one before, and for each new token.
_GAIN, _HERE, _NEAR, _ALIKE, _NEW = 0.17, 0.5, 0.4, 0.35, -0.4


@dataclass(frozen=True, slots=True)
class Naturalness:
    """The tokens of a text's lines in order, their sequences, those of all, and sets of tokens.

    The sets are those of each line, and of the lines around it.
    """

    rows: Sequence[Sequence[str]]
    lines: Sequence[Counter[tuple[str, ...]]]
    whole: Counter[tuple[str, ...]]
    tokens: Sequence[set[str]]
    around: Sequence[set[str]]

    @classmethod
    def of(cls, rows: Sequence[str]) -> Naturalness:
        """Count the sequences of lines.

        >>> known = Naturalness.of(["s += x[i];", "t += y[i];", "y[j] = s;"])
        >>> known.gain(3, "y[i] = s;"), known.gain(3, "y[x] = s;")
        (4, 0)
        """
        words = [_words(r) for r in rows]
        lines = [Counter(_sequences(w)) for w in words]
        whole, tokens = Counter[tuple[str, ...]](), [{*w} for w in words]
        for row in lines:
            whole.update(row)
        near = (tokens[max(0, k - _BESIDE) : k + 1 + _BESIDE] for k in range(len(words)))
        return cls(words, lines, whole, tokens, [{*chain(*rows)} for rows in near])

    def gain(self, line: int, new: str) -> int:
        """Return how many sequences that no other line has a line, counted from 1, has fewer as."""
        return self._gain(line, *_changed(self.rows[line - 1], _words(new)))

    def _gain(self, line: int, old: Sequence[str], edited: Sequence[str]) -> int:
        whole, own = self.whole, self.lines[line - 1]
        lost, more = ({*row} for row in _differences(_sequences(old), _sequences(edited)))
        fewer = sum(1 for s in lost if whole[s] == own[s])
        return fewer - sum(1 for s in more if whole[s] == own[s])

    def likely(self, line: int, new: str) -> float:
        """Return the logarithm of how much more likely than others a line's edit mends a slip.

        >>> known = Naturalness.of(["float s, t;", "s += x[i];", "s += y[j];"])
        >>> known.likely(3, "s += y[i];") > known.likely(3, "s += y[s];")
        True
        """
        old = self.tokens[line - 1]
        before, after = _changed(self.rows[line - 1], _words(new))
        lost, added = _differences(before, after)
        words, gone = (
            [w for w in dict.fromkeys(row) if w[:1].isalnum() or w[:1] == "_"]
            for row in (added, lost)
        )
        around = self.around[line - 1]
        near = all(w in around for w in words) if words else False
        here = all(w in old for w in words) if words else False
        alike = len(words) == len(gone) == 1 and _alike(words[0], gone[0])
        return (
            _GAIN * max(-8, min(8, self._gain(line, before, after)))
            + _HERE * here + _NEAR * near + _ALIKE * alike + _NEW * min(6, len(added))
        )  # fmt: skip


def _alike(a: str, b: str) -> bool:
    return len(a) == len(b) > 1 and sum(map(ne, a, b)) < 2


def _words(row: str) -> list[str]:
    """Return the tokens of a line, with an empty one at each end."""
    return ["", *_TOKEN.findall(row), ""]


def _changed(old: Sequence[str], new: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the parts of two lines in which their sequences differ.

    >>> _changed([*"abcdefgh"], [*"abcdxfgh"])
    (['c', 'd', 'e', 'f', 'g'], ['c', 'd', 'x', 'f', 'g'])
    """
    least, beside = min(len(old), len(new)), max(_LENGTHS) - 1
    head = next((k for k in range(least) if old[k] != new[k]), least)
    tail = next((k for k in range(least - head) if old[-1 - k] != new[-1 - k]), least - head)
    start, left = max(0, head - beside), max(0, tail - beside)
    return old[start : len(old) - left], new[start : len(new) - left]


def _sequences(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(tokens[k : k + n]) for n in _LENGTHS for k in range(len(tokens) - n + 1)]


def _differences(old: Sequence[T], new: Sequence[T]) -> tuple[list[T], list[T]]:
    """Return what the first of two sequences has more often than the second, and the reverse.

    >>> _differences("aab", "abc")
    (['a'], ['c'])
    """
    left, more = [*old], list[T]()
    for x in new:
        if x in left:
            left.remove(x)
        else:
            more.append(x)
    return left, more
