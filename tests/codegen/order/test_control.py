"""Fused modules with control flow, scheduled and planned: the graph's own results, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from didyma.codegen.lower import lower
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.planners import planner
from didyma.codegen.options import Options
from didyma.codegen.order import order
from didyma.codegen.schedule import schedule
from didyma.oracle import lanes
from didyma.refimpl.interp import graph, program
from didyma.refimpl.ir.graph import PRIMITIVE, Module
from didyma.refimpl.ir.program import Carry, Copy, If, Launch, Line, Program, Repeat, View, While
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import program as laws
from tests.codegen.control.modules import TEXTS, module


def bare(m: Module) -> Program:
    loops = {f.name: lower(f, m) for f in m.functions if PRIMITIVE in f.attr}
    kernels = {name: schedule(f, Options()) for name, f in loops.items()}
    return order(m, loops, kernels)


def inputs(m: Module, n: int) -> list[Array]:
    r = np.random.default_rng(n)
    env = {v.name: max(v.lo, min(v.hi, n)) for v in m.dims}
    shapes = (
        [d if isinstance(d, int) else env[str(d)] for d in p.type.shape] for p in m.entry.params
    )
    return [np.round(r.normal(size=s) * 4).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("name", TEXTS)
def test_planned_programs_mean_what_their_graphs_mean(name: str) -> None:
    m = module(name)
    unplanned = bare(m)
    for how in ("none", "linear_scan", "greedy_by_size", "didyma"):
        p = plan(unplanned, planner(how))
        laws.verify(p)
        assert parse(show(p)) == p
        for n in (0, 1, 5):
            given = inputs(m, n)
            want, got = graph.run(m, given), program.run(p, given, lanes.run)
            assert [a.shape for a in got] == [a.shape for a in want]
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want], (how, n)


def flat(lines: tuple[Line, ...]) -> Iterator[Line]:
    for s in lines:
        yield s
        match s:
            case If(_, then, other):
                yield from flat((*then, *other))
            case While(test, _, body):
                yield from flat((*test, *body))
            case Repeat(_, _, body):
                yield from flat(body)
            case _:
                pass


def count(name: str, kind: type[Line]) -> int:
    return sum(isinstance(s, kind) for s in flat(bare(module(name)).lines))


def test_results_are_written_where_they_are_wanted() -> None:
    assert count("branch", Copy) == 2  # of captures: %y of one branch, %x of the other
    assert count("swap", Copy) == 6  # x and k in, as both are wanted; 3 for the swap; %h to %w
    # a and x in, a in again; %b is a row and a state; three out at the end of a round
    assert count("nested", Copy) == 7
    assert count("nested", View) == 2  # a row of each
    assert count("grows", Carry) == 2
    assert count("grows", Launch) == 8
