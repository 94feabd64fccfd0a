"""The cost model of fusion: what an element costs to compute.

The unit is one addition on one element.  These numbers affect speed, never results.
"""

from __future__ import annotations

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Work

COST = {Work.NONE: 0, Work.PLAIN: 1, Work.LOOKUP: 4, Work.SLOW: 8, Work.ROUNDS: 60}


def weight(n: Node) -> int:
    """Return the cost of one element of a node, without that of its operands."""
    return COST[OPS[n.op].work]


def spreads(n: Node, operand: TensorType) -> bool:
    """Return whether a node may read one element of an operand for many elements of its result."""
    repeats = n.op == "broadcast_to" or OPS[n.op].work is Work.LOOKUP
    return repeats and operand.shape != n.types[0].shape
