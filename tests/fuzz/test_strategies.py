"""Strategies for the property tests of others: what they draw runs, prints and shrinks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import NoSuchExample

import didyma as dd
from didyma.codegen.memory.arena import solve
from didyma.codegen.memory.trace import parse
from didyma.oracle import placement_check
from didyma.refimpl.ir.graph import CONTROL
from didyma.refimpl.ir.program import Place
from didyma.refimpl.verify import graph
from didyma.refimpl.verify import program as laws
from didyma.strategies import (
    Drawn,
    Scheduled,
    Trace,
    cases,
    graphs,
    plans,
    programs,
    shapes,
    traces,
    values,
)

few = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@few
@given(cases())
def test_compiled_programs_stay_inside_their_bars(drawn: Drawn) -> None:
    results = dd.compile(drawn.program, engine="host")(*drawn.inputs)
    assert dd.interpret(drawn.program, *drawn.inputs).contains(results)


@few
@given(cases(control_flow=True))
def test_there_is_something_to_compare(drawn: Drawn) -> None:
    assert any(a.size for a in dd.interpret(drawn.program, *drawn.inputs).values)


@few
@given(graphs(control_flow=True))
def test_programs_are_valid_and_survive_their_text(program: dd.Program) -> None:
    graph.verify(program.module)
    assert program.module.entry.params


def test_what_fails_shrinks_to_one_node_and_prints_as_a_graph() -> None:
    small = find(
        cases(), lambda c: any(n.op == "add" for n in c.program.module.entry.nodes),
        settings=settings(few, max_examples=300),
    )  # fmt: skip
    nodes = small.program.module.entry.nodes
    assert [n.op for n in nodes if n.op != "constant"] == ["add"]
    assert len(nodes) <= 2
    assert "add(" in repr(small)
    assert "p0: " in repr(small)


def test_without_control_flow_there_is_one_function() -> None:
    with pytest.raises(NoSuchExample):
        find(graphs(), lambda p: any(n.op in CONTROL for n in p.module.entry.nodes), settings=few)


@few
@given(plans(lines=10))
def test_plans_keep_the_laws_and_print(drawn: Scheduled) -> None:
    laws.verify(drawn.program)
    assert repr(drawn).startswith("program @")


@few
@given(programs(lines=10))
def test_programs_have_no_plan_yet(drawn: Scheduled) -> None:
    assert not any(isinstance(line, Place) for line in drawn.program.lines)


@few
@given(traces(buffers=8))
def test_a_trace_prints_as_one_and_can_be_placed(drawn: Trace) -> None:
    assert parse(repr(drawn)).size.tolist() == drawn.problem.size.tolist()
    p, found = drawn.problem, solve(drawn.problem, "greedy_by_size")
    rows = (x.tolist() for x in (p.lower, p.upper, p.size, found.offsets))
    assert placement_check.check(*rows, peak=found.peak) == []


def test_what_fails_shrinks_in_shape_and_value() -> None:
    shape = find(shapes(), lambda s: len(s) > 1 and max(s) > 32, settings=few)
    assert sorted(shape) == [1, 33]
    x = find(
        values("f32", shapes(min_rank=1)), lambda x: bool(np.isinf(x).any()),
        settings=settings(few, max_examples=100),
    )  # fmt: skip
    assert x.size == 1
    small = find(traces(), lambda t: t.problem.size.sum() > 100, settings=few)
    assert repr(small) == "id,lower,upper,size\n0,0,0,101"
    with pytest.raises(dd.DidymaError, match="unknown-dtype"):
        values("float")
