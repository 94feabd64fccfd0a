"""The threads of a block that share a row, and what they keep of it in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from didyma.codegen.options import Options
from didyma.codegen.schedule.nest import WIDE

LANES = 8  # threads to a row, at least, if it has as many elements to take
BUSY = 1 << 16  # threads that keep a device busy; fewer rows get more threads each
KEPT = 64  # registers of a thread that may hold elements of the row
MOST = 64  # elements of a row that a thread holds at most
TURNS = 16  # those that it takes one by one, if it holds them
FOLD_TURNS = ((32, 1), (64, 2), (256, 4), (512, 16))  # likewise in folds that hold nothing
# Threads of a row, and how often each takes several elements at once: more often in longer rows.
WIDE_TURNS = ((32, 1), (64, 2), (1024, 4))
WIDE_BLOCK = 128  # threads of a block in which they do, where the row asks for no more


def shape(
    length: int, count: int, across: bool, options: Options, width: int = 1
) -> tuple[int, int]:
    """Return how many rows share a block, and the threads for each.

    ``length`` and ``count`` are the most elements of a row and the most rows, and ``width`` how
    many elements a thread takes at once.  ``across`` says that neighbouring rows, and not
    neighbours in a row, lie together in memory.
    """
    target, side = options.device, 1 << max(0, count - 1).bit_length()
    if width > 1:
        lanes = _wide_lanes(-(-length // width), count, target.threads, WIDE_TURNS)
        return max(1, min(min(options.block, WIDE_BLOCK) // lanes, side)), lanes
    least = min(target.warp, side) if across else 1
    lanes = 1 if least > 1 else LANES
    while lanes * least < options.block and lanes * 4 < length:
        lanes *= 2
    while lanes * least < target.threads and lanes * TURNS < length:
        lanes *= 2
    return max(least, min(options.block // lanes, side)), lanes


def fold_shape(length: int, count: int, options: Options, width: int) -> tuple[int, int]:
    """Return, as ``shape``, what suits folds of rows that are read once, and not held."""
    side = 1 << max(0, count - 1).bit_length()
    if width > 1:
        lanes = _wide_lanes(-(-length // width), count, options.device.threads, FOLD_TURNS)
        return max(1, min(min(options.block, WIDE_BLOCK) // lanes, side)), lanes
    lanes, block = LANES, options.block
    while lanes < min(block, options.device.warp) and lanes * 2 < length:
        lanes *= 2
    while lanes < block and lanes * 32 < length:
        lanes *= 2
    while count * lanes < options.kernels.full and lanes < block and lanes * 4 < length:
        lanes *= 2  # few results: more threads to each
    return max(1, min(block // lanes, side)), lanes


def _wide_lanes(units: int, count: int, most: int, turns_of: Sequence[tuple[int, int]]) -> int:
    """Return the threads of a row of ``units``, each of which is one access."""
    lanes = 1
    for end, turns_ in turns_of:
        while lanes < min(end, most) and lanes * turns_ < units:
            lanes *= 2
    while lanes * count <= BUSY and lanes < min(256, most, units):
        lanes *= 2
    return lanes


def turns(length: int, lanes: int, width: int = 1) -> int | None:
    """Return how often a thread takes ``width`` elements; None if they are too many to hold."""
    most = -(-length // (lanes * width))
    return most if most * width <= (TURNS if width == 1 else MOST) else None


def widest(nbytes: int, length: int) -> int:
    """Return how many elements of a size, a power of two, fill an access or divide a length.

    >>> widest(2, 1000), widest(4, 1000), widest(4, 1001)
    (8, 4, 1)
    """
    return math.gcd(WIDE // nbytes, length)


def words(nbytes: int, elements: int) -> int:
    """Return how many registers hold elements of a size."""
    return -(-elements * nbytes // 4)
