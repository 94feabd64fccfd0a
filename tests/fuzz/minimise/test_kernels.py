"""Loop programs shrink to what two ways of running them still do differently."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule import schedule
from didyma.fuzz.executor import InlineExecutor
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.kernels import LEVEL, difference, of_finding, runner
from didyma.fuzz.minimise.loops import parts, smaller
from didyma.fuzz.minimise.run import minimise
from didyma.oracle.report import Finding
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import Binary, Expr, PrimFunc, Stmt
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt
from didyma.refimpl.verify.loop import verify

TEXT = """module {
  func @main(%x: i32[3, 5], %y: i32[3, 5]) -> (%c) {
    %a = maximum(%x, %y) : i32[3, 5]
    %b = subtract(%a, %y) : i32[3, 5]
    %c = sum(%b, axes=(1,), keepdims=false) : i32[3]
  }
}"""


def case() -> Case:
    values = np.arange(15, dtype=np.int32).reshape(3, 5)
    given = (("x", Tensor.of(values)), ("y", Tensor.of(values * 7 % 11)))
    return Case(parse_module(TEXT), (), (1, 2), given=given)


def minimum(e: Expr) -> Expr:
    """Take the minimum in the place of a maximum."""
    e = map_expr(minimum, e)
    return replace(e, op="min") if isinstance(e, Binary) and e.op == "max" else e


def wrong(f: PrimFunc, options: Options) -> tuple[PrimFunc, ...]:
    """Schedule a function that computes minima for maxima."""

    def everywhere(s: Stmt) -> Stmt:
        return map_stmt(s, minimum, everywhere)

    return schedule(replace(f, body=everywhere(f.body)), options)


def test_changes_are_lawful_and_leave_something_out() -> None:
    made = compile(case().module)
    functions = [*made.loops.values(), *(loops(k) for ks in made.kernels.values() for k in ks)]
    for f in functions:
        found = list(smaller(f))
        assert len(found) > 20
        for g in found:
            verify(g)
            assert g != f


def test_the_term_that_is_scheduled_wrongly_is_left() -> None:
    finding = Finding(LEVEL, "fused_maximum_subtract_sum_0", "value", "")
    with mock.patch("didyma.fuzz.minimise.kernels.schedule", wrong):
        sought = of_finding(case(), finding)
        assert sought is not None
        domain, whole = sought
        m = minimise(domain, whole, 60.0, executor=InlineExecutor())
    assert m.example is not None
    small: PrimFunc = m.example.case.function
    ops = [e.op for s in [small.body] for e in exprs(s) if isinstance(e, Binary)]
    assert ops == ["max"]
    assert parts(small) < 16 < parts(whole.function)
    assert m.example.finding.kind == "value"


@pytest.mark.parametrize("level", [LEVEL, "host"])
def test_what_agrees_has_no_kernel_at_fault(level: str) -> None:
    (name,) = compile(case().module).loops
    assert of_finding(case(), Finding(level, name, "value", "")) is None
    assert of_finding(case(), Finding("plan", "line 1", "plan", "")) is None


def test_a_program_that_is_undefined_itself_is_no_evidence() -> None:
    finding = Finding(LEVEL, "fused_maximum_subtract_sum_0", "value", "")
    with mock.patch("didyma.fuzz.minimise.kernels.schedule", wrong):
        sought = of_finding(case(), finding)
    assert sought is not None
    _, whole = sought
    few = tuple((name, Tensor.of(t.array()[:2])) for name, t in whole.inputs)
    params = tuple(replace(p, shape=(2, 5)) if p.name in dict(few) else p for p in
                   whole.function.params)  # fmt: skip
    past = replace(whole, function=replace(whole.function, params=params), inputs=few)
    assert difference(past, runner(LEVEL, Options())) is None, "it reads out of bounds"
