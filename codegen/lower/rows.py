"""The rows that nodes of a function fold, and how every value of the function lies along them.

A row is all elements of an array with one index on the axes that are not folded.  Values belong to
the same rows if element ``i`` of one, in row-major order, lies in the row in which element ``i`` of
the other lies, so a reshape changes no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Shape, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.extremes import Search
from didyma.refimpl.ops.index import Pick
from didyma.refimpl.ops.reduce import Reduction
from didyma.refimpl.ops.spec import Kind


class Along(Enum):
    """What an element of a value stands for, where values are computed row by row."""

    FREE = "free"  # it depends on no fold, so it can be computed at any index
    ROW = "row"  # it belongs to a row as a whole, such as the result of a fold
    ELEMENT = "element"  # it belongs to one element of a row


@dataclass(frozen=True, slots=True)
class Rows:
    """The shape of what is folded, and the axes that folds run over: a row for all others.

    ``along`` says how values of the function lie along the rows.
    """

    shape: Shape
    axes: tuple[int, ...]
    along: Mapping[str, Along]

    @property
    def kept(self) -> Shape:
        """The shape of a fold's result that keeps the folded axes, with size 1."""
        return tuple(1 if a in self.axes else d for a, d in enumerate(self.shape))

    @property
    def dropped(self) -> Shape:
        """The shape of a fold's result without the folded axes."""
        return tuple(d for a, d in enumerate(self.shape) if a not in self.axes)

    @property
    def length(self) -> Dim:
        """The number of elements of a row."""
        return dims.mul(*(self.shape[a] for a in self.axes))

    @property
    def is_across(self) -> bool:
        """Whether neighbouring rows, and not neighbours in a row, lie together in memory."""
        runs = _runs(self.shape, self.axes)
        return bool(runs) and not runs[-1][1]

    def at(self, value: str, shape: Shape) -> Along | None:
        """Return where a value of a shape is stored: at each element, or once a row; None: nowhere.

        A value that depends on no fold must have as many elements as there are elements or rows.
        """
        if shape == self.shape:
            return Along.ELEMENT
        if shape in (self.kept, self.dropped):
            return Along.ROW
        found = self.along.get(value, Along.FREE)  # a parameter depends on nothing
        if found is not Along.FREE:
            return found
        if self.is_whole(shape):
            return Along.ELEMENT
        return Along.ROW if dims.mul(*shape) == dims.mul(*self.dropped) else None

    def is_whole(self, shape: Shape) -> bool:
        """Return whether an array of a shape has as many elements as the rows together."""
        return shape == self.shape or dims.mul(*shape) == dims.mul(*self.shape)


def rows_of(nodes: Sequence[Node], types: Mapping[str, TensorType]) -> Rows | None:
    """Return the rows that nodes fold; None unless all fold one shape over the same axes.

    All that depends on a fold must be computed row by row: from elements at the same place of the
    same row, and from what belongs to this row as a whole.
    """
    folds = (n for n in nodes if OPS[n.op].kind is Kind.REDUCTION)
    first = next(folds, None)
    rows = None if first is None else folded(first, types)
    return None if rows is None else more_rows(rows, nodes, types)


def more_rows(rows: Rows, nodes: Iterable[Node], types: Mapping[str, TensorType]) -> Rows | None:
    """Return the rows of some nodes and of those that follow them; None as of ``rows_of``."""
    along = dict(rows.along)
    for n in nodes:
        found = _Node(n, types, along, rows).along()
        if found is None:
            return None
        along[n.results[0]] = found
    return replace(rows, along=along)


def picks_one(n: Node, types: Mapping[str, TensorType]) -> int | None:
    """Return the axis along which a node picks one element for each index on the other axes."""
    if n.op != "gather_elements":
        return None
    use = OPS[n.op].apply(n.attr).attrs
    assert isinstance(use, Pick)
    t, i = (types[a].shape for a in n.args)
    rest = range(len(t))
    return use.axis if all(i[a] == (1 if a == use.axis else t[a]) for a in rest) else None


def folded(n: Node, types: Mapping[str, TensorType]) -> Rows | None:
    """Return the rows that a reduction folds; None if it folds no axis."""
    match OPS[n.op].apply(n.attr).attrs:
        case Reduction(axes=axes) if axes:
            return Rows(types[n.args[0]].shape, axes, {})
        case Search(axis=axis):
            return Rows(types[n.args[0]].shape, (axis,), {})
        case _:
            return None


def _runs(shape: Shape, axes: Sequence[int]) -> tuple[tuple[Dim, bool], ...]:
    """Return sizes of neighbouring axes that are all folded or all kept, multiplied; no ones.

    >>> _runs((4, 1, 2, 3, 5), (2, 4))
    ((4, False), (2, True), (3, False), (5, True))
    """
    found = list[tuple[Dim, bool]]()
    for a, d in enumerate(shape):
        if d == 1:
            continue
        if found and found[-1][1] == (a in axes):
            d = dims.mul(found.pop()[0], d)
        found.append((d, a in axes))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node, how the values before it lie along ``rows``, and the types of all values."""

    node: Node
    types: Mapping[str, TensorType]
    before: Mapping[str, Along]
    rows: Rows

    def along(self) -> Along | None:
        """Return how the result lies along the rows; None if it is not computed row by row."""
        n, kind = self.node, OPS[self.node.op].kind
        bound = [a for a in n.args if self._of(a) is not Along.FREE]
        if kind is Kind.REDUCTION:
            return self._fold()
        if kind is Kind.OPAQUE:
            return None
        if not bound:
            return Along.FREE
        if kind is Kind.RESHAPE:
            return self._of(bound[0])
        if kind is Kind.ELEMENTWISE or n.op == "broadcast_to":
            found = {self._spread(a) for a in bound}
            if None in found:
                return None
            return Along.ELEMENT if Along.ELEMENT in found else Along.ROW
        axis = picks_one(n, self.types)
        return None if axis is None else self._pick(axis)

    def _of(self, value: str) -> Along:
        return self.before.get(value, Along.FREE)

    def _is_same(self, shape: Shape, axes: Sequence[int]) -> bool:
        return _runs(shape, axes) == _runs(self.rows.shape, self.rows.axes)

    def _fold(self) -> Along | None:
        other = folded(self.node, self.types)
        same = other is not None and (other.shape, other.axes) == (self.rows.shape, self.rows.axes)
        return Along.ROW if same and self._of(self.node.args[0]) is not Along.ROW else None

    def _spread(self, value: str) -> Along | None:
        """Return how an operand lies along the rows, as the result reads it."""
        shape, found = self.node.types[0].shape, self._of(value)
        given = self.types[value].shape
        padded = (*[1] * (len(shape) - len(given)), *given)
        if padded == shape:
            return found
        axes = [a for a, (n, m) in enumerate(zip(padded, shape, strict=True)) if n != m]
        one_row = found is Along.ROW and self._is_same(shape, axes)
        return Along.ELEMENT if one_row else None

    def _pick(self, axis: int) -> Along | None:
        """Return ROW for an element of each row that is picked by an index known before."""
        data, index = self.node.args
        along = self._of(data) is Along.ELEMENT and self._of(index) is Along.FREE
        return Along.ROW if along and self._is_same(self.types[data].shape, (axis,)) else None
