"""The values of rounds: those of a range that was given lie at its ends, too."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.fuzz.values import Distribution
from didyma.judging import inputs
from didyma.judging.judge import Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.sizes import bindings
from didyma.judging.task import Draw
from tests.didyma.judging.kernels import ADD, SOFTMAX, added, softmax

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
WITHIN = Draw(ranges={"a": (0.0, 1.0), "b": (-1.0, 2.0)}, rounds=12, most=512)


def test_what_is_wrong_at_the_ends_of_a_range_alone_is_wrong_for_ordinary_numbers() -> None:
    text = ADD.replace("+ b[i]", "+ (b[i] == -1 || b[i] == 2 ? 0 : b[i])")
    launch = Launch(grid="cdiv(n, 64)", block="64")
    found = judge(make_task(Source(text, "k.cu"), added.module, launch, draw=WITHIN))
    assert found.outcome is Outcome.WRONG
    assert not found.only_special
    drawn = np.concatenate([inputs.values(found.task, c)[1] for c in found.cases])
    assert (drawn.min(), drawn.max()) == (-1, 2)


def test_short_rows_are_far_below_zero_and_peaks_stand_where_no_size_is_small() -> None:
    sizes = ((9, 9), (1, 2), (40, 3), (70, 70), (2, 5), (30, 2), (1, 900), (20, 20))
    envs = [dict(zip("rn", s, strict=True)) for s in (*sizes, (3, 2))]
    at = {c.kind: tuple(c.env.values()) for c in inputs.cases(softmax.module, envs)}
    assert at[inputs.BELOW] == (30, 2)
    assert at[inputs.PEAK] == (70, 70)


def test_what_has_one_axis_has_both_ends_of_its_range_in_half_of_the_rounds() -> None:
    launch = Launch(grid="cdiv(n, 64)", block="64")
    task = make_task(Source(ADD, "k.cu"), added.module, launch, draw=WITHIN)
    drawn = [inputs.values(task, inputs.Case(k, {"n": 64}, inputs.BELOW))[0] for k in range(16)]
    assert all({0.0, 1.0} <= {*x} for x in drawn[1::2])
    assert any(len({*x}) == 1 for x in drawn[::2])


def test_about_half_of_the_rows_between_zero_and_one_are_negated() -> None:
    task = make_task(Source(SOFTMAX, "k.cu"), softmax.module, Launch("softmax<32>", "r"))
    case = inputs.Case(3, {"r": 40, "n": 5}, Distribution.UNIT)
    (x,) = inputs.values(task, case)
    assert ((x >= 0).all(axis=1) | (x <= 0).all(axis=1)).all()
    assert 10 <= np.count_nonzero((x < 0).all(axis=1)) <= 30


def test_a_size_of_which_the_cost_is_a_power_is_large_in_some_rounds() -> None:
    rows, n = dd.dim("rows", 1, 4096), dd.dim("n", 1, 4096)

    @dd.trace(dd.f32[rows, n])
    def sums(x: dd.Tensor) -> dd.Tensor:
        k = dd.arange(n)
        return dd.sum(dd.where(k[:, None] >= k, x[:, None, :], 0.0), axis=2)

    drawn = bindings(sums.module, (64,), Draw(rounds=16, most=1 << 16))
    assert sum(env["n"] > 64 for env in drawn) >= 3
    assert sum(env["rows"] > 64 for env in drawn) >= 3
    assert len({tuple(env.values()) for env in drawn}) == len(drawn)


def test_sizes_that_were_chosen_are_drawn_where_a_specification_computes_much() -> None:
    n = dd.dim("n", 1, 4096)

    @dd.trace(dd.i32[n])
    def counts(x: dd.Tensor) -> dd.Tensor:
        return dd.sum((x[:, None] == dd.arange(1000)).astype(dd.i32), axis=0, dtype=dd.i32)

    drawn = bindings(counts.module, (), Draw(sizes={"n": (3, 100)}))
    assert {env["n"] for env in drawn} == {3, 100}


def test_a_specification_that_computes_much_of_an_element_has_several_sizes() -> None:
    rows = dd.dim("rows", 1, 4096)

    @dd.trace(dd.f32[rows, 128])
    def ordered(x: dd.Tensor) -> dd.Tensor:
        return dd.sort(x, axis=1)

    drawn = bindings(ordered.module, (), Draw())
    assert len({env["rows"] for env in drawn}) >= 4


def test_one_size_after_the_other_is_large_for_ordinary_numbers() -> None:
    many = {"r": 60, "n": 3}
    envs = [{"r": 3, "n": 5}, {"r": 60, "n": 4}, {"r": 2, "n": 99}, *(many for _ in range(13))]
    drawn = inputs.cases(softmax.module, envs)
    assert max(c.env["n"] for c in drawn if c.ordinary) == 99
    assert sorted(str(c.kind) for c in drawn) == sorted(
        str(c.kind) for c in inputs.cases(softmax.module, [many] * 16)
    )
