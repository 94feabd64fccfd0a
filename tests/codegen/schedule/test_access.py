"""Shapes whose kernels left multiprocessors idle, or scattered their accesses, and do no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.types import DType
from tests.bench.access import (
    Case,
    Function,
    Launch,
    Reached,
    argmaxes,
    drawn,
    norms,
    reached,
    softmaxes,
    sums,
    transposes,
    without_means,
)

SM_90A = Options(target="sm_90a")
F64, F32, BF16, F16 = DType.F64, DType.F32, DType.BF16, DType.F16


@pytest.mark.parametrize(
    ("function", "axis", "dtype", "shape", "passes", "spread"),
    [
        # a column of few is long: all blocks fold it once; 32 of two bytes begin between sectors
        (norms, 0, F32, (20_000, 64), 1.5, 1.3),
        (softmaxes, 0, BF16, (10_000, 200), 1.5, 1.4),
        (without_means, 0, F32, (1551, 1174), 2.0, 1.3),
        # short rows: threads side by side, with an access each
        (sums, 1, F32, (140_000, 8), 1.0, 1.3),
        (argmaxes, 1, F32, (140_000, 8), 1.0, 1.3),
        (softmaxes, 1, F64, (70_000, 8), 1.0, 1.3),
        # short columns: more threads than a column each
        (sums, 0, F64, (71, 6451), 1.0, 1.3),
        # a narrow side: every thread moves elements of the tile
        (transposes, 0, BF16, (13, 100_000), 1.0, 1.3),
        (transposes, 0, F32, (100_000, 3), 1.0, 1.3),
    ],
)
def test_every_multiprocessor_has_work_and_accesses_are_whole(
    function: Callable[[int], Function], axis: int, dtype: DType, shape: tuple[int, int],
    passes: float, spread: float,
) -> None:  # fmt: skip
    found = reached(Case("", function(axis), dtype, shape, passes=passes))
    assert found.faults == []
    assert all(x.spread < spread for x in found.launches)


def test_an_open_length_may_be_great() -> None:
    compiled = compile(Case("", norms(0), F32, (1, 64), is_open=True).program().module, SM_90A)
    schedules = [dict(k.attrs)["schedule"] for k in compiled.program.kernels]
    assert schedules.count("reduce_split") == 2


def test_each_fault_is_seen() -> None:
    case = Case("", transposes(0), F16, (4, 4))
    launches = (
        Launch("a", 2, 4e6, 1.0),
        Launch("b", 200, 4e6, 8.0),
        Launch("c", 200, 1e6, 1.0),
    )
    assert Reached(case, launches, 8_000_000).faults == [
        "a is idle: 2 blocks", "b is scattered: 8.00", "repeated: 1.12",
    ]  # fmt: skip


def test_a_seed_draws_the_same_program_again() -> None:
    first, again = drawn(5), drawn(5)
    assert str(first) == str(again) != str(drawn(6))
    assert first.program().module.entry.params == again.program().module.entry.params
