"""Strategies for the property tests of others: what they draw runs, prints and shrinks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import NoSuchExample

import didyma as dd
from didyma.refimpl.ir.graph import CONTROL
from didyma.refimpl.verify import graph
from didyma.strategies import Drawn, cases, graphs

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
