"""Join kernels that fold the same rows with what stands between and after the folds.

A softmax is a maximum, a sum and a quotient: three kernels that read each row of the operand.  As
one kernel they read it once, and the values between them are never stored.  XLA and TorchInductor
call the result a persistent reduction, where a row stays in registers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from didyma.codegen.decisions import Heard
from didyma.codegen.lower.rows import Rows, rows_of
from didyma.codegen.options import Options
from didyma.codegen.passes import cost
from didyma.codegen.passes.groups import FusionGroup, in_order
from didyma.codegen.passes.merge import GroupGraph
from didyma.refimpl.ir.types import TensorType

JOINED = "join folds of the same rows"
LONG = 1 << 12  # terms from which on a row wants many rows beside it
MANY = 64


def join(
    groups: Sequence[FusionGroup],
    results: frozenset[str],
    types: Mapping[str, TensorType],
    options: Options,
    heard: Heard,
) -> list[FusionGroup]:
    """Join groups of the same rows, of which one reads what the other writes or both fold.

    They must share an array of the size of what is folded, which is then read once.  No third group
    may lie on a path between two that are joined.  ``results`` are values that are stored anyhow.
    """
    todo = GroupGraph(types, options)
    for g in in_order(groups):
        todo.add(g)
    for i in range(len(groups)):
        while (found := _partner(todo, i, results)) is not None:
            heard(JOINED, todo.groups[found].writes[0])
            todo.join(i, found)
            g = todo.groups[i]
            writes = tuple(w for w in g.writes if _is_wanted(todo, (i,), w, results))
            todo.groups[i] = replace(g, writes=writes, pointwise=False, aligned=frozenset())
    return list(todo.groups.values())


def _partner(todo: GroupGraph, i: int, results: frozenset[str]) -> int | None:
    """Return a group that can be joined to one, the first in order."""
    g = todo.groups.get(i)
    if g is None or g.pointwise or g.call or g.view:
        return None
    rows = rows_of(g.nodes, todo.types)
    if rows is None or _is_long(rows):
        return None
    near = {j for a in (*g.reads, *g.writes) for j in todo.readers.get(a, ())}
    near |= {todo.writer[a] for a in g.reads if a in todo.writer}
    fit = (j for j in sorted(near - {i}) if _fits(todo, i, j, rows, results))
    return next(fit, None)


def _fits(todo: GroupGraph, i: int, j: int, rows: Rows, results: frozenset[str]) -> bool:
    a, b = todo.groups[i], todo.groups.get(j)
    if b is None or b.call or b.view:
        return False
    nodes = (*a.nodes, *b.nodes)
    if rows_of(nodes, todo.types) != rows or not all(
        todo.types[w].shape in (rows.shape, rows.kept, rows.dropped) for w in (*a.writes, *b.writes)
    ):
        return False
    if b.pointwise and set(a.writes).isdisjoint(b.reads):
        return False
    wanted = sum(_is_wanted(todo, (i, j), w, results) for w in (*a.writes, *b.writes))
    most = todo.options.graph
    if wanted > most.outputs or sum(map(cost.weight, nodes)) > most.kernel_cost:
        return False
    shared = {*a.reads, *a.writes} & {*b.reads, *b.writes}
    return any(todo.types[x].shape == rows.shape for x in shared) and not todo.between(i, j)


def _is_wanted(
    todo: GroupGraph, inside: tuple[int, ...], value: str, results: frozenset[str]
) -> bool:
    """Return whether a value is read by groups other than these, or is a result."""
    readers = todo.readers.get(value, ())
    return value in results or any(k not in inside and k in todo.groups for k in readers)


def _is_long(rows: Rows) -> bool:
    """Return whether rows are so long and so few that a block each leaves a device idle."""
    length = math.prod(d for a in rows.axes if isinstance(d := rows.shape[a], int))
    known = [d for d in rows.dropped if isinstance(d, int)]
    return length >= LONG and len(known) == len(rows.dropped) and math.prod(known) < MANY
