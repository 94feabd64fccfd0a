"""A sample of ``tests.bench.deletions``: each barrier of two small templates is missed."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.registry import engine
from tests.bench.deletions import CASES, deleted


@pytest.mark.parametrize("name", ["tiled_gemm", "fma_gemm"])
def test_no_line_that_orders_can_be_deleted(name: str) -> None:
    found = [*deleted(CASES[name], [engine("simt")])]
    assert found
    assert [d for d in found if not d.found] == []
