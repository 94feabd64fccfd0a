"""Join kernels of rows with kernels that fold the same elements across the rows.

The gradients of a norm are computed row by row for its input, and as sums over all rows for its
weight and bias: two kernels that read the same arrays.  As one kernel they read them once: each
block takes several rows, one after another, and keeps its sums in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from didyma.codegen.decisions import Heard
from didyma.codegen.lower.sweep import Swept, swept
from didyma.codegen.options import Options
from didyma.codegen.passes import cost
from didyma.codegen.passes.groups import FusionGroup, in_order
from didyma.codegen.passes.merge import GroupGraph
from didyma.codegen.passes.rows import is_wanted, together
from didyma.codegen.passes.values import kind
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops.spec import Kind

SWEPT = "join a fold across rows with what is computed of each row"
BLOCKS = 4  # least blocks' worth of elements that pay for the parts that blocks leave
HELD = 16  # elements of a row that a thread of the largest block takes at most


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    ranges: dims.Ranges,
    options: Options,
    heard: Heard,
) -> list[FusionGroup]:
    """Join each group that folds across rows with the first one of these rows that it can join.

    Several may join the same rows.  Both must read an array with an element for each of all rows,
    or one what the other computes.  ``results`` are values that are stored anyhow.
    """
    todo = GroupGraph(types, options)
    for g in in_order(groups):
        todo.add(g)
    for j in range(len(groups)):
        for i in _near(todo, j):
            found = _fits(todo, i, j, results, ranges)
            if found is not None:
                heard(SWEPT, todo.groups[j].writes[0])
                inside = {w for k in (i, j) for w in todo.groups[k].writes}
                wanted = {w for w in inside if is_wanted(todo, (i, j), w, results)}
                todo.join(i, j)
                g = todo.groups[i]
                order = (r for n in g.nodes for r in n.results)
                writes = tuple(r for r in order if r in wanted or r in found.shared)
                todo.groups[i] = replace(g, writes=writes, pointwise=False)
                break
    return list(todo.groups.values())


def _near(todo: GroupGraph, j: int) -> list[int]:
    """Return groups that fold and read what a group that folds reads, or write it; in order."""
    g = todo.groups[j]
    if not _folds(g):
        return []
    near = {k for a in g.reads for k in (*todo.readers.get(a, ()), todo.writer.get(a, j))}
    return sorted(k for k in near - {j} if k in todo.groups and _folds(todo.groups[k]))


def _folds(g: FusionGroup) -> bool:
    return any(kind(n) is Kind.REDUCTION for n in g.nodes)


def _fits(
    todo: GroupGraph, i: int, j: int, results: frozenset[str], ranges: dims.Ranges
) -> Swept | None:
    """Return what two groups compute along and across rows; None if they are not to be joined."""
    groups = [todo.groups[k] for k in (i, j)]
    nodes, most = [*together(groups).values()], todo.options.graph
    found = swept(nodes, todo.types, [w for g in groups for w in g.writes])
    before = swept(groups[0].nodes, todo.types, groups[0].writes)
    swept_before = frozenset[str]() if before is None else {*before.across}
    if found is None or {*found.across} != {*groups[1].writes} | swept_before:
        return None
    kept = {w for w in groups[0].writes if is_wanted(todo, (i, j), w, results)} | {*found.shared}
    kept -= swept_before
    dtypes = [todo.types[w].dtype for w in (*kept, *found.across)]
    if any(d.is_packed for d in dtypes):
        return None
    if any((d := todo.types[w].dtype) is not d.compute for w in found.shared):
        return None
    if len(kept) > most.outputs:  # as many as a group may have are across
        return None
    if sum(map(cost.weight, nodes)) > most.kernel_cost or not _pays(todo, i, j, found, ranges):
        return None
    return None if todo.between(i, j) else found


def _pays(todo: GroupGraph, i: int, j: int, found: Swept, ranges: dims.Ranges) -> bool:
    """Return whether one kernel reads less, of rows that are many and that registers hold."""
    rows, options = found.rows, todo.options
    if rows.is_across or not isinstance(rows.length, int):
        return False
    a, b = ({x for x in todo.groups[k].reads if rows.is_whole(todo.types[x].shape)} for k in (i, j))
    again = b & ({*todo.groups[i].writes} | a)
    count = dims.bounds(dims.mul(*rows.dropped), ranges)[1]
    many = count * rows.length >= BLOCKS * options.kernels.split
    return bool(again) and many and rows.length <= HELD * options.device.threads
