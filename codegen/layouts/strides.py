"""Inputs whose strides are declared: which functions read them as they lie.

A Primitive function that becomes a kernel does: its loads are at other addresses, and nothing
moves.  All else, such as a routine or a branch, is given a copy in row-major order, which one
kernel makes; a result that is such an input, or another shape of it, is one too, or shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    PRIMITIVE,
    RESHAPE_ONLY,
    Function,
    Module,
    Node,
    Param,
    attrs,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType


def without_strides(m: Module) -> Module:
    """Return a module whose inputs are in row-major order; the same one if all are."""
    entry = m.entry
    if all(p.type.strides is None for p in entry.params):
        return m
    params = tuple(replace(p, type=p.type.dense) for p in entry.params)
    return replace(m, functions=(*m.functions[:-1], replace(entry, params=params)))


def with_strides(m: Module, source: Module) -> Module:
    """Return a fused module whose inputs lie as those of its source; the same if all are dense."""
    declared = [p.type for p in source.entry.params]
    if all(t.strides is None for t in declared):
        return m
    params = zip(m.entry.params, declared, strict=True)
    lie = {p.name: replace(p.type, strides=t.strides, offset=t.offset) for p, t in params}
    return _Laid(m, {name: t for name, t in lie.items() if t.strides is not None}).module()


@dataclass
class _Laid:
    """A fused module, while its inputs ``lie`` are given strides."""

    m: Module
    lie: dict[str, TensorType]
    names: Names = field(init=False)
    values: Names = field(init=False)
    readers: dict[tuple[str, tuple[TensorType, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[TensorType, ...]], str]
    )
    made: list[Function] = field(default_factory=list[Function])
    copies: dict[str, str] = field(default_factory=dict[str, str])  # in row-major order, by input
    nodes: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        self.names = Names(f.name for f in self.m.functions)
        self.values = Names(self.m.entry.types())

    def module(self) -> Module:
        """Return the module with strides."""
        entry = self.m.entry
        for n in entry.nodes:
            if self.lie.keys().isdisjoint(n.args):
                self.nodes.append(n)
            elif (f := self._kernel(n)) is not None:
                self.nodes.append(self._reading(n, f))
            else:
                self.nodes.append(replace(n, args=tuple(map(self._dense, n.args))))
        results = tuple(map(self._dense, entry.results))
        params = tuple(replace(p, type=self.lie.get(p.name, p.type)) for p in entry.params)
        laid = replace(entry, params=params, nodes=tuple(self.nodes), results=results)
        before = self.m.functions[:-1]
        used = {r for f in (*before, laid) for n in f.nodes for r in control.references(n)}
        others = (f for f in before if f.name in used or not self._is_kernel(f))
        return replace(self.m, functions=(*others, *self.made, laid))

    def _is_kernel(self, f: Function) -> bool:
        return PRIMITIVE in f.attr and not f.attr.keys() & {COMPILER, RESHAPE_ONLY}

    def _kernel(self, n: Node) -> Function | None:
        """Return the function that a node calls, if it becomes a kernel."""
        f = self.m.function(n.callee) if n.op == CALL else None
        return f if f is not None and self._is_kernel(f) else None

    def _reading(self, n: Node, f: Function) -> Node:
        """Return a call of the function that reads inputs as they lie."""
        pairs = zip(n.args, f.params, strict=True)
        types = tuple(self.lie.get(a, p.type) for a, p in pairs)
        name = self.readers.get((f.name, types))
        if name is None:
            name = self.readers[f.name, types] = self.names.fresh(f"{f.name}_strided")
            rows = zip(f.params, types, strict=True)
            params = tuple(replace(p, type=t) for p, t in rows)
            self.made.append(replace(f, name=name, params=params))
        return replace(n, attrs=attrs({**n.attr, "callee": name}))

    def _dense(self, value: str) -> str:
        """Return a value that is in row-major order: of an input that is not, a copy."""
        if value not in self.lie:
            return value
        if value not in self.copies:
            t, name = self.lie[value], self.names.fresh(f"{value}_in_order")
            copy = self.copies[value] = self.values.fresh(f"{value}_in_order")
            moved = Node(("y",), "reshape", ("x",), (t.dense,), attrs({"shape": t.shape}))
            primitive = attrs({PRIMITIVE: 1})
            self.made.append(Function(name, (Param("x", t),), (moved,), ("y",), primitive))
            called = attrs({"callee": name})
            self.nodes.append(Node((copy,), CALL, (value,), (t.dense,), called))
        return self.copies[value]
