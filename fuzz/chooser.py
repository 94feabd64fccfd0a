"""Random decisions, of which 0 is always the simplest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Chooser(Protocol):
    """A source of random decisions."""

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        ...

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        """Return True about once in so many calls; False is the simplest."""
        return self.below(one_in) == one_in - 1


class Bytes(Chooser):
    """A Chooser that spends a packed integer in mixed radix; spent, it answers 0.

    >>> c = Bytes((5 + 10 * 3).to_bytes(4, "little"))
    >>> c.below(10), c.below(4), c.below(7)
    (5, 3, 0)
    """

    def __init__(self, data: bytes) -> None:
        self._left = int.from_bytes(data, "little")

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        self._left, digit = divmod(self._left, n)
        return digit


class Dice(Chooser):
    """A Chooser without end, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        return int(self._random() * n)
