"""Build a graph node by node: types are inferred, names are kept unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refimpl.errors import DidymaError
from refimpl.ir.graph import Attr, Function, Node, Param
from refimpl.ir.graph import attrs as freeze
from refimpl.ir.types import Array, DType, Tensor, TensorType
from refimpl.ops import OPS


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph under construction."""

    name: str
    type: TensorType


class Builder:
    """Collects parameters and nodes.

    >>> b = Builder()
    >>> x = b.param("x", TensorType(DType.F32, (2, 3)))
    >>> str(b("sum", [x], axes=(1,), keepdims=False).type)
    'f32[2]'
    """

    def __init__(self) -> None:
        self._params: list[Param] = []
        self._nodes: list[Node] = []
        self._places: dict[str, int] = {}  # of the node that defines a value
        self._names: dict[str, int] = {}  # and how often each was wished for

    def param(self, name: str, type: TensorType) -> Value:
        """Add a parameter; DidymaError ``redefined`` if the name is taken."""
        if name in self._names:
            raise DidymaError("redefined", f"%{name}", got="two values", want="one value a name")
        self._names[name] = 0
        self._params.append(Param(name, type))
        return Value(name, type)

    def __call__(self, op: str, args: Sequence[Value], /, **attrs: Attr) -> Value:
        """Add a node; raises what the op's ``infer`` raises."""
        return self.node(op, args, attrs)

    def node(
        self, op: str, args: Sequence[Value], attrs: Mapping[str, Attr], name: str = ""
    ) -> Value:
        """Add a node whose value should have a name, if it is free."""
        type = OPS[op].infer([a.type for a in args], attrs)
        result = self._fresh(name or op)
        operands = tuple(a.name for a in args)
        self._places[result] = len(self._nodes)
        self._nodes.append(Node((result,), op, operands, (type,), freeze(attrs)))
        return Value(result, type)

    def constant(self, array: Array, name: str = "") -> Value:
        """Add a constant."""
        return self.node("constant", [], {"value": Tensor.of(array)}, name or "c")

    def scalar(self, value: float | int | bool, dtype: DType) -> Value:
        """Add a constant of rank 0."""
        return self.constant(np.asarray(value).astype(dtype.numpy))

    def type_of(self, v: Value) -> TensorType:
        """Type of a value."""
        return v.type

    def cone(self, v: Value) -> Function:
        """Return the part of the graph that a value needs, as a function."""
        wanted = {v.name}
        kept: list[Node] = []
        for n in reversed(self._nodes[: self._places.get(v.name, -1) + 1]):
            if wanted.intersection(n.results):
                kept.append(n)
                wanted.update(n.args)
        params = tuple(p for p in self._params if p.name in wanted)
        return Function("cone", params, tuple(reversed(kept)), (v.name,))

    def function(self, name: str, results: Sequence[Value]) -> Function:
        """Return the function built so far."""
        return Function(
            name, tuple(self._params), tuple(self._nodes), tuple(r.name for r in results)
        )

    def _fresh(self, wish: str) -> str:
        name = wish
        while name in self._names:
            self._names[wish] += 1
            name = f"{wish}_{self._names[wish]}"
        self._names[name] = 0
        return name
