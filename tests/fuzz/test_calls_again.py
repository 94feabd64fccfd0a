"""Compiled programs are called again with other sizes, and forget the call before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.codegen.runtime.geometry import Geometries, Geometry
from didyma.fuzz import calls_again
from didyma.fuzz.domains.graphs import Graphs
from didyma.refimpl.ir.dims import DimVar


def test_other_sizes_are_less_and_more() -> None:
    declared = [DimVar("n", 0, 40), DimVar("m", 3, 3), DimVar("r", 0, 9)]
    found = list(calls_again.other_sizes(declared, {"n": 5, "m": 3}, 12))
    assert found == [{"n": 2, "m": 3}, {"n": 11, "m": 3}]
    assert list(calls_again.other_sizes(declared[1:2], {"m": 3}, 12)) == []


def test_what_is_kept_of_the_first_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Graphs(("host",))
    judge, cases = domain.judge(), [domain.draw(2, i) for i in range(1, 80, 3)]
    assert all(case.again for case in cases)
    assert not any(f for case in cases for f in judge(case).findings)
    usual, kept = Geometries.__call__, dict[Geometries, Geometry]()

    def first(self: Geometries, dims: dict[str, int]) -> Geometry:
        now = usual(self, dims)
        was = kept.setdefault(self, now)
        x, y, z = map(min, was.grid, now.grid)  # a larger grid would write out of bounds
        return replace(now, grid=(x, y, z))

    monkeypatch.setattr(Geometries, "__call__", first)
    found = [f for case in cases for f in domain.judge()(case).findings]
    assert calls_again.NAME in {f.level for f in found}
