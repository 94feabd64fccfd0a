"""The state machine over memory planning, and random programs: sound plans pass every check."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings

from didyma.fuzz.allocator.domains import every
from didyma.fuzz.allocator.functions import outlined
from didyma.fuzz.allocator.kernels import movers
from didyma.fuzz.allocator.machine import NAMES, MemoryMachine, planned
from didyma.fuzz.allocator.programs import mixed, program
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Call, Launch, Wait
from didyma.refimpl.verify.program import verify

TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("name", NAMES)
def test_plans_of_programs_with_functions_are_sound(name: str) -> None:
    calls = 0
    for seed in range(20):
        bare = outlined(program(seed, mixed(seed)), seed)
        plan = planned(bare, name)
        verify(plan)
        calls += len(plan.functions)
        assert every(bare, plan, seed, run=True) == []
    assert calls > 20


@pytest.mark.parametrize("seed", [331606181, 331608909])
def test_calls_keep_the_order_of_work_on_streams(seed: int) -> None:
    bare = outlined(program(seed, mixed(seed)), seed)
    assert every(bare, planned(bare, "none"), seed, run=True) == []


def test_launches_share_kernels_and_move_bytes() -> None:
    launches = kernels = calls = functions = moving = shown = streams = 0
    for seed in range(60):
        bare = outlined(program(seed, mixed(seed)), seed)
        plan = planned(bare, "linear_scan")
        assert every(bare, plan, seed, run=seed % 4 == 0) == []
        lines = list(walk(bare.lines))
        of = [x.kernel for x in lines if isinstance(x, Launch)]
        calls += sum(isinstance(x, Call) for x in lines)
        streams += sum(isinstance(a, Wait) and isinstance(b, Call) for a, b in pairwise(lines))
        launches, kernels = launches + len(of), kernels + len({*of})
        functions += len(bare.functions)
        moves = movers(bare)
        left = [x.kernel for x in walk(plan.lines) if isinstance(x, Launch)]
        moving += sum(k in moves for k in of)
        shown += sum(k in moves for k in of) - sum(k in moves for k in left)
    assert kernels < 0.95 * launches, "some kernels are launched again"
    assert functions < 0.95 * calls, "some functions are called twice"
    assert streams > 5, "launches of other streams become calls"
    assert moving > 10
    assert shown > 3, "plans made some of the moves views"


@pytest.mark.parametrize("name", NAMES)
def test_plans_of_random_programs_are_sound(name: str) -> None:
    for seed in range(20):
        bare = program(seed, mixed(seed))
        plan = planned(bare, name)
        verify(plan)
        assert every(bare, plan, seed, run=True) == []
