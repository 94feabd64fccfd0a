"""Join kernels that fold the same rows with what stands between and after the folds.

A softmax is a maximum, a sum and a quotient: three kernels that read each row of the operand.  As
one kernel they read it once, and the values between them are never stored.  XLA and TorchInductor
call the result a persistent reduction, where a row stays in registers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from didyma.codegen.decisions import Heard
from didyma.codegen.lower.rows import Rows, more_rows, picks_one, rows_of
from didyma.codegen.options import Options
from didyma.codegen.passes import cost, shared
from didyma.codegen.passes.groups import FusionGroup, in_order
from didyma.codegen.passes.merge import GroupGraph
from didyma.codegen.passes.row_traffic import RowTraffic
from didyma.codegen.passes.values import kind
from didyma.codegen.schedule.recipes.parted import MANY, are_few
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Function, Node
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops.spec import Kind

JOINED = "join folds of the same rows"
LONG = 1 << 12  # terms from which on a row wants many blocks at work


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    ranges: dims.Ranges,
    options: Options,
    heard: Heard,
    *,
    waits: bool = False,
) -> list[FusionGroup]:
    """Join groups of the same rows, of which one reads what the other writes or both fold.

    That must save traffic: fewer bits if each array is moved once, and no more where registers do
    not hold what several stages of the kernel load; fewer, too, where neighbouring rows lie
    together and the join ``waits`` for others that may read what one of these folds read.  No third
    group may lie on a path between two that are joined.  Few long rows are joined where blocks can
    share them in one pass; where neighbours lie together, that is two folds without what stores
    whole rows.  ``results`` are values that are stored anyhow.
    """
    nodes = (n for g in groups for n in g.nodes if kind(n) is Kind.REDUCTION)
    folded = frozenset(r for n in nodes for r in n.results)
    todo, traffic = GroupGraph(types, options), RowTraffic(types, ranges, options, folded, waits)
    for g in in_order(groups):
        todo.add(g)
    for i in range(len(groups)):
        kernel = _foldings(todo, i, traffic)
        if kernel is None:
            continue
        is_long = _is_long(kernel.rows, traffic)
        grown = todo.copy() if is_long else todo
        joined = _grow(grown, i, kernel, results, traffic)
        if is_long and not (joined and shared.suits(grown.groups[i], kernel.rows, types, options)):
            continue
        todo = grown
        for value in joined:
            heard(JOINED, value)
    return list(todo.groups.values())


def _grow(
    todo: GroupGraph,
    i: int,
    kernel: _RowKernel,
    results: frozenset[str],
    traffic: RowTraffic,
) -> list[str]:
    """Join others to a group as long as there are any; return the first result of each."""
    joined = list[str]()
    while (found := _partner(todo, i, kernel, results, traffic)) is not None:
        j, kernel = found
        joined.append(todo.groups[j].writes[0])
        for k in (*_between(_beyond(todo, i, kernel.rows), j), j):
            todo.join(i, k)
        g = todo.groups[i]
        writes = tuple(w for w in g.writes if is_wanted(todo, (i,), w, results))
        todo.groups[i] = replace(g, writes=writes, pointwise=False)
    return joined


@dataclass(frozen=True, slots=True)
class _RowKernel:
    """A kernel that folds: its nodes by position, their rows and cost.

    ``moved`` are the bits that it moves for each element of a row.
    """

    at: frozenset[int]
    rows: Rows
    weight: int
    moved: int


def picks(f: Function) -> Iterator[str]:
    """Yield the values of a function that are one element of each row, picked by an index."""
    types = f.types()
    return (n.results[0] for n in f.nodes if picks_one(n, types) is not None)


def joined(groups: Sequence[FusionGroup]) -> set[str]:
    """Return the values that are computed in kernels that fold."""
    folding = (g for g in groups if any(kind(n) is Kind.REDUCTION for n in g.nodes))
    return {r for g in folding for n in g.nodes for r in n.results}


def _foldings(todo: GroupGraph, i: int, traffic: RowTraffic) -> _RowKernel | None:
    """Return the kernel of a group to which others may be joined; else None."""
    g = todo.groups.get(i)
    if g is None or g.pointwise or g.call or g.view:
        return None
    rows = rows_of(g.nodes, todo.types)
    if rows is None:
        return None
    weight = sum(map(cost.weight, g.nodes))
    return _RowKernel(frozenset(g.at), rows, weight, traffic.moved(g.nodes, g.writes, rows))


def _partner(
    todo: GroupGraph, i: int, kernel: _RowKernel, results: frozenset[str], traffic: RowTraffic
) -> tuple[int, _RowKernel] | None:
    """Return a group that can be joined to one, the first in order, and the kernel of both."""
    g, rows = todo.groups[i], kernel.rows
    near = set[int]()
    for a in (*g.reads, *g.writes):
        if rows.is_whole(todo.types[a].shape):
            near |= {j for j in (*todo.readers.get(a, ()), todo.writer.get(a, i)) if j != i}
    beyond = [*_beyond(todo, i, rows)]
    near |= {j for _, j in beyond}
    for j in sorted(near - {i}):
        both = _fits(todo, (i, *_between(beyond, j), j), kernel, results, traffic)
        if both is not None:
            return j, both
    return None


def _beyond(todo: GroupGraph, i: int, rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield groups that only read what one group writes, each with those that read it in turn.

    Such a group shows an array in another shape, or computes something of each row as a whole.
    """
    for v in (v for a in todo.groups[i].writes for v in todo.readers.get(a, ())):
        g = todo.groups.get(v)
        if g is None or not (g.view or g.pointwise):
            continue
        if {todo.writer.get(a, i) for a in g.reads} != {i}:
            continue
        if g.view or not any(rows.is_whole(todo.types[a].shape) for a in (*g.reads, *g.writes)):
            yield from ((v, j) for a in g.writes for j in todo.readers.get(a, ()))


def _between(beyond: Iterable[tuple[int, int]], j: int) -> list[int]:
    """Return such groups that another group reads."""
    return [*dict.fromkeys(v for v, k in beyond if k == j)]


def _fits(
    todo: GroupGraph,
    inside: tuple[int, ...],
    kernel: _RowKernel,
    results: frozenset[str],
    traffic: RowTraffic,
) -> _RowKernel | None:
    """Return the kernel of two groups if it moves fewer bytes than both; else None.

    ``inside`` are the two and those between them.
    """
    i, *between, j = inside
    a, b = todo.groups[i], todo.groups.get(j)
    if b is None or b.call or b.view:
        return None
    groups = [a, *(todo.groups[v] for v in between), b]
    written = [w for g in groups for w in g.writes]
    far = kernel.rows.is_across and _is_long(kernel.rows, traffic)
    if b.pointwise and (far or set(written).isdisjoint(b.reads)):
        return None
    wanted = [w for w in written if is_wanted(todo, inside, w, results)]
    if any(todo.types[w].dtype.is_packed for w in wanted):
        return None  # a byte holds elements of several rows
    nodes, limits = together(groups), todo.options.graph
    later = [n for at, n in nodes.items() if at not in kernel.at]
    weight = kernel.weight + sum(map(cost.weight, later))
    if len(wanted) > limits.outputs or weight > limits.kernel_cost:
        return None
    if not {w for g in groups[1:] for w in g.writes}.isdisjoint(a.reads):  # they do not follow it
        rows = rows_of([*nodes.values()], todo.types)
    else:
        rows = more_rows(kernel.rows, later, todo.types)
    if rows is None or not all(rows.at(w, todo.types[w].shape) for w in wanted):
        return None
    if not _saves(groups, wanted, rows, traffic) or todo.between(i, j, between):
        return None
    before = kernel.moved + traffic.moved(b.nodes, b.writes, rows)
    moved = traffic.moved([*nodes.values()], wanted, rows)
    most = before - 1 if rows.is_across and traffic.waits else before
    return _RowKernel(frozenset(nodes), rows, weight, moved) if moved <= most else None


def together(groups: Sequence[FusionGroup]) -> dict[int, Node]:
    """Return the nodes of groups by position, in order; a node of several groups once."""
    nodes = {i: n for g in groups for i, n in zip(g.at, g.nodes, strict=True)}
    return dict(sorted(nodes.items(), key=itemgetter(0)))


def _saves(
    groups: Sequence[FusionGroup], wanted: Sequence[str], rows: Rows, traffic: RowTraffic
) -> bool:
    """Return whether fewer bits are moved by one kernel if each array is moved once.

    Views move nothing.
    """
    written = {w for g in groups for w in g.writes}
    apart = [x for g in groups if not g.view for x in (*g.reads, *g.writes)]
    together = [*({x for g in groups for x in g.reads} - written), *wanted]
    return traffic.once(together, rows) < traffic.once(apart, rows)


def is_wanted(
    todo: GroupGraph, inside: tuple[int, ...], value: str, results: frozenset[str]
) -> bool:
    """Return whether a value is read by groups other than these, or is a result."""
    readers = todo.readers.get(value, ())
    return value in results or any(k not in inside and k in todo.groups for k in readers)


def _is_long(rows: Rows, traffic: RowTraffic) -> bool:
    """Return whether rows are so long and so few that their blocks leave a device idle.

    Blocks of a cluster share a row of known length; but where neighbouring rows lie together, these
    share a block, and an open length may be as great as its bound.
    """
    known = [d for d in rows.dropped if isinstance(d, int)]
    if len(known) < len(rows.dropped):
        return False
    count, target = math.prod(known), traffic.options.device
    if rows.is_across:
        return traffic.most(rows.length) >= LONG and -(-count // target.warp) < MANY
    length = math.prod(d for a in rows.axes if isinstance(d := rows.shape[a], int))
    return length >= LONG and are_few(target, count)
