"""What all tests have in common: Python looks for cyclic garbage seldom."""

from __future__ import annotations

import gc

import pytest

from didyma.codegen.runtime.registry import probe


@pytest.fixture
def ptx() -> None:
    """Skip the test where engine ``ptx`` cannot run, and say why."""
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")


def pytest_configure() -> None:
    """Look for garbage in cycles, of which tests leave little, once per 20,000 new objects.

    And seldom among all, of which modules and collected tests are a large part that stays.
    """
    gc.set_threshold(20_000, 20, 50)
