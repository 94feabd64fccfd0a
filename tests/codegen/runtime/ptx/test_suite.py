"""A sample of the suite: right kernels are clean, and planted faults are found.

The whole, with headers of CUDA and all schedules: ``python -m tests.bench.sanitizing``.
"""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.registry import probe
from tests.codegen.runtime.ptx.suite import Variant, variants

SAMPLE = [v for v in variants() if not v.needs_headers]


@pytest.fixture(autouse=True)
def _nvrtc() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")


@pytest.mark.parametrize("variant", SAMPLE, ids=lambda v: v.name)
def test_the_verdict_of_a_kernel_is_right(variant: Variant) -> None:
    done = variant.judged(schedules=1)
    assert variant.right(done), done.findings
