"""The rows that nodes of a function fold: all elements with one index on the other axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Shape, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.reduce import Reduction
from didyma.refimpl.ops.spec import Kind


@dataclass(frozen=True, slots=True)
class Rows:
    """The shape of what is folded, and the axes that folds run over: a row for all others."""

    shape: Shape
    axes: tuple[int, ...]

    @property
    def kept(self) -> Shape:
        """The shape of a fold's result that keeps the folded axes, with size 1."""
        return tuple(1 if a in self.axes else d for a, d in enumerate(self.shape))

    @property
    def dropped(self) -> Shape:
        """The shape of a fold's result without the folded axes."""
        return tuple(d for a, d in enumerate(self.shape) if a not in self.axes)


def rows_of(nodes: Sequence[Node], types: Mapping[str, TensorType]) -> Rows | None:
    """Return the rows that nodes fold, if all of them fold or compute elements of the same rows."""
    found: Rows | None = None
    for n in nodes:
        op = OPS[n.op]
        if op.kind is Kind.REDUCTION:
            use = op.apply(n.attr).attrs
            if not isinstance(use, Reduction) or not use.axes:
                return None
            rows = Rows(types[n.args[0]].shape, use.axes)
            if found not in (None, rows):
                return None
            found = rows
        elif op.kind is not Kind.ELEMENTWISE and n.op not in ("constant", "broadcast_to"):
            return None
    return found
