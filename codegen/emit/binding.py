"""The part of a wrapper that checks a call's inputs and reads the sizes from their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sympy

from didyma.codegen.emit.integers import code, quoted, tuple_of
from didyma.codegen.emit.names import sanitise
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.program import Assert, Program
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.symbols import binders


def bind(
    p: Program, python: Mapping[str, str], sizes: Mapping[str, str], own: Sequence[str]
) -> Iterator[str]:
    """Yield the functions ``shapes`` and ``bind``; ``python`` names values and ``sizes`` symbols.

    ``shapes`` tells of the inputs that are the caller's ``own``; ``bind`` takes the others, too.
    DidymaError ``unbound-dim`` if a size cannot be read from any input.
    """
    types = p.type
    yield f"def shapes({', '.join(sizes[d.name] for d in given_dims(p))}):"
    yield '    """Return the shapes of the inputs."""'
    yield "    return ["
    for v in own:
        yield f"        {_laid(types[v], sizes)},"
    yield "    ]"
    yield ""
    yield ""
    yield "def bind(inputs):"
    lie = [(i, v) for i, v in enumerate(p.inputs) if types[v].strides is not None]
    what = "as kernels read them" if lie else "in row-major order"
    yield f'    """Return the inputs {what} and the sizes, all checked."""'
    wanted = "INPUTS" if len(own) == len(p.inputs) else "INPUTS + TOLD"
    yield f"    arrays = rt.arrays(inputs, {wanted})"
    for v in p.inputs:
        if types[v].rank:
            yield f"    {python[v]} = arrays[{p.inputs.index(v)}].shape"
    if lie:
        rows = (f"{i}: rt.strides({quoted(sanitise(v))}, arrays[{i}])" for i, v in lie)
        yield f"    strides = {{{', '.join(rows)}}}"
    read: set[tuple[str, int]] = set()
    yield from _sizes(p, python, sizes, read)
    for v in p.inputs:
        for axis, d in enumerate(types[v].shape):
            if (v, axis) not in read:
                want = f"{code(d, sizes)}, {quoted(dims.text(d))}"
                got = f"{python[v]}[{axis}]"
                yield f"    rt.size({quoted(sanitise(v))}, {axis}, {got}, {want})"
    yield from _pitches(p, sizes)
    for i, v in lie:
        yield from _row(i, v, types[v], sizes)
    items = ", ".join(f"{quoted(d.name)}: {sizes[d.name]}" for d in given_dims(p))
    yield f"    return arrays, {{{items}}}"


def _laid(t: TensorType, sizes: Mapping[str, str]) -> str:
    """Return the shape of an input, with its strides and offset where it has any."""
    plain = shape(t.shape, sizes)
    if t.strides is None:
        return plain
    return f"rt.Laid({plain}, {shape(t.strides, sizes)}, {code(t.offset, sizes)})"


def _row(i: int, v: str, t: TensorType, sizes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that check the strides of an input, and take its memory as one row."""
    assert t.strides is not None
    name = quoted(sanitise(v))
    for axis, d in enumerate(t.strides):
        want = f"{code(d, sizes)}, {quoted(dims.text(d))}"
        yield f"    rt.stride({name}, {axis}, strides[{i}][{axis}], {want})"
    yield f"    arrays[{i}] = rt.row(arrays[{i}], {code(t.span, sizes)}, {code(t.offset, sizes)})"


def given_dims(p: Program) -> list[DimVar]:
    """Return the dims that the program uses and the caller binds: those that no line binds."""
    if not p.dims:
        return []
    names = set(dims.free(d for _, t in p.types for d in t.sizes))
    names.update(d.name for k in p.kernels for d in k.dims)
    names.update(dims.free(d for s in p.lines if isinstance(s, Assert) for d in (s.lhs, s.rhs)))
    names.difference_update(name for name, _ in binders(p.lines))
    return [d for d in p.dims if d.name in names]


def shape(ds: tuple[Dim, ...], sizes: Mapping[str, str]) -> str:
    """Return a shape as a tuple in Python."""
    return tuple_of(code(d, sizes) for d in ds)


@dataclass(frozen=True, slots=True)
class Place:
    """An axis of an input whose size is ``slope`` times a symbol, and ``offset``."""

    input: str
    axis: int
    slope: Dim
    offset: Dim

    @property
    def is_symbol(self) -> bool:
        """Whether the size is the symbol itself."""
        return (self.slope, self.offset) == (1, 0)


@dataclass(frozen=True, slots=True)
class Told:
    """A symbol, and the places of which the first that has a slope tells its value."""

    symbol: str
    places: tuple[Place, ...]


def told(p: Program) -> Iterator[Told]:
    """Yield how each symbol is read from the inputs, in order: a place may name earlier ones.

    Those that only strides tell are left out.
    """
    types = p.type
    sizes = [(v, axis, d) for v in p.inputs for axis, d in enumerate(types[v].shape)]
    bound: set[str] = set()
    for v, axis, d in sizes:
        if isinstance(d, sympy.Symbol) and d.name not in bound:
            bound.add(d.name)
            yield Told(d.name, (Place(v, axis, 1, 0),))
    while found := _next(sizes, bound):  # a symbol that is bound may leave one in a dim
        bound.add(found.symbol)
        yield found


def told_by_strides(p: Program) -> Iterator[Told]:
    """Yield how each symbol that no shape tells is read from strides, as of ``told``.

    DidymaError ``unbound-dim`` if a size cannot be read from any input.
    """
    types = p.type
    bound = {t.symbol for t in told(p)}
    rows = ((v, types[v].strides or ()) for v in p.inputs)
    strides = [(v, axis, d) for v, ds in rows for axis, d in enumerate(ds)]
    named = {*dims.free(d for v in p.inputs for d in types[v].shape)}  # by shapes, which come first
    while left := [var.name for var in given_dims(p) if var.name not in bound]:
        may = [name for name in left if name not in named]
        found = (Told(name, _all_places(strides, name, bound)) for name in may)
        next_ = next((t for t in found if t.places), None)
        if next_ is None:
            raise DidymaError(
                "unbound-dim", left[0], got="no input whose shape, or strides alone, tell it",
                want=f"an input with an axis of size {left[0]}",
            )  # fmt: skip
        yield next_
        bound.add(next_.symbol)


def _all_places(
    sizes: Sequence[tuple[str, int, Dim]], name: str, bound: Set[str]
) -> tuple[Place, ...]:
    """Return the places that tell a symbol, the others being bound."""
    lines = (
        (v, axis, _solved(d, name)) for v, axis, d in sizes if {*dims.free(d)} - bound == {name}
    )
    return tuple(Place(v, axis, *line) for v, axis, line in lines if line is not None)


def _sizes(
    p: Program, python: Mapping[str, str], sizes: Mapping[str, str], read: set[tuple[str, int]]
) -> Iterator[str]:
    """Yield a line that reads each size, and its check; note the axes that are sizes themselves."""
    for t in told(p):
        first, *others = (
            f"{python[x.input]}[{x.axis}], {code(x.slope, sizes)}, {code(x.offset, sizes)}"
            for x in t.places
        )
        at = t.places[0]
        if at.is_symbol:
            read.add((at.input, at.axis))
            yield f"    {sizes[t.symbol]} = {python[at.input]}[{at.axis}]"
            continue
        where = quoted(f"{sanitise(at.input)}, axis {at.axis}")
        more = "".join(f", ({other})" for other in others)
        yield f"    {sizes[t.symbol]} = rt.solve({where}, {first}{more})"
    yield from _ranges(p, {t.symbol for t in told(p)}, sizes)


def _pitches(p: Program, sizes: Mapping[str, str]) -> Iterator[str]:
    """Yield a line that reads each size from strides, and its check."""
    index = {v: i for i, v in enumerate(p.inputs)}
    for t in told_by_strides(p):
        lo = next(d.lo for d in p.dims if d.name == t.symbol)
        lines = (
            f"strides[{index[x.input]}][{x.axis}], {code(x.slope, sizes)}, {code(x.offset, sizes)}"
            for x in t.places
        )
        rows = ", ".join(f"({line})" for line in lines)
        yield f"    {sizes[t.symbol]} = rt.pitch({lo}, {rows})"
    yield from _ranges(p, {t.symbol for t in told_by_strides(p)}, sizes)


def _ranges(p: Program, names: Set[str], sizes: Mapping[str, str]) -> Iterator[str]:
    for var in given_dims(p):
        if var.name in names:
            yield f"    rt.in_range({quoted(var.name)}, {sizes[var.name]}, {var.lo}, {var.hi})"


def _next(sizes: Sequence[tuple[str, int, Dim]], bound: Set[str]) -> Told | None:
    """Return the next symbol that can be solved for; None if there is none.

    Where its factor is a number, one dim does.  Other factors may be zero, so of these all dims
    that may tell a symbol are listed, and they wait for those with numbers.
    """
    found: dict[str, list[Place]] = {}
    for v, axis, d in sizes:
        unbound = [s for s in dims.free(d) if s not in bound]
        if len(unbound) != 1 or (line := _solved(d, unbound[0])) is None:
            continue
        place = Place(v, axis, *line)
        if isinstance(place.slope, int):
            return Told(unbound[0], (place,))
        found.setdefault(unbound[0], []).append(place)
    return next((Told(name, tuple(places)) for name, places in found.items()), None)


def _solved(d: Any, name: str) -> tuple[Dim, Dim] | None:
    """Return slope and offset of a size that is linear in a symbol."""
    s = dims.symbol(name)
    slope = d.diff(s)
    if s in slope.free_symbols or not d.is_polynomial(s):
        return None
    return dims.canonical(slope), dims.canonical(d.subs(s, 0))
