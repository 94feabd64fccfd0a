"""Loops by name: finding them, replacing them, and the errors of names that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from didyma.codegen.lower.names import loop_names
from didyma.codegen.schedule.nest import same
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expand import declared
from didyma.refimpl.ir.loop import Const, For, PrimFunc, Stmt
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import items, map_stmt, one_of, stmt_children, stmts


@dataclass(frozen=True, slots=True)
class LoopSite:
    """A loop of a function, and the statements around it, outermost first."""

    loop: For
    around: tuple[Stmt, ...]

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around it, outermost first, and itself."""
        return (*(s for s in self.around if isinstance(s, For)), self.loop)


def iterations(loop: For) -> int:
    """Return the number of iterations of a loop whose extent is constant, as of threads it is."""
    assert isinstance(loop.extent, Const)
    return int(loop.extent.value)


def loops_of(s: Stmt) -> list[For]:
    """Return the loops of a statement, in the order of the text."""
    return [x for x in stmts(s) if isinstance(x, For)]


def find(f: PrimFunc, name: str) -> LoopSite:
    """Return the place of a loop; DidymaError ``no-such-loop`` lists the loops there are."""
    path = _path(f.body, name)
    if path is None:
        known = ", ".join(x.var.name for x in loops_of(f.body)) or "none"
        raise DidymaError(
            "no-such-loop", f"@{f.name}", got=name, want=f"a loop of the function: {known}"
        )
    *around, loop = path
    assert isinstance(loop, For)
    return LoopSite(loop, tuple(around))


def _path(s: Stmt, name: str) -> list[Stmt] | None:
    if isinstance(s, For) and s.var.name == name:
        return [s]
    for child in stmt_children(s):
        if (found := _path(child, name)) is not None:
            return [s, *found]
    return None


def path_to(root: Stmt, target: Stmt) -> tuple[Stmt, ...]:
    """Return the statements around one that a statement holds, outermost first."""
    found = _path_to(root, target)
    assert found is not None
    return tuple(found)


def _path_to(s: Stmt, target: Stmt) -> list[Stmt] | None:
    if s is target:
        return []
    for child in stmt_children(s):
        if (found := _path_to(child, target)) is not None:
            return [s, *found]
    return None


def replaced(root: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """Return a statement in which ``new`` stands in place of ``old``, which it holds once."""

    def on_stmt(s: Stmt) -> Stmt:
        return new if s is old else map_stmt(s, same, on_stmt)

    return on_stmt(root)


def names_of(f: PrimFunc) -> Names:
    """Return a supply of names that a function does not use."""
    return loop_names([*f.names, *declared(f.body)])


def claim(f: PrimFunc, names: Iterable[str], freed: Sequence[str] = ()) -> None:
    """Check that a function has no such names, but for those ``freed`` by the step.

    DidymaError ``name-taken``.
    """
    taken = set(names_of_all(f)) - set(freed)
    for name in names:
        if name in taken:
            raise DidymaError(
                "name-taken", f"@{f.name}", got=f"{name}, which names something already",
                want="a name that the function does not use", help="name it with `into`",
            )  # fmt: skip
        taken.add(name)


def names_of_all(f: PrimFunc) -> list[str]:
    """Return the names of buffers, variables and dims of a function."""
    return [*f.names, *declared(f.body)]


def sequence(parts: Iterable[Stmt]) -> Stmt:
    """Return statements as one, without blocks in blocks."""
    flat: list[Stmt] = []
    for s in parts:
        flat += items(s)
    return one_of(flat)
