"""What a judgement comes to."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What a judgement comes to."""

    CORRECT = "correct"
    WRONG = "wrong"
    DIFFERENT = "engines differ"
    CANNOT_TELL = "cannot tell"
