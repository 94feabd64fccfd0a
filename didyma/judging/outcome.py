"""The outcome of a judgement."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a judgement."""

    CORRECT = "correct"
    WRONG = "wrong"
    DIFFERENT = "engines differ"
    CANNOT_TELL = "cannot tell"
