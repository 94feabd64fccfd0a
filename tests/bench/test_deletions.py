"""A sample of ``tests.bench.deletions``: each barrier of two small templates is missed."""

from __future__ import annotations

import pytest

from tests.bench.deletions import is_found, judges, orders


@pytest.mark.parametrize("name", ["tiled_gemm", "fma_gemm"])
def test_no_line_that_orders_can_be_deleted(name: str) -> None:
    rows = [*orders(judges(name)[0])]
    assert rows
    assert [d for d in rows if not is_found(name, d, ["simt"])] == []
