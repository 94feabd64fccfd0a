"""Values of places: which of them a kernel that joins products computes anew with each score.

How far a key is from a query, or whether the query sees it, is computed of their places alone.
Stored, it is an array of queries and keys, which is read with each score of each head.  A cheap one
needs no array, however many kernels compute it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from didyma.codegen.passes.cost import weight
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.values import kind
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Shape, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Work

HEADS = 24  # what takes as long as a load from an array of queries and keys of each head
PAIRS = 10  # likewise from one that heads share, which is read from a cache
LINES = 6  # likewise from an array of queries or of keys, which is small
SHORT = ("add", "subtract", "multiply", "negative", "cast")  # what templates multiply out


def cheap(groups: Sequence[FusionGroup], types: Mapping[str, TensorType]) -> frozenset[int]:
    """Return the groups whose value is computed with each score in less time than it is read.

    It is made of indices, of arrays that have no element for each pair of a query and a key, and of
    other such values, whose costs count, too.
    """
    writer = {w: i for i, g in enumerate(groups) for w in g.writes}
    costs = dict[int, int]()
    for i in sorted(range(len(groups)), key=lambda i: groups[i].at[-1]):  # first what others read
        g = groups[i]
        if not _is_computed(g, types):
            continue
        read = [(types[a].shape, writer.get(a, -1)) for a in g.reads]
        if any(j not in costs and (g.view or _of_pairs(shape)) for shape, j in read):
            continue
        cost = _cost(g.nodes) + sum(costs.get(j, 0) for _, j in read)
        if cost <= _most(types[g.writes[0]].shape):
            costs[i] = cost
    return frozenset(costs)


def needed(
    groups: Sequence[FusionGroup], every: Collection[int], among: Collection[int]
) -> set[int]:
    """Return the groups ``among`` some whose values others read, directly or by one another."""
    writer = {w: i for i in among for w in groups[i].writes}
    found, todo = set[int](), [*every]
    while todo:
        new = {writer[a] for a in groups[todo.pop()].reads if a in writer} - {*every} - found
        found |= new
        todo += new
    return found


def without_unread(
    groups: Sequence[FusionGroup], results: frozenset[str], cheap: Collection[FusionGroup]
) -> list[FusionGroup]:
    """Return groups without the ``cheap`` ones among them whose value nothing reads any more."""
    places, kept, read = {g.at for g in cheap}, list[FusionGroup](), {*results}
    for g in sorted(groups, key=lambda g: g.at[-1], reverse=True):  # readers of a value come first
        if g.at not in places or not read.isdisjoint(g.writes):
            kept.append(g)
            read.update(g.reads)
    return kept[::-1]


def _is_computed(g: FusionGroup, types: Mapping[str, TensorType]) -> bool:
    """Return whether a group computes one value without loads at addresses that are loaded.

    It may show one with more or fewer axes of one element.
    """
    if g.view:
        shapes = [types[a].shape for a in (*g.reads, *g.writes)]
        return len({tuple(d for d in s if d != 1) for s in shapes}) == 1
    if not g.pointwise or len(g.writes) > 1:
        return False
    return all(OPS[n.op].work is not Work.LOOKUP for n in g.nodes)


def _of_pairs(shape: Shape) -> bool:
    """Return whether an array has an element for each pair of a query and a key.

    >>> [_of_pairs(s) for s in [(8, 8), (2, 8, 8), (2, 8, 1), (2, 1, 8), (8,)]]
    [True, True, False, False, False]
    """
    return len(shape) > 1 and 1 not in shape[-2:]


def _most(shape: Shape) -> int:
    """Return the cost at which an array of a shape is computed as fast as it is read.

    >>> [_most(s) for s in [(4, 8, 8), (1, 8, 8), (4, 8, 1)]]
    [24, 10, 6]
    """
    if not _of_pairs(shape):
        return LINES
    return PAIRS if all(d == 1 for d in shape[:-2]) else HEADS


def _cost(nodes: Sequence[Node]) -> int:
    """Return what nodes cost with each score: nothing if they move, or are computed for a head.

    A quotient by a constant costs as much as a product where all are part of a polynomial.
    """
    each = [n for n in nodes if kind(n) is Kind.ELEMENTWISE]
    each = [n for n in each if any(d != 1 for d in n.types[0].shape[-2:])]
    constants = {r for n in nodes if n.op == "constant" for r in n.results}
    short = all(n.op in SHORT or (n.op == "divide" and n.args[1] in constants) for n in each)
    return len(each) if short else sum(map(weight, each))
