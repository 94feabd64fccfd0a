"""How much work a fused value repeats: the one place that holds fusion's numbers.

Costs are in units of one addition on one element.  They decide speed, never correctness.
"""

from __future__ import annotations

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Work

COST = {Work.NONE: 0, Work.PLAIN: 1, Work.LOOKUP: 4, Work.SLOW: 8, Work.ROUNDS: 60}

GROUP = 128  # a kernel computes at most so much for one element
AGAIN = 10  # what may be computed again in another kernel, rather than written and read
SPREAD = 4  # what may be computed for each of many readers of one element
TILE = 2  # what may be computed at each read of an operand of a matmul, convolution or pool
OUTPUTS = 4  # results a kernel of several outputs may have


def weight(n: Node) -> int:
    """Cost of one element of a node, its operands not counted."""
    return COST[OPS[n.op].work]


def spreads(n: Node, operand: TensorType) -> bool:
    """Tell whether one element of an operand is read for many elements of the result."""
    repeats = n.op == "broadcast_to" or OPS[n.op].work is Work.LOOKUP
    return repeats and operand.shape != n.types[0].shape
