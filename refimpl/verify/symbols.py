"""Which line of a program gives a symbol its value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.lines import binds, walk
from didyma.refimpl.ir.program import Arena, Carry, Line, Program, Repeat


def input_symbols(p: Program) -> set[str]:
    """Return the symbols that the shapes of a program's inputs bind."""
    if not p.dims:
        return set()
    types = p.type
    return set(dims.free(d for v in p.inputs if v in types for d in types[v].shape))


def given(f: Program) -> tuple[DimVar, ...]:
    """Return the symbols that a caller gives a function: those that its lines do not bind."""
    own = {name for name, _ in binders(f.lines)}
    return tuple(v for v in f.dims if v.name not in own)


def binders(lines: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    """Symbols that lines and the lines in their blocks bind, with the line that does."""
    return ((name, line) for line in walk(lines) for name in binds(line))


def extents(lines: Sequence[Line]) -> dict[str, Dim]:
    """Extent of every index, outer ones first."""
    return {name: s.extent for name, s in binders(lines) if isinstance(s, Repeat)}


def settled(lines: Sequence[Line]) -> list[tuple[str, Dim]]:
    """Return the symbols that a program's first lines set once and for all, and their values."""
    first: list[tuple[str, Dim]] = []
    for s in lines:
        if isinstance(s, Arena):
            continue
        if not isinstance(s, Carry) or s.values:
            break
        first += s.dims
    again = Counter(name for name, _ in binders(lines))
    return [(name, d) for name, d in first if again[name] == 1]


def carried(lines: Sequence[Line]) -> dict[str, set[str]]:
    """For each symbol that lines carry, the values that every such line carries with it."""
    found: dict[str, set[str]] = {}
    for name, s in binders(lines):
        if isinstance(s, Carry):
            values = {v for v, _ in s.values}
            found[name] = found[name] & values if name in found else values
    return found
