"""Folds with several accumulators are taken apart by how their parts merge."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import didyma as dd
from tests.errors.test_codes import says

STEPS = """schedule @fused_argmax_0 {{
  split k0 by {factor}
  rfactor argmax_acc over k0_{part} into best
  bind i0 to blockIdx.x
}}"""


@dd.trace(dd.f32[6, 37])
def positions(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=1)


def rows() -> npt.NDArray[np.float32]:
    x = np.random.default_rng(3).integers(0, 4, (6, 37)).astype(np.float32)
    x[1, 20:] = np.nan
    x[2] = -np.inf
    x[3, 5:] = np.inf
    x[4] = np.nan
    return x


ACROSS = """schedule @fused_argmax_0 {{
  split k0 by {width}
  bind i0 to blockIdx.x
  reduce_across argmax_acc over k0_{part}
}}"""


@pytest.mark.parametrize("engine", ["host", "simt"])
@pytest.mark.parametrize(("part", "width"), [("inner", 8), ("outer", 10), ("inner", 64)])
def test_the_first_of_equal_positions_wins_across_threads(
    part: str, width: int, engine: str
) -> None:
    steps = ACROSS.format(part=part, width=width)
    run = dd.compile(positions, engine=engine, schedules={"fused_argmax_0": steps})
    assert np.array_equal(np.asarray(run(rows())), np.argmax(rows(), axis=1))


@pytest.mark.parametrize("factor", [1, 4, 37, 40])
@pytest.mark.parametrize("part", ["inner", "outer"])
def test_the_first_of_equal_positions_wins(factor: int, part: str) -> None:
    steps = STEPS.format(factor=factor, part=part)
    x = rows()
    run = dd.compile(positions, engine="host", schedules={"fused_argmax_0": steps})
    assert np.array_equal(np.asarray(run(x)), np.argmax(x, axis=1))


def test_a_fold_that_is_loops_already_is_refused() -> None:
    steps = "schedule @fused_argmax_0 {\n  unroll k0\n  rfactor argmax_acc over k0\n}"
    with says("not-a-fold", "argmax_acc"):
        dd.compile(positions, schedules={"fused_argmax_0": steps})


def test_an_accumulator_of_another_name_is_refused() -> None:
    steps = "schedule @fused_argmax_0 {\n  rfactor acc over k0\n}"
    with says("not-a-fold", "no accumulator acc", "argmax_acc_best, argmax_acc"):
        dd.compile(positions, schedules={"fused_argmax_0": steps})
