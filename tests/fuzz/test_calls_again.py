"""Compiled programs are called again with other sizes, and forget the call before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.runtime import didyma_runtime as rt
from didyma.codegen.runtime.geometry import Geometries, Geometry
from didyma.fuzz import calls_again
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.refusals import refused
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Param
from didyma.refimpl.ir.types import DType, TensorType


def test_other_sizes_are_less_and_more() -> None:
    declared = [DimVar("n", 0, 40), DimVar("m", 3, 3), DimVar("r", 0, 9)]
    found = list(calls_again.other_sizes(declared, {"n": 5, "m": 3}, 12))
    assert found == [{"n": 2, "m": 3}, {"n": 11, "m": 3}]
    assert list(calls_again.other_sizes(declared[1:2], {"m": 3}, 12)) == []


def test_what_is_kept_of_the_first_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Graphs(("host",))
    cases = [domain.draw(2, i) for i in range(1, 80, 3)]
    assert all(case.again for case in cases)
    usual, kept = Geometries.__call__, dict[Geometries, Geometry]()

    def first(self: Geometries, dims: dict[str, int]) -> Geometry:
        now = usual(self, dims)
        was = kept.setdefault(self, now)
        x, y, z = map(min, was.grid, now.grid)  # a larger grid would write out of bounds
        return replace(now, grid=(x, y, z))

    with monkeypatch.context() as planted:
        planted.setattr(Geometries, "__call__", first)
        found = ((c, f) for c in cases for f in domain.judge()(c).findings)
        case = next(c for c, f in found if f.level == calls_again.NAME)
    judge = domain.judge()
    assert not any(f for right in (*cases[:8], case) for f in judge(right).findings)


def test_only_sizes_that_other_axes_tell_are_refused() -> None:
    n, m = symbol("n"), symbol("m")
    shapes = ((n, 3), (n,), (dims.add(n, m), m))
    params = [Param(f"x{i}", TensorType(DType.F32, s)) for i, s in enumerate(shapes)]
    found = list(refused(params, [np.zeros(s, np.float32) for s in ((5, 3), (5,), (7, 2))]))
    assert [tuple(a.shape for a in given) for _, given in found] == [
        ((6, 3), (5,), (7, 2)), ((5, 4), (5,), (7, 2)), ((5, 3, 1), (5,), (7, 2)),
        ((5, 3), (6,), (7, 2)), ((5, 3), (5, 1), (7, 2)),
        ((5, 3), (5,), (8, 2)), ((5, 3), (5,), (7, 2, 1)), ((5, 3), (5,)),
    ]  # fmt: skip


def test_a_size_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Graphs(("host",))
    case = domain.draw(2, 1)
    assert any(p.type.rank for p in case.module.entry.params)

    def unchecked(*_: object) -> None: ...

    monkeypatch.setattr(rt, "size", unchecked)
    (found,) = domain.judge()(case).findings
    assert found.level == calls_again.NAME
    assert found.message.endswith("is one longer")
