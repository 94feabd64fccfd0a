"""One suite that every engine must pass: kernel texts with inputs and exact expected outputs.

The suite is data and knows no engine: ``cases`` returns it, ``conform`` runs it by a function that
launches one case.  The cases of ``calls`` are loop programs, which are made text by whoever runs
them.
"""

from __future__ import annotations

from functools import cache

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


@cache
def cases() -> tuple[LaunchCase, ...]:
    """Return every case, whose arrays nobody may change; cases of one text follow each other."""
    return (*scalars.cases(), *bits.cases(), *structure.cases(), *families.cases())
