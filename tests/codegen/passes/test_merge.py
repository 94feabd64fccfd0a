"""Which kernels may merge, and paths between them against a search of all paths in drawn graphs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from didyma.codegen.options import Options
from didyma.codegen.passes.groups import FusionGroup
from didyma.codegen.passes.merge import GroupGraph
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType, TensorType

TYPE = TensorType(DType.F32, (4,))


def drawn(rng: random.Random, count: int) -> GroupGraph:
    """Return a graph of kernels, each of which reads up to three values from those before it."""
    graph = GroupGraph({f"v{i}": TYPE for i in range(count)}, Options())
    for i in range(count):
        reads = sorted({f"v{rng.randrange(max(0, i - 9), i)}" for _ in range(min(i, 3))})
        node = Node((f"v{i}",), "add", tuple(reads), (TYPE,))
        graph.add(FusionGroup((i,), (node,), tuple(reads), (f"v{i}",), pointwise=True))
    return graph


def read_from(graph: GroupGraph) -> dict[int, set[int]]:
    """Return the groups that each group reads from, found from what their nodes say."""
    writer = {r: i for i, g in graph.groups.items() for n in g.nodes for r in n.results}
    return {i: {writer[x] for n in g.nodes for x in n.args} - {i} for i, g in graph.groups.items()}


def leads_through_a_third(near: dict[int, set[int]], start: int, end: int) -> bool:
    todo, seen = [k for k in near[start] if k != end], set[int]()
    while todo:
        k = todo.pop()
        if k == end:
            return True
        if k not in seen:
            seen.add(k)
            todo += near[k]
    return False


@pytest.mark.parametrize("seed", range(12))
def test_paths_are_found_after_any_merges(seed: int) -> None:
    rng = random.Random(seed)
    graph = drawn(rng, 40)
    merged, refused = 0, 0
    while len(graph.groups) > 10 and refused < 200:
        i, j = sorted(rng.sample(sorted(graph.groups), 2))
        near = read_from(graph)
        third = leads_through_a_third(near, i, j) or leads_through_a_third(near, j, i)
        assert graph.between(i, j) == third
        if third:
            refused += 1
            continue
        graph.join(i, j)
        merged += 1
        near = read_from(graph)
        assert graph.needs == near
        assert all(graph.place[k] < graph.place[x] for x in near for k in near[x])
    assert merged > 10
    assert refused


def pair(
    a: dict[str, Any], b: dict[str, Any], options: Options, shape: tuple[int, ...]
) -> GroupGraph:
    """Return two additions to one parameter, the results of the second of a shape."""
    types = {"p": TYPE, "a": TYPE, "c": TYPE, "b": TensorType(DType.F32, shape)}
    graph = GroupGraph(types, options)
    for i, (name, changes) in enumerate((("a", a), ("b", b))):
        node = Node((name,), "add", ("p", "p"), (types[name],))
        graph.add(replace(FusionGroup((i,), (node,), ("p",), (name,), pointwise=True), **changes))
    return graph


NEXT = Node(("c",), "exp", ("p",), (TYPE,))


@pytest.mark.parametrize(
    ("a", "b", "options", "fits"),
    [
        ({}, {}, {}, True),
        ({"pointwise": False}, {}, {}, False),
        ({}, {"shape": (5,)}, {}, False),
        ({}, {}, {"outputs": 2}, True),
        ({}, {}, {"outputs": 1}, False),
        ({"writes": ("a", "c")}, {}, {"outputs": 2}, False),
        ({}, {"writes": ("b", "c")}, {"outputs": 2}, False),
        ({}, {}, {"kernel_cost": 2}, True),
        ({}, {}, {"kernel_cost": 1}, False),
        ({"nodes": (NEXT, NEXT)}, {"nodes": (NEXT,)}, {"kernel_cost": 24}, True),
        ({"nodes": (NEXT, NEXT)}, {"nodes": (NEXT,)}, {"kernel_cost": 23}, False),
        ({}, {"reads": ("a", "p"), "aligned": frozenset("a")}, {}, True),
        ({}, {"reads": ("a", "p"), "aligned": frozenset("p")}, {}, False),
    ],
)
def test_kernels_fit_into_one(
    a: dict[str, Any], b: dict[str, Any], options: dict[str, int], fits: bool
) -> None:
    b = dict(b)
    shape = b.pop("shape", TYPE.shape)
    chosen = Options().changed({f"graph.{name}": n for name, n in options.items()})
    assert pair(a, b, chosen, shape).fits(0, 1) is fits
