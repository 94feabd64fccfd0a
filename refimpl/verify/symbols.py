"""Where the symbols of a program get their values: from its inputs, its caller or its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.lines import binds, walk
from didyma.refimpl.ir.program import Arena, Assert, Carry, Line, Program, Repeat


def input_symbols(p: Program) -> set[str]:
    """Return the symbols that the shapes and strides of a program's inputs bind."""
    if not p.dims:
        return set()
    types = (t for v in p.inputs if (t := p.type.get(v)) is not None)
    return set(dims.free(d for t in types for d in (*t.shape, *(t.strides or ()))))


def caller_symbols(f: Program) -> tuple[DimVar, ...]:
    """Return the symbols of a function that its caller binds: those that its lines do not."""
    bound = {name for name, _ in binders(f.lines)}
    return tuple(v for v in f.dims if v.name not in bound)


def binders(lines: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    """Yield each symbol that lines, or lines in their blocks, bind, with the line that binds it."""
    return ((name, line) for line in walk(lines) for name in binds(line))


def extents(lines: Sequence[Line]) -> dict[str, Dim]:
    """Return the extent of the index of every ``Repeat``, outer ones first."""
    return {s.index: s.extent for s in walk(lines) if isinstance(s, Repeat)}


def definitions(lines: Sequence[Line]) -> list[tuple[str, Dim]]:
    """Return the symbols that a program's first lines set once and for all, and their values."""
    first: list[tuple[str, Dim]] = []
    for s in lines:
        if isinstance(s, Arena | Assert):
            continue
        if not isinstance(s, Carry) or s.values:
            break
        first += s.dims
    if not first:
        return []
    times = Counter(name for name, _ in binders(lines))
    return [(name, d) for name, d in first if times[name] == 1]


def carried(lines: Sequence[Line]) -> dict[str, set[str]]:
    """Return, for each symbol that lines carry, the values that every such line carries with it."""
    together: dict[str, set[str]] = {}
    for name, s in binders(lines):
        if isinstance(s, Carry):
            values = {v for v, _ in s.values}
            together[name] = together[name] & values if name in together else values
    return together
