"""Cases shrink to what still shows a finding, through branches and loops too."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import islice

import numpy as np

from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.minimise.graph import candidates, cut_out, shrink
from didyma.fuzz.minimise.sizes import shrink_sizes, smaller_sizes
from didyma.fuzz.minimise.values import shrink_values
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import control
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Tensor
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


Shrinker = Callable[[Case], Generator[Case, bool, None]]


def shrunk(
    shrinker: Shrinker, case: Case, still: Callable[[Case], bool], seconds: float = 60
) -> Case:
    """Return the smallest case of a shrinker's that still shows something."""
    steps, end = shrinker(case), time.monotonic() + seconds
    try:
        smaller = next(steps)
        while time.monotonic() < end:
            if shows := still(smaller):
                case = smaller
            smaller = steps.send(shows)
    except StopIteration:
        pass
    return case


def test_candidates_are_valid_and_run() -> None:
    for op in ("if", "while", "scan", "bind", "call"):
        (case,) = drawn(op, 1)
        for i, smaller in enumerate(candidates(case)):
            verify(smaller.module)
            if i % 5 == 0:
                graph.run(smaller.module, smaller.inputs())


def test_smaller_cases_are_judged_as_the_case_is() -> None:
    (case,) = drawn("add", 1)
    case = replace(case, ring=True, again=True, laid=True, quick=True, alone=True)
    for shrinker in (shrink, cut_out):
        c = next(shrinker(case))
        assert (c.ring, c.again, c.laid, c.quick, c.alone) == (True,) * 5


def test_a_loop_is_cut_down_to_itself() -> None:
    for case in drawn("while", 2):
        small = shrunk(shrink, case, lambda c: "while" in ops(c), 20)
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
    small = shrunk(shrink, case, lambda c: "cumulative_sum" in ops(c), 20)
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
    small = shrunk(shrink, case, lambda c: "cumulative_sum" in ops(c), 20)
    assert ops(small) == ["cumulative_sum"]


ROUND = """module {
  dims n in [1, 8]
  func @kept(%x: f32[2, n], %p: f32[2, n]) -> (%m, %m) attrs(NoInline=1) {
    %a = reshape(%x, shape=(2*n,)) : f32[2*n]
    %b = exp(%a) : f32[2*n]
    %c = reshape(%b, shape=(2, n)) : f32[2, n]
    %m = maximum(%c, %p) : f32[2, n]
  }
  func @main(%x: f32[2, n], %p: f32[2, n]) -> (%y) {
    %y, %z = call @kept(%x, %p) : f32[2, n], f32[2, n]
  }
}"""


def test_a_way_there_and_back_gives_way_at_once() -> None:
    case = Case(parse_module(ROUND), (("n", 3),), (1, 2))
    small = shrunk(shrink, case, lambda c: {"call", "maximum"} <= set(ops(c)), 20)
    assert sorted(ops(small)) == ["call", "maximum"]


CHAIN = """module {
  func @main(%x: f32[2, 3]) -> (%d) {
    %c = constant(value=f32[1] [-4.0]) : f32[1]
    %a = sqrt(%c) : f32[1]
    %b = add(%x, %a) : f32[2, 3]
    %d = maximum(%b, %x) : f32[2, 3]
  }
}"""


def test_nodes_above_the_fault_become_inputs_of_their_values() -> None:
    def still(case: Case) -> bool:
        (y,) = graph.run(case.module, case.inputs())
        return "maximum" in ops(case) and bool(np.isnan(y).any())

    case = Case(parse_module(CHAIN), (), (1,))
    small = shrunk(cut_out, case, still)
    assert ops(small) == ["maximum"]
    assert np.isnan(dict(small.given)["b"].array()).all(), "the square root of -4 plus something"
    assert shrunk(shrink, case, lambda _: False) == case


SIZES = """module {
  dims n in [2, 9]
  func @main(%x: f32[n, 8], %w: f32[8, 5]) -> (%y) {
    %z = matmul(%x, %w) : f32[n, 5]
    %c = constant(value=f32[5] [1.0, 2.0, 3.0, 4.0, 5.0]) : f32[5]
    %y = add(%z, %c) : f32[n, 5]
  }
}"""


def test_sizes_become_as_small_as_they_may() -> None:
    case = Case(parse_module(SIZES), (("n", 7),), (3, 4))
    small = shrunk(shrink_sizes, case, lambda _: True)
    shapes = [a.shape for a in small.inputs()]
    assert shapes == [(1, 1), (1, 1)], "the symbol gave way to a number, too"
    assert small.env == ()
    graph.run(small.module, small.inputs())


def test_sizes_that_matter_stay_and_so_do_values() -> None:
    case = Case(parse_module(SIZES), (("n", 7),), (3, 4))
    last = case.inputs()[1][-1, -1]

    def still(c: Case) -> bool:
        w = c.inputs()[1]
        return w.shape[0] >= 3 and bool((w == last).any())

    small = shrunk(shrink_sizes, case, still)
    assert [a.shape for a in small.inputs()] == [(1, 3), (3, 1)]
    assert (small.inputs()[1] == last).any()


def test_smaller_sizes_are_valid_and_run() -> None:
    rng = random.Random(11)
    seen = 0
    for _ in range(12):
        case = decode(rng.randbytes(BYTES))
        for i, smaller in enumerate(smaller_sizes(case)):
            verify(smaller.module)
            assert smaller.elements() <= case.elements()
            if i % 16 == 0:
                assert len(smaller.inputs()) == len(smaller.module.entry.params)
                seen += 1
    assert seen > 10


TWO = "module { func @main(%x: f32[40], %k: i8[6]) -> (%y, %k) { %y = exp(%x) : f32[40] } }"


def test_elements_that_do_not_matter_become_0() -> None:
    x = np.random.default_rng(1).standard_normal(40).astype(np.float32)
    x[[7, 33]] = np.nan, 17.625
    given = (("x", Tensor.of(x)), ("k", Tensor.of(np.array([5, -6, 7, 1, 2, 3], np.int8))))
    case = Case(parse_module(TWO), (), (1, 2), given=given)

    def still(c: Case) -> bool:
        x, k = c.inputs()
        return bool(np.isnan(x[7])) and bool(x[33] > 2) and bool((k != 0).all())

    small = shrunk(shrink_values, case, still)
    x, k = small.inputs()
    assert np.isnan(x[7])
    assert x[33] == 20, "one digit is enough"
    assert np.count_nonzero(x) == 2
    assert (k == 1).all()
    assert dict(small.given)["k"].shape == (), "one number fills it"
    assert not shrunk(shrink_values, case, lambda _: True).inputs()[0].any()


def test_inputs_without_elements_are_left_alone() -> None:
    text = "module { func @main(%x: f32[0], %y: f8e8m0[3]) -> (%x, %y) { } }"
    case = Case(parse_module(text), (), (1, 2))
    small = shrunk(shrink_values, case, lambda _: False)
    assert small == case


def test_inputs_of_smaller_cases_have_sizes_that_the_case_binds() -> None:
    drawn = (decode(random.Random(seed).randbytes(BYTES)) for seed in range(170))
    bound = [case for case in drawn if control.bound(case.module)]
    assert len(bound) > 10
    for case in bound:
        for smaller in islice(candidates(case), 40):
            smaller.inputs()

        def reject(smaller: Case) -> bool:
            smaller.inputs()
            return False

        shrunk(cut_out, case, reject, 2)
