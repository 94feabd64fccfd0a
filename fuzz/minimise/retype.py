"""Rewrite the sizes and dtypes of a module, and infer the types of its values anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy

from didyma.fuzz.graphs import used
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Function, Module, Node
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS


def _same_size(d: Dim) -> Dim:
    return d


def _same_dtype(d: DType) -> DType:
    return d


@dataclass(frozen=True, slots=True)
class Retype:
    """The size that takes the place of each size, and the dtype that takes the place of each."""

    size: Callable[[Dim], Dim] = _same_size
    dtype: Callable[[DType], DType] = _same_dtype

    def type(self, t: TensorType) -> TensorType:
        """Return a type with its sizes and dtype replaced."""
        return replace(t.with_shape(*map(self.size, t.shape)), dtype=self.dtype(t.dtype))

    def tensor(self, t: Tensor) -> Tensor:
        """Return a constant with its dtype replaced, cut down to its first elements."""
        shape, dtype = tuple(map(self.size, t.shape)), self.dtype(t.dtype)
        if (shape, dtype) == (t.shape, t.dtype):
            return t
        return Tensor.of(converted(part(t.array(), dims.values(shape, {}), last=False), dtype))

    def attr(self, value: Attr, kind: str) -> Attr:
        """Return an attribute of an op, of the kind that the op declares."""
        match value:
            case Tensor():
                return self.tensor(value)
            case tuple() if kind == "dims":
                return tuple(self.attr(d, "dim") for d in value)
            case int() | sympy.Expr() if kind == "dim":
                return self.size(value)
            case DType():
                return self.dtype(value)
            case _:
                return value


def part(a: Array, shape: tuple[int, ...], last: bool) -> Array:
    """Return the first or the last elements of each axis."""
    parts = (slice(n - k, n) if last else slice(0, k) for n, k in zip(a.shape, shape, strict=True))
    return a[tuple(parts)].copy()


def converted(a: Array, dtype: DType) -> Array:
    """Return an array in another dtype; what it cannot hold becomes what NumPy makes of it."""
    with np.errstate(all="ignore"):
        return np.asarray(a.astype(dtype.numpy), order="C")


def rewritten(m: Module, retype: Retype) -> Module | None:
    """Return a module with every type replaced, and results inferred; None where that fails."""
    functions: list[Function] = []
    for f in m.functions:
        params = tuple(replace(p, type=retype.type(p.type)) for p in f.params)
        g = inferred(replace(f, params=params), retype)
        if g is None:
            return None
        functions.append(g)
    return used(replace(m, functions=tuple(functions)))


def inferred(f: Function, retype: Retype) -> Function | None:
    """Return a function with types inferred from its parameters; None where an op refuses them."""
    types = {p.name: p.type for p in f.params}
    nodes: list[Node] = []
    for n in f.nodes:
        try:
            n = _node(n, types, retype)
        except (DidymaError, KeyError, ValueError, OverflowError):
            return None
        nodes.append(n)
        types.update(zip(n.results, n.types, strict=True))
    return replace(f, nodes=tuple(nodes))


def _node(n: Node, types: Mapping[str, TensorType], retype: Retype) -> Node:
    if n.op not in OPS:
        return replace(n, types=tuple(map(retype.type, n.types)))
    kinds = {a.name: a.kind for a in OPS[n.op].attrs}
    attrs = tuple((name, retype.attr(value, kinds.get(name, ""))) for name, value in n.attrs)
    result = OPS[n.op].infer([types[a] for a in n.args], dict(attrs))
    return replace(n, attrs=attrs, types=(result,))
