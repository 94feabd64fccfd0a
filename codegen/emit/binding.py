"""The part of a wrapper that checks a call's inputs and reads the sizes from their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy

from didyma.codegen.emit.integers import code, quoted, tuple_of
from didyma.codegen.emit.names import sanitise
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.program import Assert, Program
from didyma.refimpl.verify.symbols import binders


def bind(p: Program, python: Mapping[str, str]) -> Iterator[str]:
    """Yield the functions ``shapes`` and ``bind``; ``python`` names the values and sizes.

    DidymaError ``unbound-dim`` if a size cannot be read from any input.
    """
    types = p.type
    yield f"def shapes({', '.join(python[d.name] for d in given_dims(p))}):"
    yield '    """Return the shapes of the inputs."""'
    yield "    return ["
    for v in p.inputs:
        yield f"        {shape(types[v].shape, python)},"
    yield "    ]"
    yield ""
    yield ""
    yield "def bind(inputs):"
    yield '    """Return the inputs in row-major order and the sizes, all checked."""'
    yield "    arrays = calls.arrays(inputs, INPUTS)"
    for v in p.inputs:
        if types[v].rank:
            yield f"    {python[v]} = arrays[{p.inputs.index(v)}].shape"
    read: set[tuple[str, int]] = set()
    yield from _sizes(p, python, read)
    for v in p.inputs:
        for axis, d in enumerate(types[v].shape):
            if (v, axis) not in read:
                want = f"{code(d, python)}, {quoted(dims.text(d))}"
                got = f"{python[v]}[{axis}]"
                yield f"    calls.size({quoted(sanitise(v))}, {axis}, {got}, {want})"
    items = ", ".join(f"{quoted(d.name)}: {python[d.name]}" for d in given_dims(p))
    yield f"    return arrays, {{{items}}}"


def given_dims(p: Program) -> list[DimVar]:
    """Return the dims that the program uses and the caller binds: those that no line binds."""
    if not p.dims:
        return []
    names = set(dims.free(d for _, t in p.types for d in t.shape))
    names.update(d.name for k in p.kernels for d in k.dims)
    names.update(dims.free(d for s in p.lines if isinstance(s, Assert) for d in (s.lhs, s.rhs)))
    names.difference_update(name for name, _ in binders(p.lines))
    return [d for d in p.dims if d.name in names]


def shape(ds: tuple[Dim, ...], python: Mapping[str, str]) -> str:
    """Return a shape as a tuple in Python."""
    return tuple_of(code(d, python) for d in ds)


def _sizes(p: Program, python: Mapping[str, str], read: set[tuple[str, int]]) -> Iterator[str]:
    """Yield a line that reads each size, and its check; note the axes that are sizes themselves."""
    types = p.type
    places = [(v, axis, d) for v in p.inputs for axis, d in enumerate(types[v].shape)]
    bound: set[str] = set()
    for v, axis, d in places:
        if isinstance(d, sympy.Symbol) and d.name not in bound:
            bound.add(d.name)
            read.add((v, axis))
            yield f"    {python[d.name]} = {python[v]}[{axis}]"
    known = -1
    while known < len(bound):  # a symbol that is bound may leave one in a dim before it
        known = len(bound)
        for v, axis, d in places:
            unbound = [s for s in dims.free(d) if s not in bound]
            if len(unbound) == 1 and (line := _solved(d, unbound[0])):
                bound.add(unbound[0])
                where = quoted(f"{sanitise(v)}, axis {axis}")
                slope, offset = (code(part, python) for part in line)
                got = f"{python[v]}[{axis}]"
                yield f"    {python[unbound[0]]} = calls.solve({where}, {got}, {slope}, {offset})"
    for var in given_dims(p):
        if var.name not in bound:
            raise DidymaError(
                "unbound-dim", var.name, got="no input whose shape tells it",
                want=f"an input with an axis of size {var.name}",
            )  # fmt: skip
        yield f"    calls.in_range({quoted(var.name)}, {python[var.name]}, {var.lo}, {var.hi})"


def _solved(d: Any, name: str) -> tuple[Dim, Dim] | None:
    """Return slope and offset of a size that is linear in a symbol."""
    s = dims.symbol(name)
    slope = d.diff(s)
    if s in slope.free_symbols or not d.is_polynomial(s):
        return None
    return dims.canonical(slope), dims.canonical(d.subs(s, 0))
