"""Types and attributes at one binding of their symbols."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Attr, Node
from didyma.refimpl.ir.types import TensorType


def concrete_type(t: TensorType, env: Mapping[str, int]) -> TensorType:
    """Return a type with every symbol replaced by its int."""
    if all(type(s) is int for s in t.shape):
        return t
    return TensorType(t.dtype, tuple(dims.evaluate(s, env) for s in t.shape), t.device)


def concrete_attr(a: Attr, env: Mapping[str, int]) -> Attr:
    """Return an attribute with every symbol replaced by its int."""
    if isinstance(a, sympy.Expr):
        return dims.evaluate(a, env)
    if isinstance(a, tuple):
        return tuple(concrete_attr(x, env) for x in a)
    return a


def concrete_attrs(n: Node, env: Mapping[str, int]) -> dict[str, Attr]:
    """Attributes of a node with every symbol replaced by its int."""
    return {k: concrete_attr(v, env) for k, v in n.attrs}
