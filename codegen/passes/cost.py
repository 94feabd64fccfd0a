"""How much work a fused value repeats: the one place that holds fusion's numbers.

Costs are in units of one addition on one element.  They decide speed, never correctness.
"""

from __future__ import annotations

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops.spec import Kind

SLOW = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2", "sqrt",
    "rsqrt", "reciprocal", "divide", "floor_divide", "trunc_divide", "remainder", "fmod",
))  # fmt: skip
SLOW_COST = 8
GATHERS = frozenset(("gather", "gather_elements"))
GATHER_COST = 4
RANDOM_COST = 60  # ten rounds

GROUP = 128  # a kernel computes at most so much for one element
AGAIN = 10  # what may be computed again in another kernel, rather than written and read
SPREAD = 4  # what may be computed for each of many readers of one element
TILE = 2  # what may be computed at each read of an operand of a matmul, convolution or pool
OUTPUTS = 4  # results a kernel of several outputs may have

# Movement whose element is one load away, which a matmul may do as it reads.
LIGHT = frozenset(("permute_dims", "broadcast_to", "slice", "flip", "cast", "constant", "iota"))

SCANS = frozenset(("cumulative_sum", "cumulative_prod"))


def weight(n: Node) -> int:
    """Cost of one element of a node, its operands not counted."""
    if n.op == "constant":
        return 0
    if n.op == "random_bits":
        return RANDOM_COST
    return SLOW_COST if n.op in SLOW else GATHER_COST if n.op in GATHERS else 1


def spreads(n: Node, operand: TensorType) -> bool:
    """Tell whether one element of an operand is read for many elements of the result."""
    if n.op == "broadcast_to" or n.op in GATHERS:
        return operand.shape != n.types[0].shape
    return False


def rereads(n: Node, kind: Kind) -> bool:
    """Tell whether a fold reads one element of its operands many times.

    A reduction over axes and a scatter read each once; a running sum, a matmul, a convolution
    and a pool read it for many results.
    """
    return (kind == Kind.OPAQUE and n.op != "scatter") or n.op in SCANS
