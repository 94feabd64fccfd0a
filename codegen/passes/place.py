"""Place values on devices with as few copies as the program needs.

What is already where it is wanted is not copied, nor is what was copied from there; a value goes to
a device once.  What is computed from constants alone is computed where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from didyma.refimpl.ir.graph import TO, Function, Module, Node
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS

MOST_AGAIN = 16  # nodes that are computed from constants anew to save a copy


def place(m: Module) -> Module:
    """Return a module in which every ``to`` copies a value that no other copy has brought there."""
    functions = tuple(map(_placed, m.functions))
    return m if functions == m.functions else replace(m, functions=functions)


def _placed(f: Function) -> Function:
    if not any(n.op == TO for n in f.nodes):
        return f
    return _Placement(f).function()


@dataclass
class _Placement:
    """Where the values of a function are, while its nodes are read from the first to the last."""

    f: Function
    types: dict[str, TensorType] = field(init=False)
    supply: Names = field(init=False)
    names: dict[str, str] = field(default_factory=dict[str, str])  # what stands for a value
    origin: dict[str, str] = field(default_factory=dict[str, str])  # what a value is a copy of
    there: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    free: dict[str, tuple[Node, int]] = field(default_factory=dict[str, tuple[Node, int]])
    nodes: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        self.types = self.f.types()
        self.supply = Names(self.types)

    def function(self) -> Function:
        """Return the function with the copies that are left."""
        for n in self.f.nodes:
            n = replace(n, args=tuple(self.names.get(a, a) for a in n.args))
            if n.op == TO:
                self.names[n.results[0]] = self._to(n)
            else:
                self._add(n)
        results = tuple(self.names.get(r, r) for r in self.f.results)
        return replace(self.f, nodes=tuple(self.nodes), results=results)

    def _add(self, n: Node) -> None:
        self.nodes.append(n)
        self.types.update(zip(n.results, n.types, strict=True))
        if n.op in OPS and all(a in self.free for a in n.args):
            count = 1 + sum(self.free[a][1] for a in n.args)
            self.free[n.results[0]] = n, count

    def _to(self, n: Node) -> str:
        """Return the value of a ``to`` node, which may be there already."""
        device = n.types[0].device
        of = self.origin.get(n.args[0], n.args[0])
        if self.types[of].device == device:
            return of
        found = self.there.get((of, device))
        if found is None:
            found = self.there[of, device] = self._brought(n, of, device)
        return found

    def _brought(self, n: Node, of: str, device: str) -> str:
        name = n.results[0]
        if of in self.free and self.free[of][1] <= MOST_AGAIN:
            return self._again(of, device)
        self.nodes.append(replace(n, args=(of,)))
        self.origin[name] = of
        return name

    def _again(self, of: str, device: str) -> str:
        """Compute a value of constants on a device, and what it needs; return its name there."""
        made, _ = self.free[of]
        for a in made.args:
            if (a, device) not in self.there:
                self.there[a, device] = self._again(a, device)
        t = replace(made.types[0], device=device)
        name = self.supply.fresh(of)
        args = tuple(self.there[a, device] for a in made.args)
        self._add(Node((name,), made.op, args, (t,), made.attrs))
        return name
