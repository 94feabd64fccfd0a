"""The cost model of fusion: what an element costs to compute, and how much may be repeated.

The unit is one addition on one element.  These numbers affect speed, never results.
"""

from __future__ import annotations

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Work

COST = {Work.NONE: 0, Work.PLAIN: 1, Work.LOOKUP: 4, Work.SLOW: 8, Work.ROUNDS: 60}

GROUP = 128  # most that a kernel computes for one element
AGAIN = 10  # most that another kernel recomputes rather than reads from memory
SPREAD = 4  # most that is recomputed for each of many readers of one element
TILE = 2  # most that a matmul, convolution or pool recomputes at each read of an operand
OUTPUTS = 4  # most results of one kernel


def weight(n: Node) -> int:
    """Return the cost of one element of a node, without that of its operands."""
    return COST[OPS[n.op].work]


def spreads(n: Node, operand: TensorType) -> bool:
    """Return whether a node may read one element of an operand for many of its result."""
    repeats = n.op == "broadcast_to" or OPS[n.op].work is Work.LOOKUP
    return repeats and operand.shape != n.types[0].shape
