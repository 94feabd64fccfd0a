"""Definitions and types of a function's values, as rewrite rules look them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from didyma.refimpl.ir.graph import Function, Node
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind


@dataclass
class Values:
    """Types and defining nodes of the values that a pass has met, in the order of the nodes.

    ``readers`` are the nodes that read a value in the function as it was given, a node for each
    operand; results of the function have none.
    """

    types: dict[str, TensorType]
    defs: dict[str, Node] = field(default_factory=dict[str, Node])
    names: Names = field(default_factory=Names)  # those that are free in the whole function
    readers: Mapping[str, Sequence[Node]] = field(default_factory=dict[str, list[Node]])

    @staticmethod
    def of(f: Function) -> Values:
        """Return the values of a function before its first node: its parameters."""
        readers = dict[str, list[Node]]()
        for n in f.nodes:
            for a in n.args:
                readers.setdefault(a, []).append(n)
        for r in f.results:
            readers.pop(r, None)
        return Values({p.name: p.type for p in f.params}, names=Names(f.types()), readers=readers)

    def define(self, n: Node) -> None:
        """Add the results of a node."""
        for name, t in zip(n.results, n.types, strict=True):
            self.types[name] = t
            self.defs[name] = n

    def source(self, name: str, op: str) -> Node | None:
        """Return the node that defines a value, if its op is ``op``."""
        n = self.defs.get(name)
        return n if n is not None and n.op == op else None

    def constant(self, name: str) -> Tensor | None:
        """Return the tensor of a value that a ``constant`` defines, or None."""
        n = self.source(name, "constant")
        if n is None:
            return None
        value = n.attr["value"]
        assert isinstance(value, Tensor)
        return value

    def splat(self, name: str) -> bytes | None:
        """Return the bytes of the one constant that all elements of a value are, or None."""
        n = self.defs.get(name)
        while n is not None and n.op in ("broadcast_to", "reshape", "permute_dims", "flip"):
            n = self.defs.get(n.args[0])
        if n is None or n.op != "constant":
            return None
        value = n.attr["value"]
        assert isinstance(value, Tensor)
        if value.dtype.is_packed:
            return None
        size = value.dtype.nbytes
        first = value.data[:size]
        if not first or first != value.data[-size:]:  # rules out most weights quickly
            return None
        return first if first * (len(value.data) // size) == value.data else None


def kind(n: Node) -> Kind:
    """Return the kind of a node's op; calls and control nodes count as opaque."""
    op = OPS.get(n.op)
    return Kind.OPAQUE if op is None else op.kind
