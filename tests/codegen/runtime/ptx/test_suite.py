"""A sample of the suites: right kernels are clean, and planted faults are found.

The whole, with headers of CUDA and all schedules: ``python -m tests.bench.sanitizing``, and
``python -m tests.bench.families``.
"""

from __future__ import annotations

import pytest

from tests.bench.families import FOLDER, members
from tests.codegen.runtime.ptx.suite import Variant, variants

pytestmark = pytest.mark.usefixtures("ptx")

SAMPLE = [v for v in variants() if not v.needs_headers]


@pytest.mark.parametrize("variant", SAMPLE, ids=lambda v: v.name)
def test_the_verdict_of_a_kernel_is_right(variant: Variant) -> None:
    done = variant.judged(schedules=1)
    assert variant.right(done), done.findings


@pytest.mark.parametrize("family", sorted(p.stem for p in FOLDER.glob("*.cu")))
def test_the_first_of_a_family_is_right_and_its_last_fault_is_found(family: str) -> None:
    first = next(members(family))
    faulty = [m for m in members(family) if m.name.startswith(f"{first.name}:")]
    for member in (first, faulty[-1]):
        done = member.judged(schedules=1)
        assert member.right(done), (member.name, done.findings)
