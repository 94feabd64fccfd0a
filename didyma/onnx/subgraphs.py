"""Bodies of control nodes, which ONNX calls subgraphs, as functions of the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import onnx

from didyma.composites.builder import Builder, Value
from didyma.onnx.context import Context
from didyma.onnx.values import Entry
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Function, Module, Node


class BodyImporter(Protocol):
    """Imports the bodies of one control node: inline, or as functions of their own."""

    def __call__(self, g: onnx.GraphProto, inputs: Sequence[Entry], /) -> list[Entry]:
        """Inline a body: its nodes become nodes of the function that the control node is in."""
        ...

    def inside(self, c: Context, g: onnx.GraphProto, inputs: Sequence[Entry], /) -> list[Entry]:
        """Import a body into a function of its own, which a context builds."""
        ...


@dataclass(frozen=True, slots=True)
class OpenFunction:
    """A function whose captures are not decided yet: its builder and its results."""

    builder: Builder
    results: tuple[Value, ...]


def build_function(c: Context, build: Callable[[Context], Sequence[Entry]]) -> OpenFunction:
    """Build a function that a control node runs; ``build`` adds its parameters and nodes."""
    inner = replace(c, builder=c.builder.inner(), emitted={}, outputs=())
    results = tuple(inner.value(entry) for entry in build(inner))
    return OpenFunction(inner.builder, results)


def add_functions(
    c: Context, named: Sequence[tuple[str, OpenFunction]]
) -> tuple[list[Function], list[Value]]:
    """Add functions to the module; return them and the captures, which all of them take."""
    by_name: dict[str, Value] = {}
    for _, f in named:
        by_name |= {v.name: v for v, _ in f.builder.captures.values()}
    captures = list(by_name.values())
    added = [c.builder.add(f.builder.function(name, f.results, captures)) for name, f in named]
    return added, captures


def without_dead_code(m: Module) -> Module:
    """Return a module without nodes, functions and symbols that no result needs.

    Attempts of the importer that it gave up leave nodes behind, which might bind sizes at run time
    and so refuse inputs for no reason.
    """
    used: frozenset[str] = frozenset()
    while True:
        live = _live_functions(m, used)
        symbols = frozenset(s for f in live for s in _symbols(f))
        if symbols == used:
            return Module(live, tuple(v for v in m.dims if v.name in used))
        used = symbols


def _live_functions(m: Module, used: frozenset[str]) -> tuple[Function, ...]:
    """Return the functions that the entry runs, without dead nodes.

    A node is alive if it computes a result or binds one of the ``used`` symbols.
    """
    table = {f.name: f for f in m.functions}
    live: dict[str, Function] = {}
    todo = [m.entry.name]
    while todo:
        name = todo.pop()
        if name in live:
            continue
        f = table[name]
        wanted, nodes = set(f.results), list[Node]()
        for n in reversed(f.nodes):
            if not wanted.isdisjoint(n.results) or not used.isdisjoint(control.binds(n)):
                nodes.append(n)
                wanted.update(n.args)
                todo += control.references(n)
        live[name] = replace(f, nodes=tuple(reversed(nodes)))
    return tuple(live[f.name] for f in m.functions if f.name in live)


def _symbols(f: Function) -> Iterator[str]:
    yield from dims.free(d for p in f.params for d in p.type.shape)
    for n in f.nodes:
        yield from control.symbols(n)
