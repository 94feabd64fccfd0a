"""Full collections of garbage, put off while a compile makes records that stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

RARE = 1000  # collections of the middle generation for a full one


@dataclass(slots=True)
class _Postponed:
    """How many blocks put full collections off, and the thresholds to go back to."""

    lock: Lock = field(default_factory=Lock)
    blocks: int = 0
    before: tuple[int, int, int] = (0, 0, 0)


_postponed = _Postponed()


@contextmanager
def full_collections_rare() -> Generator[None]:
    """Let the block run with few full collections of garbage, and restore the thresholds after it.

    A compile keeps nearly all that it makes, so a full collection walks ever more objects and
    frees hardly any.  The young generations are collected as ever.  Blocks may be nested and run
    in several threads: the last to end restores the thresholds, which the whole process shares.
    """
    with _postponed.lock:
        if not _postponed.blocks:
            _postponed.before = gc.get_threshold()
            young, middle, full = _postponed.before
            gc.set_threshold(young, middle, max(full, RARE))
        _postponed.blocks += 1
    try:
        yield
    finally:
        with _postponed.lock:
            _postponed.blocks -= 1
            if not _postponed.blocks:
                gc.set_threshold(*_postponed.before)
