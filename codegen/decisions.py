"""Decisions that the compiler makes, by name: each is heard as it is made, by who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Is called with the name of a decision, and the value that it is about.
Heard: TypeAlias = Callable[[str, str], None]


def unheard(name: str, value: str) -> None:
    """Do nothing: nobody listens."""
    del name, value


@dataclass(frozen=True, slots=True)
class Match:
    """What a rewrite rule looks for: an op, and what defines one of its operands.

    ``source`` is the op that defines operand ``operand``, and ``value`` the constant that it is
    everywhere.  ``same`` is another operand that is the same value.  With ``kept`` the result has
    the operand's type.  Fields that are not set say nothing.
    """

    op: str
    operand: int = 0
    source: str = ""
    value: float | None = None
    same: int | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: the stage that makes it, its name, and what it looks for where that is data."""

    stage: str
    name: str
    matches: tuple[Match, ...] = ()
