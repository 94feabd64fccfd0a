"""What interpreters raise when a program does something it must not."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from didyma.refimpl.ir.loop import Stmt
from didyma.refimpl.ir.text.show_loop import show_line

LoopFaultKind: TypeAlias = Literal[
    "out-of-bounds", "uninitialised", "race", "barrier-divergence", "assert", "endless",
    "dim-out-of-range", "region",
]  # fmt: skip
ProgramFaultKind: TypeAlias = Literal[
    "ownership", "unallocated", "double-allocation", "capacity", "read-only", "freed", "assert",
    "stale", "leak", "in-place", "endless",
    "device",
]  # fmt: skip
K = TypeVar("K", LoopFaultKind, ProgramFaultKind)


class Fault(Exception, Generic[K]):
    """A program did what it must not.

    ``kind`` says what, ``where`` is the text of the statement or line, ``detail`` names what it
    touched: buffer, element and lanes, or values and bytes.
    """

    def __init__(self, kind: K, where: str, detail: str) -> None:
        self.kind: K = kind
        self.where = where
        self.detail = detail
        super().__init__(kind, where, detail)

    def __str__(self) -> str:
        return f"{self.kind} at `{self.where}`: {self.detail}"


class LoopFault(Fault[LoopFaultKind]):
    """A loop program did something undefined."""


class ProgramFault(Fault[ProgramFaultKind]):
    """A line of a program touched bytes that are not its own."""


def stmt_fault(kind: LoopFaultKind, stmt: Stmt, detail: str) -> LoopFault:
    """Return the fault of a statement."""
    return LoopFault(kind, show_line(stmt), detail)
