"""Compute what depends on small constants alone."""

from __future__ import annotations

import math

from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.control import attr_symbols
from didyma.refimpl.ir.graph import Node, attrs
from didyma.refimpl.ir.types import DType, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

MAX_OPERAND = 4096  # elements
MAX_RESULT = 64  # elements, or as many as the largest operand has: folding adds few bytes


def fold(n: Node, values: Values) -> Node | None:
    """Replace a node by its value.

    Not arithmetic in f16 and bf16: a kernel keeps intermediates of those in f32, and so must a
    constant that stands for one.  Not what has no operands, or repeats one element: a loop makes
    those cheaper than a load.
    """
    op = OPS.get(n.op)
    if op is None or not n.args or n.op == "broadcast_to" or n.types[0].device:
        return None
    t = n.types[0]
    if op.kind == Kind.ELEMENTWISE and t.dtype in (DType.F16, DType.BF16):
        return None
    if op.kind in (Kind.REDUCTION, Kind.OPAQUE) and t.dtype.is_float:
        return None
    operands = [values.constant(a) for a in n.args]
    known = [c for c in operands if c is not None]
    largest = max((math.prod(c.shape) for c in known), default=0)
    numel = t.numel
    if len(known) < len(operands) or largest > MAX_OPERAND:
        return None
    if not isinstance(numel, int) or numel > max(MAX_RESULT, largest):
        return None
    if any(attr_symbols(value) for _, value in n.attrs):
        return None
    result = op.apply(n.attr).eval([c.array() for c in known], t)
    return Node(n.results, "constant", (), n.types, attrs({"value": Tensor.of(result)}))
