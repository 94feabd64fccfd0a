"""Make a case that shows a disagreement smaller, on the graph itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fuzz.graphs import Case
from refimpl.ir import dims
from refimpl.ir.graph import Function, Module, Node, Param


def shrink(case: Case, still: Callable[[Case], bool], end: float) -> Case:
    """Return the smallest case found that ``still`` shows it; stop at ``end``, a monotonic time."""
    while True:
        for smaller in candidates(case):
            if time.monotonic() > end:
                return case
            if still(smaller):
                case = smaller
                break
        else:
            return case


def candidates(case: Case) -> Iterator[Case]:
    """Yield smaller cases: one result alone, an inner value as the result, a node made an input."""
    f = case.module.entry
    if case.without:
        yield replace(case, without=())
    if case.planner:
        yield replace(case, planner="")
    if len(f.results) > 1:
        for r in f.results:
            yield _pruned(case, f.params, f.nodes, (r,), case.seeds)
    for n in f.nodes[:-1]:
        smaller = _pruned(case, f.params, f.nodes, n.results, case.seeds)
        if len(smaller.module.entry.nodes) < len(f.nodes):
            yield smaller
    for i, n in enumerate(f.nodes):
        made = tuple(Param(r, t) for r, t in zip(n.results, n.types, strict=True))
        nodes = f.nodes[:i] + f.nodes[i + 1 :]
        seeds = (*case.seeds, *range(i + 1, i + 1 + len(made)))
        if nodes and not set(n.results) & set(f.results):
            yield _pruned(case, (*f.params, *made), nodes, f.results, seeds)


def _pruned(
    case: Case,
    params: Sequence[Param],
    nodes: Sequence[Node],
    results: Sequence[str],
    seeds: Sequence[int],
) -> Case:
    """Return a case of what the results need, and nothing else."""
    f = case.module.entry
    live = set(results)
    kept: list[Node] = []
    for n in reversed(nodes):
        if live & set(n.results):
            kept.append(n)
            live.update(n.args)
    inputs = [(p, s) for p, s in zip(params, seeds, strict=True) if p.name in live]
    main = Function(
        f.name, tuple(p for p, _ in inputs), tuple(reversed(kept)), tuple(results), f.attrs
    )
    told = dims.free(d for p, _ in inputs for d in p.type.shape)
    return Case(
        Module((main,), tuple(v for v in case.module.dims if v.name in told)),
        tuple((name, n) for name, n in case.env if name in told),
        tuple(s for _, s in inputs),
        case.without,
        case.planner,
    )
