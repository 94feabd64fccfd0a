"""The small functions of wrappers and launches do what they should, and slips are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from didyma.codegen.runtime import externs, geometry
from didyma.codegen.runtime.didyma_runtime import checks, dtypes, maps, rows
from didyma.fuzz.allocator import pieces
from didyma.fuzz.domains.plans import Plans


@pytest.mark.parametrize("judge", pieces.JUDGES)
def test_what_is_drawn_is_right(judge: Callable[[Random], Iterator[str]]) -> None:
    assert [w for n in range(200) for w in judge(Random(n))] == []


def nothing(*_: object) -> None:
    return


def first(given: Any, *_: object) -> Any:
    return given


def one(*_: object) -> int:
    return 1


def unpacked(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)


@pytest.mark.parametrize(
    ("where", "name", "slip"),
    [
        (dtypes, "to_memory", unpacked),
        (dtypes, "nbytes_of", one),
        (dtypes, "strided", first),
        (dtypes, "checked", first),
        (rows, "lent", nothing),
        (rows, "pitch", one),
        (rows, "stride", nothing),
        (maps, "starts", one),
        (maps, "encoded", nothing),
        (checks, "arrays", first),
        (checks, "flat", first),
        (checks, "taken", list),
        (checks, "require_finite", nothing),
        (checks, "strict", nothing),
        (checks, "solve", one),
        (checks, "size", nothing),
        (checks, "in_range", nothing),
        (checks, "equal", nothing),
        (checks, "floormod", one),
        (geometry, "_demand_room", nothing),
        (geometry, "_binary", one),
        (geometry, "_compare", one),
        (geometry, "check_buffers", nothing),
        (externs, "results", tuple),
    ],
)
def test_a_slip_is_found(
    where: object, name: str, slip: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, slip)
    outcomes = (Plans(("texts",)).outcome(seed) for seed in range(100))
    assert "pieces" in {f.level for o in outcomes for f in o.findings}
