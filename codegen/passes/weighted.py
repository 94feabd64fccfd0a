"""Join a product with those that its weights are computed of, as the gradients of attention are.

``weights @ value``, where the weights are made of one or two other products by elementwise ops, is
two or three kernels that store a number for each pair of a row and a column.  As one function it is
the same kernels, or one that stores none of these.  Several such products may have weights in
common: each function then computes its own, or two are one function, of which one sum has weights
that are made of the first product of the other's alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.decisions import Heard
from didyma.codegen.passes.attended import are_elementwise, dependent, products
from didyma.codegen.passes.attention import (
    NARROW,
    PIECE,
    joined,
    moved,
    unsuited,
)
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.places import cheap, needed, without_unread
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType

WEIGHTED = "join a product with those of which its weights are computed"
PAIRED = "compute two weighted sums together, whose weights have a product in common"
WIDTHS = range(64, 129, PIECE)  # of operands of which four warps hold two sums
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
    return made if between and are_elementwise(defs, between) else None


def between_products(defs: Mapping[str, Node], w: Weighted) -> set[str]:
    """Return the values that weights are computed of and that depend on one of the products."""
    found = (dependent(defs, w.weight, n.results[0]) for n in w.products)
    return set[str]().union(*found)


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    heard: Heard,
    *,
    pairs: bool = False,
) -> list[FusionGroup]:
    """Join the groups that compute weighted sums; ``results`` are values that are stored anyhow.

    What they store on the way must be read by such groups alone.  With ``pairs``, two sums that
    have a product in common are computed together, where four warps hold both in registers.
    """
    found, plans, readers = _planned(groups, results, types)
    absorbed, used, places, made = set[int](), set[int](), cheap(groups, types), [*groups]
    taken = dict(_pairs(groups, {i: found[i] for i in plans}, types)) if pairs else {}
    for i in plans.keys() - {*taken.values()}:
        heard(WEIGHTED, groups[i].writes[0])
        both = [i, *(taken[k] for k in taken if k == i)]
        inner = set[int]().union(*(plans[k] for k in both))
        order = sorted(inner, key=lambda j: groups[j].at[-1])
        moves = moved(groups, {*inner, *both}, readers, results)
        used |= (again := needed(groups, {*inner, *both, *moves}, places))
        last = groups[i]
        for k in both[1:]:
            heard(PAIRED, groups[k].writes[0])
            last = _both(last, groups[k])
        made[i] = joined([groups[j] for j in order], last, [groups[j] for j in moves | again])
        absorbed |= inner | moves | {*both[1:]}
    kept = [g for i, g in enumerate(made) if i not in absorbed]
    return without_unread(kept, results, [groups[j] for j in used])


def serving(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    besides: Collection[int],
) -> set[int]:
    """Return the groups that weighted sums join, if groups ``besides`` read nothing of them."""
    _, plans, _ = _planned(groups, results, types, besides)
    return set[int]().union(*plans.values())


def _planned(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    besides: Collection[int] = (),
) -> tuple[dict[int, Weighted], dict[int, set[int]], dict[str, set[int]]]:
    """Return weighted sums by their groups, the groups that each joins, and who reads a value.

    Groups ``besides`` count as no readers.
    """
    defs = {r: n for g in groups for n in g.nodes for r in n.results}
    stored = [w for g in groups for w in g.writes]
    readers: dict[str, set[int]] = {}
    plans: dict[int, set[int]] = {}
    found: dict[int, Weighted] = {}
    for i, g in enumerate(groups):
        for a in g.reads if i not in besides else ():
            readers.setdefault(a, set()).add(i)
        for n in g.nodes if not (g.call or g.view or g.stages) else ():
            own = _without_lines(defs, stored, types, n)
            w = weighted(own, types, n)
            if w is None or unsuited(defs, types, w.products, *w.output.args):
                continue
            found[i] = w
            between = between_products(own, w)
            plans[i] = {j for j, h in enumerate(groups) if not between.isdisjoint(h.writes)} - {i}
    while bad := {
        i
        for i, inner in plans.items()
        if any(not _serves(j, groups[j], plans, readers, results) for j in inner)
    }:
        plans = {i: inner for i, inner in plans.items() if i not in bad}
    return found, plans, readers


def _without_lines(
    defs: Mapping[str, Node], stored: Sequence[str], types: Mapping[str, TensorType], output: Node
) -> Mapping[str, Node]:
    """Return what values are made of, but for stored ones of another shape than a sum's weights.

    A weight reads them as it reads an operand, such as the logarithm of a row's sum, though they
    may be computed of the same product.
    """
    if output.op != "matmul":
        return {}
    shape = types[output.args[0]].shape
    lines = {w for w in stored if types[w].shape != shape}
    return {name: n for name, n in defs.items() if name not in lines}


def _pairs(
    groups: Sequence[FusionGroup], sums: Mapping[int, Weighted], types: Mapping[str, TensorType]
) -> Iterator[tuple[int, int]]:
    """Yield groups with two sums, of which the second has the first product of the first alone.

    Their results and operands have one shape each, and neither is computed of the other.
    """
    left = {*sums}
    writer = {w: i for i, g in enumerate(groups) for w in g.writes}
    for i, j in itertools.permutations(sums, 2):
        one, other = sums[i], sums[j]
        read = [types[a] for n in (*one.products, one.output, other.output) for a in n.args]
        narrow = all(t.dtype in NARROW for t in read)
        shapes = {types[w].shape for k in (i, j) for w in groups[k].writes}
        widths = {types[n.args[0]].shape[-1] for n in one.products} | {s[-1] for s in shapes}
        given = {tuple(types[a].shape for a in x.output.args) for x in (one, other)}
        alike = len(shapes) == len(given) == 1
        shared = len(one.products) == MOST and other.products == one.products[:1]
        apart = {i, j} <= left and not any(_needs(groups, writer, *x) for x in ((i, j), (j, i)))
        if narrow and alike and shared and apart and all(n in WIDTHS for n in widths):
            left -= {i, j}
            yield i, j


def _needs(groups: Sequence[FusionGroup], writer: Mapping[str, int], i: int, j: int) -> bool:
    """Return whether a group is computed of what another stores."""
    todo, seen = [i], set[int]()
    while todo:
        new = {writer[a] for a in groups[todo.pop()].reads if a in writer} - seen
        seen |= new
        todo += new
    return j in seen


def _both(one: FusionGroup, other: FusionGroup) -> FusionGroup:
    """Return the group that stores what two do."""
    nodes = {i: n for g in (one, other) for i, n in zip(g.at, g.nodes, strict=True)}
    at = tuple(sorted(nodes))
    reads = tuple(dict.fromkeys((*one.reads, *other.reads)))
    return FusionGroup(
        at, tuple(nodes[i] for i in at), reads, (*one.writes, *other.writes),
        after=one.after | other.after,
    )  # fmt: skip


def _serves(
    j: int,
    g: FusionGroup,
    plans: Mapping[int, set[int]],
    readers: Mapping[str, set[int]],
    results: frozenset[str],
) -> bool:
    """Return whether group ``j`` is a kernel that stores one value, for weighted sums alone.

    Each sum that reads it, or of which a product or weight does, must compute it itself.
    """
    if g.stages or len(g.writes) != 1 or g.writes[0] in results:
        return False
    reading, taking = readers.get(g.writes[0], set[int]()), set[int]()
    for i, inner in plans.items():
        if not reading.isdisjoint(own := {i, *inner}):
            if j not in inner:
                return False
            taking |= own
    return not reading - taking
