"""How long a compile plans."""

from __future__ import annotations

import pytest

from didyma.codegen.memory import peak
from didyma.codegen.memory.arena import lower_bound, solve
from didyma.codegen.options import MemoryOptions, Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.allocator.traces import arena
from didyma.refimpl.errors import DidymaError
from tests.codegen.make import Graph


def test_a_compile_may_be_given_seconds_to_plan() -> None:
    g = Graph()
    x = g("exp", g.param("x", 64))
    m = g.module(g("sin", g("matmul", g("reshape", x, shape=(8, 8)), g.param("y", 8, 8))))
    quick, slow = (compile(m, Options(memory=MemoryOptions(plan_seconds=n))) for n in (0, 1.5))
    assert peak(quick.program, {}) == peak(slow.program, {}) == peak(compile(m).program, {})
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(DidymaError, match="bad-option"):
            Options(memory=MemoryOptions(plan_seconds=wrong))


def test_a_brief_search_ends_soon() -> None:
    hard = next(p for p in (arena(seed, 300) for seed in range(60)) if p.count > 190)
    brief, whole = solve(hard, brief=True), solve(hard)
    assert lower_bound(hard) <= whole.peak <= brief.peak
    assert brief.peak <= solve(hard, "greedy_by_size").peak
