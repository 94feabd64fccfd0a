"""The threads of a block that share a row, and what they keep of it in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from didyma.codegen.options import Options
from didyma.codegen.schedule.nest import WIDE

SECTOR = 32  # bytes that memory gives at once: threads side by side fill some
LANES = 8  # threads to a row, at least, if it has as many elements to take
BUSY = 1 << 16  # threads that keep a device busy; fewer rows get more threads each
KEPT = 64  # registers of a thread that may hold elements of the row
TURNS = 32  # those that it takes one by one, if it holds them
HELD = 32  # those that it holds where nothing asks for more threads or fewer
LONGEST = 1 << 14  # elements of a row that a block holds, where another has room beside it
MODERATE = 1 << 12  # elements to expect of rows whose open length may be greater than that
FOLD_TURNS = ((32, 1), (64, 2), (256, 4), (512, 16))  # turns of folds that hold nothing
GOOD = 8  # bytes of an access that leave little to gain
FEW_BLOCK = 128  # threads of a block where rows keep few threads busy, or need no barrier
FULL_BLOCK = 256  # likewise where rows are many: some go on while others wait, if that is not long


def shape(
    length: int,
    count: int,
    across: bool,
    options: Options,
    width: int = 1,
    sizes: Sequence[int] = (),
    *,
    much: bool = False,
) -> tuple[int, int]:
    """Return how many rows share a block, and the threads for each.

    ``length`` and ``count`` are the most elements of a row and the most rows, ``width`` how many
    elements a thread takes at once, and ``sizes`` the bytes of what it keeps of each.  ``across``
    says that neighbouring rows, and not neighbours in a row, lie together in memory, ``much`` that
    a thread does more with an element than to meet others over it.

    The threads of a warp need no barrier to meet: one warp has a row if its registers hold it.
    """
    target, side = options.device, 1 << max(0, count - 1).bit_length()
    least = min(target.warp, side) if across else 1
    if least > 1:
        return least, _lanes_across(length, least, options)
    turns_ = max(1, held(sizes) // width)
    table = ((target.warp, 2 if width > 1 and not much else 4), (target.threads, turns_))
    units = length // width
    least = LANES if width == 1 else min(SECTOR // WIDE, max(1, units))
    lanes = _along(units, count, target.threads, table, least)
    few = lanes * count <= BUSY or lanes <= target.warp
    block = FEW_BLOCK if few or (much and lanes >= FEW_BLOCK) else FULL_BLOCK
    return max(1, min(min(options.block, block) // lanes, side)), lanes


def expected(length: int, *, is_open: bool) -> int:
    """Return how many elements of a row to expect, of which ``length`` is a bound.

    A bound that no block should hold says little of an open length: then as many threads as a
    moderate length asks for suit most.

    >>> expected(1 << 27, is_open=True), expected(1 << 27, is_open=False)
    (4096, 134217728)
    """
    return MODERATE if is_open and length > LONGEST else length


def held(sizes: Sequence[int]) -> int:
    """Return how many elements a thread best holds, if it keeps values of so many bytes of each.

    >>> held([2]), held([4, 4, 4]), held([8])
    (32, 16, 16)
    """
    most = min(4 * KEPT // max(1, sum(sizes)), 2 * KEPT // max(sizes, default=1))
    return min(HELD, 1 << max(1, most).bit_length() - 1)


def held_alone(sizes: Sequence[int]) -> int:
    """Return how many elements a thread may hold as ``held``, in a block of all threads there are.

    Its part of a multiprocessor's registers is small then, and compilers unpack what is packed.

    >>> held_alone([2]), held_alone([2, 2]), held_alone([8])
    (32, 16, 16)
    """
    return 4 * HELD // max(4, sum(max(4, n) for n in sizes))


def _lanes_across(length: int, side: int, options: Options) -> int:
    """Return the threads for each of ``side`` rows that lie side by side in memory."""
    lanes = 1
    while lanes * side < options.block and lanes * 4 < length:
        lanes *= 2
    while lanes * side < options.device.threads and lanes * TURNS // 2 < length:
        lanes *= 2
    return lanes


def suits(
    length: int, groups: int, lanes: int, width: int, options: Options, alone: int = 0
) -> bool:
    """Return whether holding a row beats reading it again.

    Not if its threads hold much, or take a whole multiprocessor: then none computes while others
    load, which pays for at most ``alone`` elements a thread.
    """
    found, target = turns(length, lanes, options, width), options.device
    room = lanes <= target.warp or groups * lanes * 2 <= target.threads
    return found is not None and found * width <= (HELD if room else alone)


def fold_shape(length: int, count: int, options: Options, width: int) -> tuple[int, int]:
    """Return, as ``shape``, what suits folds of rows that are read once, and not held."""
    side = 1 << max(0, count - 1).bit_length()
    if width > 1:
        lanes = _along(length // width, count, options.device.threads, FOLD_TURNS)
        return max(1, min(min(options.block, FEW_BLOCK) // lanes, side)), lanes
    lanes, block = LANES, options.block
    while lanes < min(block, options.device.warp) and lanes * 2 < length:
        lanes *= 2
    while lanes < block and lanes * 32 < length:
        lanes *= 2
    while count * lanes < options.kernels.full and lanes < block and lanes * 4 < length:
        lanes *= 2  # few results: more threads to each
    return max(1, min(block // lanes, side)), lanes


def _along(
    units: int, count: int, most: int, turns_of: Sequence[tuple[int, int]], least: int = 1
) -> int:
    """Return the threads of a row of ``units``, each of which is one access.

    ``turns_of`` are numbers of threads, with how many units each of fewer threads takes at least.
    """
    lanes = least
    for end, turns_ in turns_of:
        while lanes < min(end, most) and lanes * turns_ < units:
            lanes *= 2
    while lanes * count <= BUSY and lanes < min(256, most, units):
        lanes *= 2
    return lanes


def turns(length: int, lanes: int, options: Options, width: int = 1) -> int | None:
    """Return how often a thread takes ``width`` elements; None if they are too many to hold."""
    most = -(-(length // width) // lanes)
    held_ = options.kernels.held
    return most if most * width <= (min(TURNS, held_) if width == 1 else held_) else None


def widest(nbytes: int, length: int, divisor: int, options: Options) -> int:
    """Return how many elements of a size, a power of two, a thread best takes at once.

    ``length`` is the most elements of a row, and rows are known to be multiples of ``divisor``.

    >>> [widest(2, n, n, Options()) for n in (1000, 1001, 31)]
    [8, 8, 1]
    """
    full = WIDE // nbytes
    even = math.gcd(full, divisor)
    return even if even_is_better(even, nbytes, length, options) else full


def even_is_better(even: int, nbytes: int, length: int, options: Options) -> bool:
    """Return whether accesses of ``even`` elements beat wider ones, between which rows begin."""
    return even * nbytes >= GOOD or length < options.kernels.edges * (WIDE // nbytes)


def words(nbytes: int, elements: int) -> int:
    """Return how many registers hold elements of a size."""
    return -(-elements * nbytes // 4)
