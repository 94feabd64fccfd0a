"""Kernels that are told the strides of their arrays."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging import layouts
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw, Task
from didyma.refimpl.errors import DidymaError

needs_ptx = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
m, n = dd.dim("m", 1, 64), dd.dim("n", 1, 64)


@dd.trace(dd.f32[m, n])
def twice(x: dd.Tensor) -> dd.Tensor:
    return x + x


ROWS = """__global__ void f(const float* x, float* twice, int n, int ldx, int ldy) {
  for (int k = threadIdx.x; k < n; k += 32)
    twice[blockIdx.x * ldy + k] = 2 * x[blockIdx.x * ldx + k];
}"""
ANY = """
__global__ void f(const float* x, float* y, int n, int stride_xm, int stride_xn, int y0, int y1) {
  for (int k = threadIdx.x; k < n; k += 32)
    y[blockIdx.x * y0 + k * y1] = 2 * x[blockIdx.x * stride_xm + k * stride_xn];
}"""
AXES = ("y0=stride(add, 0)", "y1=stride(add, 1)")


def task(text: str, args: tuple[str, ...], where: tuple[str, ...] = ()) -> Task:
    launch = Launch("", "m", "32", args=args)
    return make_task(Source(text, "k.cu"), twice.module, launch, None, Draw(rounds=6, where=where))


def verdict(text: str, args: tuple[str, ...], where: tuple[str, ...] = ()) -> Judgement:
    return judge(task(text, args, where))


def test_memory_has_the_elements_at_their_strides_and_poison_between() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    memory = layouts.spread(x, (1, 4))
    assert np.isnan(memory).tolist() == [False, False, True, True] * 2 + [False, False]
    assert layouts.seen(memory, x.shape, (1, 4)).tolist() == x.tolist()
    assert layouts.between(x.shape, (1, 4)).tolist() == np.isnan(memory).tolist()


@needs_ptx
def test_strides_are_found_by_name_and_drawn_in_any_order() -> None:
    found = verdict(ANY, AXES)
    assert found.outcome is Outcome.CORRECT
    assert [b.rounds for b in found.others[:2]] == [6, 6]
    drawn = [layouts.strides(found.task, c.env) for c in found.cases]
    assert any(x > y for x, y in (d["x"] for d in drawn))
    assert any(x < y for x, y in (d["x"] for d in drawn))


@needs_ptx
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("k * stride_xn", "k"), ("blockIdx.x * stride_xm", "blockIdx.x * n"),
        ("k * y1", "k * stride_xn"),
    ],
)  # fmt: skip
def test_a_stride_that_is_left_out_is_found(right: str, wrong: str) -> None:
    assert verdict(ANY.replace(right, wrong), AXES).outcome is Outcome.WRONG


@needs_ptx
def test_a_leading_extent_leaves_rows_whole_and_conditions_hold() -> None:
    args, where = ("ldy=stride(add, 0)", "twice=add"), ("stride(x, 0) % 4 == 0",)
    found = verdict(ROWS, args, where)
    assert found.outcome is Outcome.CORRECT
    drawn = [layouts.strides(found.task, c.env) for c in found.cases]
    assert all(d["x"][1] == d["add"][1] == 1 for d in drawn if d)
    assert all(d["x"][0] % 4 == 0 for d in drawn if d)
    assert any(drawn)


@needs_ptx
def test_writes_between_rows_are_found() -> None:
    text = ROWS.replace("k < n;", "k < ldy;").replace("x[", "(k < n ? 1 : 0) * x[")
    found = verdict(text.replace("[blockIdx.x * ldx + k]", "[blockIdx.x * ldx + k % n]"),
                    ("ldy=stride(add, 0)", "twice=add"))  # fmt: skip
    assert found.outcome is Outcome.WRONG
    assert any("between the elements of output add" in f.detail for f, _ in found.faults)


@needs_ptx
def test_what_is_in_place_has_one_layout() -> None:
    text = """__global__ void f(float* x, int n, int ldx) {
      for (int k = threadIdx.x; k < n; k += 32) x[blockIdx.x * ldx + k] *= 2; }"""
    assert verdict(text, ("x=inplace:x", "ldx=stride(x, 0)")).outcome is Outcome.CORRECT
    assert verdict(text.replace("* ldx", "* n"), ("x=inplace:x", "ldx=stride(x, 0)")).outcome is (
        Outcome.WRONG
    )


@dd.trace(dd.f32[m, n].strided((0, 1)), dd.f32[m, n].strided((-n, -1), offset=m * n - 1))
def declared(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x + y


@needs_ptx
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("", ""), ("x[k]", "x[blockIdx.x * n + k]"), ("y[-", "y["), ("- k]", "+ k]")],
)
def test_strides_of_a_type_say_where_elements_lie(right: str, wrong: str) -> None:
    text = """__global__ void f(const float* x, const float* y, float* z, int n) {
      for (int k = threadIdx.x; k < n; k += 32)
        z[blockIdx.x * n + k] = x[k] + y[-(int)blockIdx.x * n - k]; }"""
    made = make_task(Source(text.replace(right, wrong), "k.cu"), declared.module,
                     Launch("", "m", "32"), None, Draw(rounds=4))  # fmt: skip
    assert judge(made).outcome is (Outcome.WRONG if right else Outcome.CORRECT)


@needs_ptx
def test_zero_and_negative_strides_are_drawn_where_a_condition_asks_for_them() -> None:
    signed = ANY.replace("blockIdx.x * stride", "(int)blockIdx.x * stride")
    for where in ("stride(x, 0) == 0", "stride(x, 0) < 0"):
        assert verdict(signed, AXES, (where,)).outcome is Outcome.CORRECT
    assert verdict(ANY, AXES, ("stride(x, 0) < 0",)).outcome is Outcome.WRONG  # it is unsigned


@needs_ptx
@pytest.mark.parametrize(
    ("where", "got"),
    [
        ("stride(add, 0) == 0", "no strides at"), ("stride(x, 0) * 0 == 1", "no strides at"),
        ("stride(z, 0) == 0", "z"), ("stride(x, 2) == 0", "x"),
    ],
)  # fmt: skip
def test_strides_that_no_array_has_are_refused(where: str, got: str) -> None:
    with pytest.raises(DidymaError, match=f"got:  {got}") as e:
        verdict(ANY, AXES, (where,))
    assert e.value.code == "bad-option"


@needs_ptx
def test_a_condition_on_a_stride_that_the_kernel_does_not_take_is_refused() -> None:
    plain = "__global__ void f(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }"
    with pytest.raises(DidymaError, match="no strides at"):
        verdict(plain, (), ("stride(x, 0) == 0",))
