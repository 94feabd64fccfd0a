"""How much memory a program takes."""

from __future__ import annotations

from collections.abc import Mapping

from refimpl.ir.dims import align, evaluate
from refimpl.ir.program import ALIGNMENT, Allocate, Free, PlacementAllocate, Program, Reuse


def _bytes(p: Program, env: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, t in p.types:
        size = align(evaluate(t.nbytes, env), ALIGNMENT)
        assert isinstance(size, int)
        found[name] = size
    return found


def peak(p: Program, env: Mapping[str, int]) -> int:
    """Most bytes allocated at once under a binding of the dims; inputs and constants excluded."""
    size = _bytes(p, env)
    held: dict[str, int] = {}
    now = most = 0
    for line in p.lines:
        match line:
            case Allocate(value):
                held[value] = size[value]
                now += size[value]
                most = max(most, now)
            case Reuse(value, over) | PlacementAllocate(value, over):
                held[value] = held.pop(over)
            case Free(value):
                now -= held.pop(value)
            case _:
                pass
    return most


def unplanned_total(p: Program, env: Mapping[str, int]) -> int:
    """Bytes the program would take if every buffer had its own to the end."""
    size = _bytes(p, env)
    owners = (
        line.value for line in p.lines if isinstance(line, Allocate | Reuse | PlacementAllocate)
    )
    return sum(size[value] for value in owners)
