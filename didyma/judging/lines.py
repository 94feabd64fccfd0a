"""The line of a kernel to which a wrong result is traced."""

from __future__ import annotations

from didyma.judging.task import Task

_STORES = frozenset(("st", "red", "atom"))


def stores(task: Task) -> list[int]:
    """Return the lines of a kernel's file at which it writes to global memory."""
    found: set[int] = set()
    for i in task.kernel.program.instrs:
        if i.op in _STORES and "global" in i.mods:
            loc = i.loc
            while loc and loc.file != task.source.file:
                loc = loc.outer
            found.add(loc.line if loc else i.at if task.source.file.endswith(".ptx") else 0)
    return sorted(found - {0})
