"""The state machine over memory planning, and random programs: sound plans pass every check."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings

from codegen.memory import PLANNERS
from fuzz.allocator import judge
from fuzz.allocator.machine import MemoryMachine, planned
from fuzz.allocator.programs import Shape, program
from refimpl.verify.program import verify

TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_plans_of_random_programs_are_sound(name: str, symbolic: bool) -> None:
    for seed in range(12):
        bare = program(seed, Shape(symbolic=symbolic))
        plan = planned(bare, name)
        verify(plan)
        for env in judge.bindings(bare.dims, Random(seed)):
            assert judge.static(bare, plan, env) == []
            assert judge.run(bare, plan, env, seed) == []
