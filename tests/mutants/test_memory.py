"""Planted faults of memory planners are found; every class of bug has one."""

from __future__ import annotations

import pytest

from tests.mutants.memory.fault import Fault, hunt
from tests.mutants.memory.page import faults

CLASSES = range(1, 16)


def test_every_class_of_bug_is_planted_under_a_name_of_its_own() -> None:
    every = faults()
    assert {f.number for f in every} == set(CLASSES)
    assert len({f.name for f in every}) == len(every)


@pytest.mark.parametrize("fault", faults(), ids=lambda f: f.name)
def test_a_fault_is_found(fault: Fault) -> None:
    h = hunt(fault, 1)
    assert not h.missed, f"no check reported it in {h.took} programs"
