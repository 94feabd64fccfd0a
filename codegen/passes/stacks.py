"""Let scans stack whole bytes: rows of packed dtypes are stacked in a wider dtype, then packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.passes.inline import used
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import SCAN, Function, Module, Node, attrs
from didyma.refimpl.ir.names import Names, fresh
from didyma.refimpl.ir.types import DType, TensorType


def widen_stacks(m: Module) -> Module:
    """Widen what a ``scan`` stacks if its packed rows may not fill whole bytes.

    So every row starts at a byte, and no two writers share one.
    """
    work = _Widening({f.name: f for f in m.functions})
    functions: list[Function] = []
    for f in m.functions:
        f = work.function(f)
        functions += (*work.made, f)
        work.made.clear()
    same = all(f is g for f, g in zip(functions, m.functions, strict=False))
    return m if same else used(replace(m, functions=tuple(functions)), m)


def _wide(t: TensorType) -> TensorType | None:
    """Return the type in which to stack rows of ``t``; None if they fill whole bytes already."""
    bits = dims.mul(t.with_shape(*t.shape[1:]).numel, t.dtype.bits)
    if not t.dtype.is_packed or bits % 8 == 0:
        return None
    return t.with_dtype(DType.F8E4M3 if t.dtype.is_float else t.dtype.compute)


@dataclass
class _Widening:
    table: dict[str, Function]
    made: list[Function] = field(default_factory=list[Function])

    def function(self, f: Function) -> Function:
        """Rewrite the scans of a function."""
        if not any(any(map(_wide, _stacked(n))) for n in f.nodes):
            return f
        supply = Names(f.types())
        nodes = tuple(new for n in f.nodes for new in self.node(n, supply))
        self.table[f.name] = f = replace(f, nodes=nodes)
        return f

    def node(self, n: Node, supply: Names) -> Sequence[Node]:
        """Return a scan that stacks wide rows, and casts of its stacks; any other node alone."""
        wide = {i: w for i, t in enumerate(_stacked(n)) if (w := _wide(t))}
        if not wide:
            return (n,)
        k = control.count(n, "states")
        results, types = list(n.results), list(n.types)
        casts: list[Node] = []
        for i, w in wide.items():
            results[k + i] = supply.fresh(f"{n.results[k + i]}_wide")
            types[k + i] = w
            casts.append(_cast(n.results[k + i], results[k + i], n.types[k + i]))
        body = self.body(control.references(n)[0], {k + i: w for i, w in wide.items()})
        scan = replace(
            n,
            results=tuple(results),
            types=tuple(types),
            attrs=attrs(n.attr | {"body": body.name}),
        )
        return (scan, *casts)

    def body(self, name: str, wide: dict[int, TensorType]) -> Function:
        """Return a copy of a body that casts results to the dtypes in which they are stacked."""
        f = self.table[name]
        supply, results = Names(f.types()), list(f.results)
        casts: list[Node] = []
        for i, w in wide.items():
            results[i] = supply.fresh(f"{f.results[i]}_wide")
            casts.append(_cast(results[i], f.results[i], w.with_shape(*w.shape[1:])))
        made = replace(
            f,
            name=fresh(name, self.table),
            nodes=(*f.nodes, *casts),
            results=tuple(results),
        )
        self.table[made.name] = made
        self.made.append(made)
        return made


def _stacked(n: Node) -> Sequence[TensorType]:
    """Return the types of what a scan stacks; none of any other node."""
    return n.types[control.count(n, "states") :] if n.op == SCAN else ()


def _cast(result: str, arg: str, t: TensorType) -> Node:
    return Node((result,), "cast", (arg,), (t,), attrs({"dtype": t.dtype}))
