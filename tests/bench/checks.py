"""Time of one access that engine ``ptx`` checks: ``python -m tests.bench.checks``.

Patterns of kernels, of 64 blocks of 256 threads: times of the processor, the best of five.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from didyma.codegen.runtime.ptx.memory import (
    GLOBAL,
    INIT,
    READ,
    WRITE,
    Allocation,
    Memory,
    Space,
)
from didyma.refimpl.ir.types import Array

BLOCKS, THREADS, SIDE = 64, 256, 16
LANES = np.arange(BLOCKS * THREADS, dtype=np.int32)
X, Y = LANES % SIDE, LANES % THREADS // SIDE
GLOBAL_SPACE, SHARED_SPACE = 0, 1


class Access(NamedTuple):
    """What all lanes do: bytes, where, and how; -1 as bytes is a barrier, -2 an atomic."""

    nbytes: int
    space: int = 0
    how: int = READ
    at: Array = LANES


BARRIER, ATOMIC = -1, -2


def _copy(nbytes: int) -> Iterator[Access]:
    at = LANES.astype(np.int64) * nbytes
    yield Access(nbytes, GLOBAL_SPACE, READ, at)
    yield Access(nbytes, GLOBAL_SPACE, WRITE, at + LANES.size * nbytes)


def _stencil() -> Iterator[Access]:
    for far in range(5):
        yield Access(4, GLOBAL_SPACE, READ, (LANES.astype(np.int64) + far) * 4)


def _product() -> Iterator[Access]:
    own = LANES.astype(np.int64) % THREADS * 4
    for tile in range(4):
        for half in (0, 1024):
            yield Access(4, GLOBAL_SPACE, READ, (LANES.astype(np.int64) + tile * LANES.size) * 4)
            yield Access(4, SHARED_SPACE, WRITE, own + half)
        yield Access(BARRIER)
        for k in range(SIDE):
            yield Access(4, SHARED_SPACE, READ, (Y.astype(np.int64) * SIDE + k) * 4)
            yield Access(4, SHARED_SPACE, READ, (k * SIDE + X.astype(np.int64)) * 4 + 1024)
        yield Access(BARRIER)


def _histogram() -> Iterator[Access]:
    draw = np.random.default_rng(0)
    for _ in range(4):
        yield Access(ATOMIC, SHARED_SPACE, at=draw.integers(0, 64, LANES.size) * 4)


PATTERNS = {
    "copy": lambda: _copy(4),
    "copy of 16 bytes": lambda: _copy(16),
    "copy of 2 bytes": lambda: _copy(2),
    "stencil": _stencil,
    "tiled product": _product,
    "histogram": _histogram,
}


def _memory(cell: int) -> Memory:
    size = 2 * LANES.size * 16 + 256
    spaces = (
        Space("global", size, 0, 1, cell),
        Space("shared", 4096, 1, BLOCKS, cell),
        Space("local", 16, 2, 1, 0),
    )
    for s in spaces:
        s.allow(Allocation("all", 0, s.size), INIT)
    return Memory(spaces, (LANES // THREADS).astype(np.int32), 0)


def seconds(accesses: list[Access]) -> tuple[float, int]:
    """Return the time of accesses, and how many they are."""
    m = _memory(min(4, *(a.nbytes for a in accesses if a.nbytes > 0), 4))
    total, count = 0.0, 0
    values, places = np.zeros((LANES.size, 16), np.uint8), np.zeros(LANES.size, np.int64)
    one, old = np.ones(LANES.size, np.uint32), np.zeros(LANES.size, np.uint32)
    for a in accesses:
        if a.nbytes == BARRIER:
            m.now += 1
            m.bar[:] = m.now
            continue
        at = np.ascontiguousarray(a.at + (GLOBAL if a.space == GLOBAL_SPACE else 0))
        begin = time.thread_time()
        if a.nbytes == ATOMIC:
            found = m.atomic(LANES, at, 4, a.space, 2, (0, 0), one, None, old, places, 0)
        else:
            found = m.access(LANES, at, a.nbytes, a.space, a.how, 0, values, 0)
        total += time.thread_time() - begin
        count += LANES.size
        assert not [*found]
    return total, count


def main() -> int:
    """Print nanoseconds an access, of each pattern and of all."""
    whole, accesses = 0.0, 0
    for name, pattern in PATTERNS.items():
        taken = [seconds([*pattern()]) for _ in range(5)]
        best, count = min(taken)
        whole, accesses = whole + best, accesses + count
        print(f"{name:17}{best / count * 1e9:6.1f} ns an access")
    print(f"{'all':17}{whole / accesses * 1e9:6.1f} ns an access")
    return 0


if __name__ == "__main__":
    sys.exit(main())
