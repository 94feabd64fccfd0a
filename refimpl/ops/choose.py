"""Random choices for ``Op.sample``; the first option of each is always the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from didyma.refimpl.ops.spec import Chooser

T = TypeVar("T")

SMALL = (2, 3, 1, 4, 5, 7, 8, 0, 16, 17)  # sizes worth trying


def pick(ch: Chooser, options: Sequence[T]) -> T:
    """Return one of the options."""
    return options[ch.below(len(options))]


def flag(ch: Chooser) -> bool:
    """Return either bool; False is the simplest."""
    return ch.below(2) == 1


def subset(ch: Chooser, n: int) -> tuple[int, ...]:
    """Return a subset of range(n), increasing; the simplest is the last element alone."""
    if n == 0:
        return ()
    bits = ch.below(1 << n)
    return tuple(n - 1 - i for i in reversed(range(n)) if ((bits + 1) % (1 << n)) >> i & 1)


def permutation(ch: Chooser, n: int) -> tuple[int, ...]:
    """Return a permutation of range(n); the simplest is the identity."""
    left = list(range(n))
    return tuple(left.pop(ch.below(len(left))) for _ in range(n))


def size(ch: Chooser, most: int = 17) -> int:
    """Return a small size, 0 and 1 among them."""
    return pick(ch, [s for s in SMALL if s <= most])
