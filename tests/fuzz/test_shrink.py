"""Cases shrink to what still shows a finding, through branches and loops too."""

from __future__ import annotations

import random
import time

from fuzz.graphs import BYTES, Case, decode
from fuzz.shrink import candidates, shrink
from refimpl.interp import graph
from refimpl.verify.graph import verify


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


def test_what_a_body_holds_is_found_without_the_loop() -> None:
    (case,) = [c for c in drawn("cumulative_sum", 30) if "while" in ops(c)][:1]
    small = shrink(case, lambda c: "cumulative_sum" in ops(c), time.monotonic() + 20)
    assert ops(small) == ["cumulative_sum"] or len(ops(small)) <= 3
