"""Wrappers of programs with control flow, on engines: the graph's own results, and nothing held."""

from __future__ import annotations

import pytest

from codegen.emit import cuda, wrapper
from codegen.memory.plan import plan
from codegen.memory.planners import planner
from codegen.runtime.registry import engine
from refimpl.interp import graph
from tests.codegen.control.modules import TEXTS, module
from tests.codegen.control.test_schedule import bare, inputs
from tests.codegen.emit.test_wrapper import Watched


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("where", ["host", "simt"])
def test_engines_run_what_graphs_mean(where: str, name: str) -> None:
    m = module(name)
    unplanned = bare(m)
    for how in ("none", "linear_scan", "didyma"):
        p = plan(unplanned, planner(how))
        call = wrapper.load(wrapper.emit(p, cuda.emit(p.kernels)))
        for n in (0, 1, 5):
            given = inputs(m, n)
            on = Watched(engine(where))
            want, got = graph.run(m, given), call(on, given)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want], (how, n)
            assert [a.shape for a in got] == [a.shape for a in want]
            assert on.held == []
