"""Rows of a function whose elements are also folded across the rows, such as gradients of weights.

The gradient of a norm's input is computed row by row; that of its weight is a sum over the rows at
each place of a row.  Both read the same elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.lower.rows import Along, Rows, folded, more_rows
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind


@dataclass(frozen=True, slots=True)
class Swept:
    """The rows that nodes fold, and what is folded across them.

    ``across`` are results with an element for each place of a row.  What folds across rows
    computes it from elements, and from ``shared``: values that belong to a row as a whole.
    """

    rows: Rows
    across: tuple[str, ...]
    shared: tuple[str, ...]


def swept(
    nodes: Sequence[Node], types: Mapping[str, TensorType], results: Sequence[str]
) -> Swept | None:
    """Return the rows of nodes that fold them along, and across them; None for other nodes.

    Along are the axes with the last one, across are all others.  No row depends on what is folded
    across rows.
    """
    found = dict[str, Rows]()
    for n in (n for n in nodes if OPS[n.op].kind is Kind.REDUCTION):
        rows = folded(n, types)
        if rows is None:
            return None
        found[n.results[0]] = rows
    ends = [r for r in found.values() if len(r.shape) - 1 in r.axes]
    if not ends:
        return None
    along = ends[0]
    outer = tuple(a for a in range(len(along.shape)) if a not in along.axes)
    crossing = {r for r, x in found.items() if (x.shape, x.axes) == (along.shape, outer)}
    above, below = list[Node](), list[Node]()
    late = set[str]()
    for n in nodes:
        after = n.results[0] in crossing or not late.isdisjoint(n.args)
        late |= {*n.results} if after else set()
        (below if after else above).append(n)
    rows = more_rows(along, above, types) if crossing else None
    across = tuple(r for r in results if r in late)
    if rows is None or any(_folds_again(n, crossing, late) for n in below):
        return None
    if any(rows.at(r, types[r].shape) is None for r in results if r not in late):
        return None
    if any(dims.mul(*types[r].shape) != rows.length for r in across):
        return None
    return Swept(rows, across, tuple(_shared(below, above, rows)))


def _folds_again(n: Node, crossing: Collection[str], late: Collection[str]) -> bool:
    """Return whether a node folds what was folded across rows, or is no part of such a kernel."""
    match OPS[n.op].kind:
        case Kind.REDUCTION:
            return n.results[0] not in crossing or n.args[0] in late
        case Kind.OPAQUE:
            return True
        case _:
            return False


def _shared(below: Sequence[Node], above: Sequence[Node], rows: Rows) -> Iterator[str]:
    """Yield the values of whole rows that nodes need, in the order of the rows' nodes."""
    made = {r: n for n in above for r in n.results}
    todo, seen = [a for n in below for a in n.args], set[str]()
    while todo:
        value = todo.pop()
        if value in made and value not in seen:
            seen.add(value)
            if rows.along.get(value) is not Along.ROW:
                todo += made[value].args
    yield from (r for r in made if r in seen and rows.along.get(r) is Along.ROW)
