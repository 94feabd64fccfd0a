"""Judges plans that are to keep a capacity: by what their wrappers take, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

from didyma.codegen.memory.peak import peak
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Planned, compile
from didyma.fuzz.graphs import Case
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.memory_use import MemoryUse

_PATH = "memory.capacity"
_UNMET = ("over-capacity", "search-limit")  # no placement within it, and none found in time


def exceeded(made: Planned, case: Case, use: MemoryUse) -> str:
    """Say that a run took more than a case allows on each device; nothing if it did not.

    What has a size that the run binds is beside the arenas that a plan holds to the capacity.
    """
    capacity: int | None = dict(case.changes).get(_PATH)
    devices = len({t.device for _, t in made.program.types}) or 1
    late = len(case.env) < len(case.module.dims)
    if capacity is None or late or use.most <= capacity * devices:
        return ""
    return f"{use.most} bytes are allocated at once, of {capacity} on each of {devices} devices"


def excused(e: Exception, case: Case, options: Options) -> bool:
    """Return whether an error says rightly that the capacity of a case is too small, or may be.

    So it is where the plan that knows of no capacity says that it takes more; where sizes are
    symbolic, a compile may refuse others than those of the case.
    """
    capacity: int | None = dict(case.changes).get(_PATH)
    if capacity is None or not isinstance(e, DidymaError):
        return False
    if e.code not in _UNMET and f"memory is within {capacity} bytes" not in str(e):
        return False
    if case.module.dims and (e.code in _UNMET or len(case.env) < len(case.module.dims)):
        return True
    free = replace(case, changes=tuple(x for x in case.changes if x[0] != _PATH))
    made = compile(free.module, free.options(options), until="plan")
    return peak(made.program, dict(case.env)) > capacity
