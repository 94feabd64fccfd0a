"""Join a product with those that its weights are computed of, as the gradients of attention are.

``weights @ value``, where the weights are made of one or two other products by elementwise ops, is
two or three kernels that store a number for each pair of a row and a column.  As one function it is
the same kernels, or one that stores none of these.  Several such products may have weights in
common: each function then computes its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.decisions import Heard
from didyma.codegen.passes.attention import counted, dependent, joined, moved, products
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.values import kind
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops.spec import Kind

WEIGHTED = "join a product with those of which its weights are computed"
MOST = 2  # products of which weights are computed


@dataclass(frozen=True, slots=True)
class Weighted:
    """The nodes of a weighted sum: the products in their order, the weights, and the sum."""

    products: tuple[Node, ...]
    weight: str
    output: Node


def weighted(
    defs: Mapping[str, Node], types: Mapping[str, TensorType], output: Node
) -> Weighted | None:
    """Return the weighted sum that a node is; None if it is none.

    It has batches.  Weights depend on the elements of products at their own place alone.
    """
    if output.op != "matmul" or types[output.results[0]].rank < 3:
        return None
    weight = output.args[0]
    found = {n.results: n for n in products(defs, types, weight)}
    shape = types[weight].shape
    if not 0 < len(found) <= MOST or types[output.results[0]].shape[:-1] != shape[:-1]:
        return None
    made = Weighted(tuple(n for n in defs.values() if n.results in found), weight, output)
    between = between_products(defs, made) - {r for n in made.products for r in n.results}
    elementwise = all(
        types[name].shape == shape and kind(defs[name]) is Kind.ELEMENTWISE for name in between
    )
    return made if between and elementwise else None


def between_products(defs: Mapping[str, Node], w: Weighted) -> set[str]:
    """Return the values that weights are computed of and that depend on one of the products."""
    found = (dependent(defs, w.weight, n.results[0]) for n in w.products)
    return set[str]().union(*found)


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    heard: Heard,
) -> list[FusionGroup]:
    """Join the groups that compute weighted sums; ``results`` are values that are stored anyhow.

    What they store on the way must be read by such groups alone.
    """
    defs = {r: n for g in groups for n in g.nodes for r in n.results}
    readers: dict[str, set[int]] = {}
    plans: dict[int, set[int]] = {}
    for i, g in enumerate(groups):
        for a in g.reads:
            readers.setdefault(a, set()).add(i)
        sums = (weighted(defs, types, n) for n in g.nodes if not (g.call or g.view or g.stages))
        for w in filter(None, sums):
            between = between_products(defs, w)
            plans[i] = {j for j, h in enumerate(groups) if not between.isdisjoint(h.writes)} - {i}
    while bad := {
        i
        for i, inner in plans.items()
        if not inner or any(not _serves(groups[j], plans, readers, results) for j in inner)
    }:
        plans = {i: inner for i, inner in plans.items() if i not in bad}
    every = {*plans, *set[int]().union(*plans.values())}
    absorbed = counted(groups, every, readers, results)
    of_indices, made = {*absorbed}, [*groups]
    for i, inner in plans.items():
        heard(WEIGHTED, groups[i].writes[0])
        order = sorted(inner, key=lambda j: groups[j].at[-1])
        moves = {j for j in of_indices if readers[groups[j].writes[0]] & {*inner, i}}
        moves |= moved(groups, {*inner, i}, readers, results)
        made[i] = joined([groups[j] for j in order], groups[i], [groups[j] for j in moves])
        absorbed |= inner | moves
    return [g for i, g in enumerate(made) if i not in absorbed]


def _serves(
    g: FusionGroup,
    plans: Mapping[int, set[int]],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> bool:
    """Return whether a group is a kernel that stores one value, for weighted sums alone."""
    if g.call or g.view or g.binds or g.stages or len(g.writes) != 1 or g.writes[0] in results:
        return False
    return readers.get(g.writes[0], set()) <= {*plans, *set[int]().union(*plans.values())}
