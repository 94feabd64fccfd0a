"""Random programs give the same bits wherever their inputs lie, and a wrong place is found."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from didyma.codegen.layouts import module
from didyma.codegen.layouts.layout import Layout, Span
from didyma.fuzz import layouts
from didyma.fuzz.domains.graphs import LAID, Graphs
from didyma.refimpl.ir.graph import Param


def test_arrays_are_laid_in_every_way() -> None:
    rng, ways = Random(0), set[str]()
    for _ in range(200):
        a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
        root, view = layouts.laid(a, rng)
        assert np.array_equal(view, a)
        if (found := layouts.place(root, view)) is not None:
            spans = found[0].layout
            ways |= {"turned"} if [s.axis for s in spans] != [0, 1, 2] else {"in order"}
            ways |= {"part" for s in spans if s.size} | {"from" for s in spans if s.start}
            ways |= {"step" for s in spans if s.step > 1} | {"whole" for s in spans if s.is_whole}
    assert ways == {"turned", "in order", "part", "from", "step", "whole"}


def test_a_part_that_begins_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Graphs(("host",))
    cases = [domain.draw(3, i) for i in range(2, 160, LAID)]
    assert all(case.laid for case in cases)
    usual: Any = module._view  # pyright: ignore[reportPrivateUsage] - a fault is planted

    def shifted(base: Param, wanted: object, layout: Layout, names: object) -> object:
        return usual(base, wanted, tuple(Span(s.axis, s.size, 0, s.step) for s in layout), names)

    with monkeypatch.context() as planted:
        planted.setattr(module, "_view", shifted)
        case, found = next((c, f) for c in cases for f in domain.judge()(c).findings)
    assert found.level == layouts.NAME
    judge = domain.judge()
    assert not any(f for right in (*cases[:8], case) for f in judge(right).findings)
