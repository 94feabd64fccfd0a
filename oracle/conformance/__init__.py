"""One suite that every engine must pass: kernel texts with inputs and exact expected outputs.

The suite is data and knows no engine: ``cases`` yields it, ``conform`` runs it by a function that
launches one case.  The cases of ``calls`` are loop programs, which are made text by whoever runs
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from didyma.oracle.conformance import bits, families, scalars, structure
from didyma.oracle.conformance.calls import LoopCase
from didyma.oracle.conformance.case import (
    LaunchCase,
    LaunchOutcome,
    Run,
    agree,
    conform,
    judge,
)

__all__ = [
    "LaunchCase",
    "LaunchOutcome",
    "LoopCase",
    "Run",
    "agree",
    "cases",
    "conform",
    "judge",
]  # fmt: skip


def cases() -> Iterator[LaunchCase]:
    """Yield every case; cases of one text follow each other."""
    yield from scalars.cases()
    yield from bits.cases()
    yield from structure.cases()
    yield from families.cases()
