"""Engines report the faults of kernels that do wrong, and no others."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from tests.mutants.faulty import KERNELS, REFUSALS, Faulty, not_refused, wrong


@pytest.fixture(scope="module", params=["host", "simt"])
def device(request: pytest.FixtureRequest) -> Engine:
    return engine(str(request.param))


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_an_engine_reports_the_fault_of_a_kernel(device: Engine, k: Faulty) -> None:
    assert wrong(device, k) == ""


@pytest.mark.parametrize(("code", "name", "sizes"), REFUSALS)
def test_an_engine_refuses_a_wrong_launch(
    device: Engine, code: str, name: str, sizes: tuple[int, ...]
) -> None:
    assert not_refused(device, code, name, sizes) == ""
