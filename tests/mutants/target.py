"""What is hunted, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tests.mutants.mutant import Mutant


@dataclass(frozen=True, slots=True)
class Target:
    """A mutant to hunt, or a fault of memory planning by its number among those planted.

    For a named fault, ``levels`` are those that may be named first, and ``engine`` is that of the
    campaign; ``stale`` says why it cannot be planted.
    """

    id: str
    group: str
    name: str
    mutant: Mutant | None = None
    levels: tuple[str, ...] = ()
    engine: str = ""
    memory: int = -1
    stale: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a hunt.

    ``outcome`` is ``killed``, ``survived``, ``unreached`` (no case of any check executes its line),
    or ``identical`` (to the original's bytecode).  ``check`` is the one that killed it, after
    ``programs`` cases of all checks and ``seconds`` of processor time; ``how`` is ``finding``,
    ``error``, ``crash``, ``hang`` or ``lost``.  ``reached`` counts the cases that execute its line.
    ``effect`` says of a survivor whether it changes what is compiled.  ``equivalent`` has a
    ``reason``.
    """

    id: str
    group: str
    name: str
    outcome: str
    file: str = ""
    line: int = 0
    diff: str = ""
    check: str = ""
    how: str = ""
    level: str = ""
    message: str = ""
    programs: int = 0
    seconds: float = 0.0
    reached: int = 0
    effect: str = ""
    equivalent: bool = False
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """Return the result as a record of JSON types."""
        return asdict(self)

    @staticmethod
    def recorded(record: Mapping[str, Any]) -> Result:
        """Return the result of a record."""
        return Result(**{f.name: record[f.name] for f in fields(Result) if f.name in record})
