"""Bodies of branches and loops as functions of the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import onnx

from didyma.onnx.context import Context
from didyma.onnx.values import Entry
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ops.builder import Builder, Value


class Body(Protocol):
    """Imports the bodies of one node: written out, or into a function of their own."""

    def __call__(self, g: onnx.GraphProto, inputs: Sequence[Entry], /) -> list[Entry]:
        """Write a body out: its nodes become nodes of the function at hand."""
        ...

    def inside(self, c: Context, g: onnx.GraphProto, inputs: Sequence[Entry], /) -> list[Entry]:
        """Import a body with the builder of a context, which has become an inner one."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """A function under construction: its builder and its results."""

    builder: Builder
    results: tuple[Value, ...]


def made(c: Context, build: Callable[[Context], Sequence[Entry]]) -> Made:
    """Build a function that a control node will run; ``build`` adds its parameters and nodes."""
    inner = replace(c, builder=c.builder.inner(), emitted={}, outputs=())
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


def without_dead_code(m: Module) -> Module:
    """Leave out nodes that no result needs, functions that nothing runs, symbols nobody uses.

    What was tried and given up while a model was imported may hold sizes that a run would bind
    for nothing, and refuse.
    """
    used: frozenset[str] = frozenset()
    while True:
        kept = _kept(m, used)
        found = frozenset(s for f in kept for s in _symbols(f))
        if found == used:
            return Module(kept, tuple(v for v in m.dims if v.name in used))
        used = found


def _kept(m: Module, used: frozenset[str]) -> tuple[Function, ...]:
    """Functions that the entry runs, with the nodes that yield their results or bind symbols."""
    table = {f.name: f for f in m.functions}
    found: dict[str, Function] = {}
    todo = [m.entry.name]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        f = table[name]
        wanted, nodes = set(f.results), list[Node]()
        for n in reversed(f.nodes):
            if not wanted.isdisjoint(n.results) or not used.isdisjoint(control.binds(n)):
                nodes.append(n)
                wanted.update(n.args)
                todo += control.references(n)
        found[name] = replace(f, nodes=tuple(reversed(nodes)))
    return tuple(found[f.name] for f in m.functions if f.name in found)


def _symbols(f: Function) -> Iterator[str]:
    yield from dims.free(d for p in f.params for d in p.type.shape)
    for n in f.nodes:
        yield from control.symbols(n)
