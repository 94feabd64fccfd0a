"""Whether few long rows are best computed by one kernel, in which several blocks share each row.

A softmax folds a maximum and a sum of exponentials of distances from it, a norm a mean and squares
of distances from it: one pass folds both, and another computes the results.  Other folds of such
rows are faster as kernels of their own, each of which has more blocks at work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didyma.codegen.lower.rows import Along, Rows
from didyma.codegen.options import Options
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.values import kind
from didyma.codegen.schedule.online import COUNTED
from didyma.codegen.schedule.recipes import parted
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops.spec import Kind

_SHOWN = ("reshape", "broadcast_to")


def suits(g: FusionGroup, rows: Rows, types: Mapping[str, TensorType], options: Options) -> bool:
    """Return whether a group folds few long rows twice in one pass, and can store what it stores.

    Where neighbouring rows lie together, a kernel of the elements is faster that stores whole rows
    by itself.  Axes of one element that are folded have indices of their own in every fold.
    """
    count, length = dims.mul(*rows.dropped), rows.length
    if not isinstance(count, int) or not isinstance(length, int):
        return False
    if not options.device.processors or length > COUNTED[DType.F32] or not _is_pair(g.nodes):
        return False
    if any(rows.shape[a] == 1 for a in rows.axes):
        return False
    at = {rows.at(w, types[w].shape) for w in g.writes}
    if at == {Along.ROW}:
        return True
    if rows.is_across or Along.ELEMENT not in at:
        return False
    nbytes = sum(types[x].dtype.nbytes for x in g.reads if rows.is_whole(types[x].shape))
    return count * length * nbytes <= parted.MOST_READ


def _is_pair(nodes: Sequence[Node]) -> bool:
    """Return whether nodes fold twice, the second time distances from the first result."""
    made = {r: n for n in nodes for r in n.results}
    folds = [n for n in nodes if kind(n) is Kind.REDUCTION]
    if len(folds) != parted.FOLDS or folds[1].op not in ("sum", "mean"):
        return False
    first, term = folds[0], made.get(_shown(folds[1].args[0], made))
    match first.op, term:
        case "max", Node(op="exp", args=(far,)):
            pass
        case "mean", Node(op="multiply", args=(far, other)) if far == other:
            pass
        case _:
            return False
    one = made.get(_shown(far, made))
    if one is None or one.op != "subtract":
        return False
    left, right = (_shown(x, made) for x in one.args)
    return (left, right) == (_shown(first.args[0], made), first.results[0])


def _shown(value: str, made: Mapping[str, Node]) -> str:
    """Return the value that a value shows in another shape."""
    while (n := made.get(value)) is not None and n.op in _SHOWN:
        value = n.args[0]
    return value
