"""Planners of memory, on traces of known sizes and on buffers of symbolic ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import Problem, loads, lower_bound, orders, solve
from didyma.codegen.memory.arena.canonical import HEURISTICS
from didyma.codegen.memory.arena.fit import Fit, ways
from didyma.codegen.memory.arena.outward import outward
from didyma.codegen.memory.arena.problem import FREE, tight_bound
from didyma.codegen.memory.arena.search import Infeasible, OutOfNodes, PlacementSearch
from didyma.codegen.memory.symbolic import SymbolicBuffer, SymbolicPlan, plan
from didyma.fuzz.allocator.domains import QUICK
from didyma.fuzz.readings.told import Told, said
from didyma.refimpl.ir.text import parse_module

PLANNERS = (*QUICK, "hill_climb", "canonical", "didyma")
FITS: Sequence[Fit] = ("best", "first", "top")
STEPS = 300  # of a search for a placement


def arena(text: str, told: Told) -> Iterator[str]:
    """Place the buffers of a trace by planners, and in each way that a placement is computed."""
    p = trace.parse(text, capacity=told.get("capacity"))
    yield f"{lower_bound(p)} {tight_bound(p)} {[x.tolist() for x in loads(p)]} {trace.show(p)}"
    for name in PLANNERS:
        yield said(partial(_placed, p, name))
    real = p.pick(np.flatnonzero((p.size > 0) & (p.upper > p.lower)))
    if not real.count:
        return
    yield str(outward(real))
    for turns, fit in product((orders.by_size(real), orders.by_start(real)), FITS):
        is_fixed = real.fixed[turns] != FREE
        order = np.concatenate([turns[is_fixed], turns[~is_fixed]])
        yield str({way: at.tolist() for way, at in ways(real, order, fit).items()})
    capacity = told.get("capacity") or lower_bound(p)
    yield from (_searched(PlacementSearch(real, capacity, by(real))) for by in HEURISTICS)


def _placed(p: Problem, planner: str) -> str:
    return trace.show(p, solve(p, planner).offsets)


def _searched(search: PlacementSearch) -> str:
    """Return what a search finds, and after how many steps."""
    try:
        return f"{search.run(STEPS, None).tolist()} after {search.nodes}"
    except OutOfNodes:
        return f"nothing after {search.nodes}"
    except Infeasible as e:
        return f"none for {e.core.tolist()} after {search.nodes}"


def symbolic(text: str, told: Told) -> Iterator[str]:
    """Plan buffers whose sizes are those of the parameters of the function of a module."""
    m = parse_module(text)
    rows = zip(m.entry.params, told["lives"], strict=True)
    buffers = [SymbolicBuffer(p.name, p.type.nbytes, *life) for p, life in rows]
    p = plan(buffers, m.dims, told.get("alignment", 16), told.get("k", 2), moves=20)
    yield f"{p.orientations} {p.certificate} {p.scales} {p.most_terms}\n{p.code}"
    for env in ({v.name: v.lo for v in m.dims}, {v.name: v.hi for v in m.dims}):
        yield from (said(partial(_at, p, e)) for e in (env, {k: n + 1 for k, n in env.items()}))
    yield str([p.offsets(k) for k in range(len(p.orientations))])


def _at(p: SymbolicPlan, env: Mapping[str, int]) -> str:
    return str(p.place(env))
