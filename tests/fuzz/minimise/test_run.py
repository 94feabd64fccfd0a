"""A case is minimised in all its dimensions, and keeps the signature of what it shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.groups import cause
from didyma.fuzz.minimise.run import Minimised, minimise
from didyma.oracle.report import Finding
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import DType


def right(case: Case) -> None:
    """Find nothing."""


@dataclass(frozen=True, slots=True)
class Wrong(Graphs):
    """Graphs of which a function says what is found."""

    verdict: Callable[[Case], Finding | None] = right

    def judge(self) -> Callable[[Case], Outcome]:  # type: ignore[override]  # no GraphJudge
        """Say what the verdict is."""
        return self.outcome

    def outcome(self, case: Case) -> Outcome:
        """Return the verdict as an outcome."""
        found = self.verdict(case)
        return Outcome((found,) if found else (), size=len(case.module.entry.nodes))


WRONG = Finding("host", "fused_0", "value", "got 1, want 2")


def ops(case: Case) -> list[str]:
    return [n.op for f in case.module.functions for n in f.nodes]


def needs_fusion_and_a_wide_axis(case: Case) -> Finding | None:
    """Say that a sum over at least three elements, one of them a NaN, is wrong when it is fused."""
    if not case.options(Options()).graph.fuse:
        return None
    f = case.module.entry
    for n in f.nodes:
        if n.op == "sum":
            x = graph.values(f, case.module, case.inputs(), dict(case.env))[n.args[0]]
            if x.ndim and max(x.shape) >= 3 and x.dtype.kind == "f" and np.isnan(x).any():
                return WRONG
    return None


def fickle(whole: Case, case: Case) -> Finding | None:
    """Say the same of the whole graph, and another thing of smaller ones."""
    found = needs_fusion_and_a_wide_axis(case)
    return found and (found if ops(case) == ops(whole) else Finding("plan", "line 1", "plan", ""))


def only(whole: Case, case: Case) -> Finding | None:
    """Say that one case is wrong, and no other."""
    return WRONG if case == whole else None


def first(verdict: Callable[[Case], Finding | None]) -> Case:
    cases = (decode(random.Random(seed).randbytes(BYTES)) for seed in range(10**6))
    return next(c for c in cases if len(ops(c)) > 8 and verdict(c))


def minimised(case: Case, verdict: Callable[[Case], Finding | None], seconds: float) -> Minimised:
    return minimise(Wrong(("host",), verdict=verdict), case, seconds, executor=InlineExecutor())


def test_graph_options_types_and_values_become_as_small_as_still_fail() -> None:
    case = first(needs_fusion_and_a_wide_axis)
    m = minimised(case, needs_fusion_and_a_wide_axis, 60.0)
    assert m.example is not None
    small: Case = m.example.case
    assert ops(small) == ["sum"]
    (x,) = small.inputs()
    assert sorted(x.shape) == [*[1] * (x.ndim - 1), 3], "three elements and no more"
    assert np.isnan(x).sum() == 1 or small.given[0][1].shape == (), "one NaN, or NaN everywhere"
    assert small.module.entry.params[0].type.dtype is DType.F32
    options = small.options(Options())
    assert (options.graph.simplify, options.graph.fuse) == (False, True)
    assert not options.kernels.vectorise
    assert options.memory.planner_name == "none"
    assert cause(m.example.finding) == cause(WRONG)
    assert m.judged > 10


def test_another_signature_is_not_what_is_sought() -> None:
    case = first(needs_fusion_and_a_wide_axis)

    m = minimised(case, partial(fickle, case), 20.0)
    assert m.example is not None
    assert ops(m.example.case) == ops(case)
    assert m.example.finding.level == "host"


def test_a_case_that_agrees_has_nothing_to_minimise() -> None:
    m = minimised(decode(bytes(BYTES)), right, 1.0)
    assert m == Minimised(None, 1, m.seconds)


def test_the_best_so_far_is_kept_when_time_is_over() -> None:
    case = first(needs_fusion_and_a_wide_axis)
    m = minimised(case, needs_fusion_and_a_wide_axis, 0.0)
    assert m.example is not None
    assert m.example.case == case
    assert m.judged == 1


@pytest.mark.parametrize("seed", range(3))
def test_what_is_minimal_stays(seed: int) -> None:
    case = decode(random.Random(seed).randbytes(BYTES))
    m = minimised(case, partial(only, case), 5.0)
    assert m.example is not None
    assert m.example.case == case
