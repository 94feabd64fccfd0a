"""Cases shrink to what still shows a finding, through branches and loops too."""

from __future__ import annotations

import random
import time

from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.shrink import candidates, shrink
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify.graph import verify


def ops(case: Case) -> list[str]:
    """Ops of all functions."""
    return [n.op for f in case.module.functions for n in f.nodes]


def drawn(op: str, count: int) -> list[Case]:
    """Cases with an op."""
    rng = random.Random(5)
    found: list[Case] = []
    while len(found) < count:
        case = decode(rng.randbytes(BYTES))
        if op in ops(case):
            found.append(case)
    return found


def test_candidates_are_valid_and_run() -> None:
    for op in ("if", "while", "scan", "bind", "call"):
        (case,) = drawn(op, 1)
        for i, smaller in enumerate(candidates(case)):
            verify(smaller.module)
            if i % 5 == 0:
                graph.run(smaller.module, smaller.inputs())


def test_a_loop_is_cut_down_to_itself() -> None:
    for case in drawn("while", 2):
        small = shrink(case, lambda c: "while" in ops(c), time.monotonic() + 20)
        assert "while" in ops(small)
        assert len(ops(small)) <= 8  # the loop, its test, its count, the limit and the first count
        assert len(ops(small)) < len(ops(case))


LOOP = """module {
  func @test(%i: i64[], %x: f32[4], %k: i64[]) -> (%c) {
    %c = less(%i, %k) : bool[]
  }
  func @body(%i: i64[], %x: f32[4], %k: i64[]) -> (%j, %z) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
    %y = cumulative_sum(%x, axis=0, exclusive=false, reverse=false) : f32[4]
    %z = negative(%y) : f32[4]
  }
  func @main(%x: f32[4], %p: f32[4]) -> (%y, %e) {
    %i = constant(value=i64[] 0) : i64[]
    %k = constant(value=i64[] 3) : i64[]
    %e = exp(%p) : f32[4]
    %j, %y = while(%i, %x, %k, binds=(), body="body", carried=2, cond="test") : i64[], f32[4]
  }
}"""


def test_what_a_body_holds_is_found_without_the_loop() -> None:
    case = Case(parse_module(LOOP), (), (1, 2))
    small = shrink(case, lambda c: "cumulative_sum" in ops(c), time.monotonic() + 20)
    assert ops(small) == ["cumulative_sum"]
    assert len(small.seeds) == len(small.module.entry.params) == 1


KEPT = (
    LOOP.replace("(%y, %e) {", "(%y, %e) attrs(NoInline=1) {").replace("@main", "@kept")[:-1]
    + """
  func @main(%x: f32[4], %p: f32[4]) -> (%y, %b) {
    %y, %e = call @kept(%x, %p) : f32[4], f32[4]
    %a, %b = call @kept(%y, %e) : f32[4], f32[4]
  }
}"""
)


def test_functions_that_stay_give_way() -> None:
    case = Case(parse_module(KEPT), (), (1, 2))
    assert all(smaller != case for smaller in candidates(case))
    small = shrink(case, lambda c: "cumulative_sum" in ops(c), time.monotonic() + 20)
    assert ops(small) == ["cumulative_sum"]
