"""Graphs by hand, in few words."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import CALL, Attr, Attrs, Function, Module, Node, Param, attrs
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS


@dataclass
class Graph:
    """A function under construction; types come from the ops' own rules."""

    name: str = "main"
    params: list[Param] = field(default_factory=list[Param])
    nodes: list[Node] = field(default_factory=list[Node])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])

    def param(self, name: str, *shape: Dim, dtype: DType = DType.F32) -> str:
        t = TensorType(dtype, shape)
        self.params.append(Param(name, t))
        self.types[name] = t
        return name

    def __call__(self, op: str, *args: str, **a: Attr) -> str:
        t = OPS[op].infer([self.types[x] for x in args], a)
        return self._append(Node((self._fresh(op),), op, args, (t,), attrs(a)))

    def constant(self, value: object, dtype: DType = DType.F32) -> str:
        array = np.array(value).astype(dtype.numpy)
        return self("constant", value=Tensor.of(array))

    def call(self, f: Function, *args: str) -> tuple[str, ...]:
        results = tuple(self._fresh(f"{f.name}_{i}") for i in range(len(f.results)))
        self._append(Node(results, CALL, args, f.result_types(), attrs({"callee": f.name})))
        return results

    def function(self, *results: str, attrs: Attrs = ()) -> Function:
        return Function(self.name, tuple(self.params), tuple(self.nodes), results, attrs)

    def module(self, *results: str, dims: tuple[DimVar, ...] = ()) -> Module:
        return Module((self.function(*results),), dims)

    def _append(self, n: Node) -> str:
        self.nodes.append(n)
        self.types.update(zip(n.results, n.types, strict=True))
        return n.results[0]

    def _fresh(self, wanted: str) -> str:
        name, i = wanted, 0
        while name in self.types:
            i += 1
            name = f"{wanted}{i}"
        return name


def kernels(m: Module) -> list[list[str]]:
    """Return the ops of each function but the entry, sorted, constants left out."""
    return [sorted(n.op for n in f.nodes if n.op != "constant") for f in m.functions[:-1]]


def corners(dtype: DType) -> Array:
    """Values at which arithmetic goes wrong."""
    if dtype.is_float:
        big = {DType.F64: 1.7e308, DType.F16: 6e4}.get(dtype, 3e38)
        tiny = {DType.F64: 5e-324, DType.F16: 6e-8}.get(dtype, 1e-40)
        values = [0.0, -0.0, 1.0, -1.5, 2.5, np.nan, np.inf, -np.inf, big, -big, tiny, -tiny]
        with np.errstate(all="ignore"):
            return np.array(values).astype(dtype.numpy)
    if dtype == DType.BOOL:
        return np.array([False, True])
    least, most = dtype.limits
    return np.array([least, most, 0, 1, 2, most // 2], dtype.numpy)
