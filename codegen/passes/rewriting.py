"""A function whose nodes are written anew, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field

from didyma.refimpl.ir.graph import Attr, Function, Node, attrs
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS


@dataclass
class Rewriting:
    """A function under rewriting: the nodes made so far, by what they define, and all types.

    Names of new values begin with that of an operand, and end with ``suffix``.
    """

    f: Function
    suffix: str
    nodes: list[Node] = field(default_factory=list[Node])
    defs: dict[str, Node] = field(default_factory=dict[str, Node])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.f.types())
        self.types = {p.name: p.type for p in self.f.params}

    def add(self, n: Node) -> str:
        """Add a node, and return its first result; of one that only binds a size, nothing."""
        self.nodes.append(n)
        self.types.update(zip(n.results, n.types, strict=True))
        self.defs.update(dict.fromkeys(n.results, n))
        return n.results[0] if n.results else ""

    def op(self, op: str, *args: str, **given: Attr) -> str:
        """Add a node with one result by its op, operands and attributes, and return the result."""
        t = OPS[op].infer([self.types[a] for a in args], given)
        name = self.names.fresh(f"{args[0]}_{self.suffix}")
        return self.add(Node((name,), op, args, (t,), attrs(given)))
