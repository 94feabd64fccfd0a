"""What interpreters raise when a program does something it must not."""

from __future__ import annotations

from typing import Literal, TypeAlias

from didyma.refimpl.ir.loop import Stmt
from didyma.refimpl.ir.text.show_loop import show_line

LoopFaultKind: TypeAlias = Literal[
    "out-of-bounds", "uninitialised", "race", "barrier-divergence", "assert", "endless",
    "dim-out-of-range",
]  # fmt: skip
ProgramFaultKind: TypeAlias = Literal[
    "ownership", "unallocated", "double-allocation", "capacity", "read-only", "freed", "assert",
    "stale", "leak", "in-place", "endless",
]  # fmt: skip


class LoopFault(Exception):
    """A loop program did something undefined.

    ``kind`` says what, ``stmt`` is the text of the statement, ``detail`` names buffer, element
    and lanes.
    """

    def __init__(self, kind: LoopFaultKind, stmt: str, detail: str) -> None:
        self.kind: LoopFaultKind = kind
        self.stmt = stmt
        self.detail = detail
        super().__init__(kind, stmt, detail)

    def __str__(self) -> str:
        return f"{self.kind} at `{self.stmt}`: {self.detail}"


class ProgramFault(Exception):
    """A line of a program touched bytes that are not its own.

    ``kind`` says what, ``line`` is the line's text, ``detail`` names values and bytes.
    """

    def __init__(self, kind: ProgramFaultKind, line: str, detail: str) -> None:
        self.kind: ProgramFaultKind = kind
        self.line = line
        self.detail = detail
        super().__init__(kind, line, detail)

    def __str__(self) -> str:
        return f"{self.kind} at `{self.line}`: {self.detail}"


def stmt_fault(kind: LoopFaultKind, stmt: Stmt, detail: str) -> LoopFault:
    """Return the fault of a statement."""
    return LoopFault(kind, show_line(stmt), detail)
