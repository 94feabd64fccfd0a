"""Bodies of branches and loops as functions of the module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import onnx
import sympy

from refimpl.ir import control, dims
from refimpl.ir.graph import Attr, Function, Module
from refimpl.onnx.context import Context
from refimpl.onnx.values import Item
from refimpl.ops.builder import Builder, Value


class Body(Protocol):
    """Imports the bodies of one node: written out, or into a function of their own."""

    def __call__(self, g: onnx.GraphProto, inputs: Sequence[Item], /) -> list[Item]:
        """Write a body out: its nodes become nodes of the function at hand."""
        ...

    def inside(self, c: Context, g: onnx.GraphProto, inputs: Sequence[Item], /) -> list[Item]:
        """Import a body with the builder of a context, which has become an inner one."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """A function under construction: its builder and its results."""

    builder: Builder
    results: tuple[Value, ...]


def made(c: Context, build: Callable[[Context], Sequence[Item]]) -> Made:
    """Build a function that a control node will run; ``build`` adds its parameters and nodes."""
    inner = replace(c, builder=c.builder.inner(), placed={}, outputs=())
    results = tuple(inner.value(item) for item in build(inner))
    return Made(inner.builder, results)


def closed(c: Context, named: Sequence[tuple[str, Made]]) -> tuple[list[Function], list[Value]]:
    """Return functions that take the same captures, all that any of them uses, and these."""
    captures: dict[str, Value] = {}
    for _, m in named:
        captures |= {v.name: v for v, _ in m.builder.captures.values()}
    order = list(captures.values())
    found = [c.builder.add(m.builder.function(name, m.results, order)) for name, m in named]
    return found, order


def pruned(m: Module) -> Module:
    """Leave out functions that nothing runs, and symbols that nothing uses."""
    table = {f.name: f for f in m.functions}
    wanted = {m.entry.name}
    for f in reversed(m.functions):
        if f.name in wanted:
            wanted.update(r for n in f.nodes for r in control.references(n))
    kept = tuple(f for f in m.functions if f.name in wanted)
    assert wanted <= table.keys()
    used = {s for f in kept for s in _symbols(f)}
    return Module(kept, tuple(v for v in m.dims if v.name in used))


def _symbols(f: Function) -> Iterator[str]:
    for t in f.types().values():
        yield from dims.free(t.shape)
    for n in f.nodes:
        yield from control.binds(n)
        yield from control.inner(n)
        yield from _mentioned(a for _, a in n.attrs)


def _mentioned(values: Iterable[Attr]) -> Iterator[str]:
    for a in values:
        if isinstance(a, sympy.Expr):
            yield from dims.free(a)
        elif isinstance(a, tuple):
            yield from _mentioned(a)
