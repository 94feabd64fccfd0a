"""Find out whether a program treats pairs of reals as complex numbers."""

from __future__ import annotations

from didyma.refimpl.ir.graph import Function, Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

_PART_BY_PART = frozenset({"negative", "cast", "add", "subtract", "where"})  # the same on pairs
_SUMS = frozenset({"sum", "mean"})


def reader_of_parts(f: Function, param: str) -> str:
    """Return the op by which a function reads pairs of reals as real numbers; empty without one.

    The pairs of a parameter [..., 2] are followed through what moves or adds them.  A function of
    complex numbers takes the parts apart before it computes with them, and so ends the search.
    """
    types = f.types()
    pairs = {param}
    for node in f.nodes:
        if pairs.isdisjoint(node.args):
            continue
        if not _takes_pairs(node, types, pairs):
            return node.op
        pairs |= {r for r, t in zip(node.results, node.types, strict=True) if _paired(t)}
    return ""


def _paired(t: TensorType) -> bool:
    return bool(t.shape) and t.shape[-1] == 2


def _folds_last(node: Node, operand: TensorType) -> bool:
    axes = node.attr["axes"]
    return isinstance(axes, tuple) and operand.rank - 1 in axes


def _takes_pairs(node: Node, types: dict[str, TensorType], pairs: set[str]) -> bool:
    """Return whether a node computes on pairs the same as on the complex numbers that they are."""
    if node.op not in OPS or node.op in _PART_BY_PART:
        return True
    if node.op in ("multiply", "divide"):
        by = [a for a in node.args if a not in pairs]
        numerator = node.op == "multiply" or node.args[0] in pairs
        return numerator and len(by) == 1 and not _paired(types[by[0]])
    if node.op in _SUMS:
        return not _folds_last(node, types[node.args[0]])
    if node.op == "matmul":
        return node.args[0] not in pairs
    return OPS[node.op].kind not in (Kind.ELEMENTWISE, Kind.REDUCTION)
