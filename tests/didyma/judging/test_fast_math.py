"""Contracts of fast intrinsics: what CUDA documents is accepted, and little more."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.contracts import Declared
from didyma.judging.judge import Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars


def single(row: list[float]) -> Array:
    """Return numbers of f32."""
    return np.array(row, np.float32)


FAST = Declared(fast_math=True)
X = single([1e-6, -1e-4, 0.3, 1.5707964, 3.1415925, -6.25, 200.0])
NEAR_ONE = single([0.5, 0.999, 1.0000001, 1.01, 1.9])
FAR = single([1e-3, 3.0, 1e10])


def accepted(op: str, inputs: tuple[Array, ...], got: Array, contract: Declared = FAST) -> bool:
    """Return whether results of an op are inside of the bars of a contract."""
    types = [dd.f32[len(x)] for x in inputs]

    def one(a: dd.Tensor) -> dd.Tensor:
        found: dd.Tensor = getattr(dd, op)(a)
        return found

    def two(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        found: dd.Tensor = getattr(dd, op)(a, b)
        return found

    m = (dd.trace(*types)(one) if len(types) == 1 else dd.trace(*types)(two)).module
    given = [bars.exact(x, DType.F32) for x in inputs]
    (found,) = interpreter.bars(m.entry, m, given, {}, contract.rules, stored=True)
    with np.errstate(all="ignore"):
        found = contract.widened(found, DType.F32)
        return bool(bars.judge(found, got.astype(np.float32), DType.F32).ok.all())


@pytest.mark.parametrize(
    ("op", "inputs", "error"),
    [
        ("sin", (X[:-1],), 2.0**-20.6), ("cos", (X[:-1],), 2.0**-20.6),
        ("sin", (X[-1:],), 2.0**-15), ("log", (NEAR_ONE,), 2.0**-21.5),
        ("log2", (NEAR_ONE,), 2.0**-22.1),
    ],
)  # fmt: skip
def test_absolute_errors_are_accepted_and_four_times_them_refused(
    op: str, inputs: tuple[Array, ...], error: float
) -> None:
    right = getattr(np, op)(inputs[0].astype(np.float64))
    for sign in (1, -1):
        assert accepted(op, inputs, right + sign * error)
        for k in range(right.size):
            wrong = right.copy()
            wrong[k] += sign * 4 * error
            assert not accepted(op, inputs, wrong), inputs[0][k]
    assert not accepted(op, inputs, right + error, Declared())


def test_logarithms_far_from_one_have_ulps_alone() -> None:
    right = np.log(FAR.astype(np.float64))
    assert accepted("log", (FAR,), right * (1 + 2 * 2.0**-24))
    assert not accepted("log", (FAR,), right * (1 + 2.0**-20))


def test_an_exponential_may_be_the_more_wrong_the_larger_its_argument() -> None:
    x = single([0.5, -60.0])
    right = np.exp(x.astype(np.float64))
    assert accepted("exp", (x,), right * (1 + np.array([2, 70]) * 2.0**-24))
    assert not accepted("exp", (x,), right * (1 + np.array([16, 0]) * 2.0**-23))
    assert not accepted("exp", (x,), right * (1 + np.array([0, 160]) * 2.0**-23))


def test_an_exponential_of_an_infinity_is_exact() -> None:
    x = single([-np.inf, np.inf])
    assert accepted("exp", (x,), single([0.0, np.inf]))
    assert not accepted("exp", (x,), single([1e-30, np.inf]))
    assert not accepted("exp", (x,), single([0.0, 3e38]))


def test_a_quotient_by_a_huge_number_may_be_zero() -> None:
    given = single([3e38, 1.0]), single([2e38, 2.0])
    assert accepted("divide", given, single([0.0, 0.5]))
    assert accepted("divide", given, single([1.5, 0.5]))
    assert not accepted("divide", given, single([0.0, 0.0]))


def test_powers_follow_from_logarithm_and_exponential() -> None:
    given = single([1.5, 0.01]), single([20.0, 3.0])
    right = given[0].astype(np.float64) ** given[1]
    assert accepted("pow", given, right * (1 + 20 * 2.0**-23))
    assert not accepted("pow", given, right * (1 + 2.0**-14))


N = dd.dim("n", 1, 4096)


@dd.trace(dd.f32[N])
def wave(x: dd.Tensor) -> dd.Tensor:
    return dd.sin(x) + dd.log(x * x + 0.5)


WAVE = r"""
__global__ void wave(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = sinf(x[i]) + logf(fmaf(x[i], x[i], 0.5f));
}
"""


@pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
@pytest.mark.parametrize(
    ("edit", "want"),
    [
        (("", ""), Outcome.CORRECT),
        (("sinf(x[i])", "1.00002f * sinf(x[i])"), Outcome.WRONG),
        (("0.5f", "0.50001f"), Outcome.WRONG),
    ],
)
def test_kernels_with_fast_intrinsics(edit: tuple[str, str], want: Outcome) -> None:
    source = Source(WAVE.replace(*edit), "k.cu")
    launch = Launch("", "cdiv(n, 64)", "64")
    contract = Declared(fast_math=True, finite=True)
    draw = Draw(rounds=6, ranges={"x": (-6.0, 6.0)})
    assert judge(make_task(source, wave.module, launch, contract, draw)).outcome is want
