"""The threads of a block that share a row, and what they keep of it in registers."""

from __future__ import annotations

from didyma.codegen.options import Options
from didyma.codegen.schedule.reduction import LANES
from didyma.refimpl.ir.types import DType

KEPT = 64  # registers of a thread that may hold elements of the row
TURNS = 16  # elements of a row that a thread takes, where there are threads enough


def shape(length: int, count: int, across: bool, options: Options) -> tuple[int, int]:
    """Return how many rows share a block, and the threads for each.

    ``length`` and ``count`` are the most elements of a row and the most rows.  ``across`` says that
    neighbouring rows, and not neighbours in a row, lie together in memory.
    """
    target, side = options.device, 1 << max(0, count - 1).bit_length()
    least = min(target.warp, side) if across else 1
    lanes = 1 if least > 1 else LANES
    while lanes * least < options.block and lanes * 4 < length:
        lanes *= 2
    while lanes * least < target.threads and lanes * TURNS < length:
        lanes *= 2
    return max(least, min(options.block // lanes, side)), lanes


def turns(length: int, lanes: int) -> int | None:
    """Return how many elements a thread holds at most; None if they are too many for registers."""
    most = -(-length // lanes)
    return most if most <= TURNS else None


def words(dtype: DType, turns: int) -> int:
    """Return how many registers hold the elements of one array that a thread takes."""
    return turns * max(1, dtype.nbytes // 4)
