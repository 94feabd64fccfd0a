"""Kernels of Triton, which Triton 3.9 compiled from the text in ``docs/judge.md``."""

from __future__ import annotations

from pathlib import Path

import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.refimpl.ir.graph import Module
from didyma.show import judge_kernel as show

FOLDER = Path(__file__).parents[2] / "data" / "triton"
r, m, k = dd.dim("r", 1, 4096), dd.dim("m", 1, 256), dd.dim("k", 1, 256)
n = dd.dim("n", 1, 256)


@dd.trace(dd.f32[r, n])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


@dd.trace(dd.f16[m, k], dd.f16[k, n])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a.astype("f32") @ b.astype("f32")


def all_terms_are_compared(found: Judgement) -> None:
    """What Triton has made of a kernel puts together the terms of its reference."""
    terms = found.terms
    assert (terms.engine, terms.outside, terms.unequal) == ("ptx", "", 0), terms.example
    assert terms.in_ring > 0
    assert terms.checked == terms.total


def judged(name: str, spec: Module, grid: str, *args: str) -> Judgement:
    launch = Launch(grid=grid, block="128", args=(*args, "null", "null"))
    draw = Draw(rounds=6, most=1 << 13)
    return located(judge(make_task(Source.read(FOLDER / name), spec, launch, draw=draw)))


@pytest.mark.parametrize("name", ["softmax.ptx", "softmax_of_zeros.ptx"])
def test_a_softmax_is_right_if_what_is_masked_is_no_largest_element(name: str) -> None:
    found = judged(name, softmax.module, "r", "x", "out", "n")
    right = name == "softmax.ptx"
    assert found.outcome is (Outcome.CORRECT if right else Outcome.WRONG)
    assert not found.faults
    if right:
        all_terms_are_compared(found)
    else:
        assert "kernels.py:11: wrong-value" in next(
            row for row in show.lines(show.record(found, name)) if "wrong-value" in row
        )


def test_a_product_by_groups_of_warps_is_right() -> None:
    text = (FOLDER / "product.ptx").read_text()
    assert "wgmma.mma_async" in text
    grid = "cdiv(m, 64), cdiv(n, 64)"
    found = judged("product.ptx", product.module, grid, "a", "b", "out", "m", "n", "k")
    assert found.outcome is Outcome.CORRECT
    all_terms_are_compared(found)


@pytest.mark.parametrize(
    ("old", "new", "line", "shown"),
    [
        ("max.f32", "min.f32", 12, "`max.f32` for `min.f32`"),
        ("0f3FB8AA3B", "0f4038AA3B", 12, "`mul.f32 by 0f3FB8AA3B` for `mul.f32`"),
    ],
)
def test_an_edit_of_the_instructions_of_a_line_names_it(
    old: str, new: str, line: int, shown: str
) -> None:
    text = (FOLDER / "softmax.ptx").read_text()
    assert old in text
    launch = Launch(grid="r", block="128", args=("x", "out", "n", "null", "null"))
    source, draw = Source(text.replace(old, new), "softmax.ptx"), Draw(rounds=6, most=1 << 13)
    found = located(judge(make_task(source, softmax.module, launch, draw=draw)))
    assert found.suspect is not None
    assert found.suspect.line == line
    assert shown in found.suspect.why


LOST_FACTOR = """.version 8.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 x, .param .u64 z, .param .u64 b, .param .u64 y, .param .u64 w)
{
  .reg .f32 %f<6>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<12>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 4;
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [z];
  ld.param.u64 %rd4, [b];
  ld.param.u64 %rd5, [y];
  ld.param.u64 %rd6, [w];
  add.s64 %rd7, %rd2, %rd1;
  add.s64 %rd8, %rd3, %rd1;
  add.s64 %rd9, %rd4, %rd1;
  add.s64 %rd10, %rd5, %rd1;
  add.s64 %rd11, %rd6, %rd1;
  ld.global.f32 %f1, [%rd7];
  ld.global.f32 %f2, [%rd8];
  ld.global.f32 %f3, [%rd9];
  mul.f32 %f4, %f2, %f2;
  st.global.f32 [%rd11], %f4;
  add.f32 %f5, %f1, %f3;
  st.global.f32 [%rd10], %f5;
  ret;
}
"""


@dd.trace(dd.f32[32], dd.f32[32], dd.f32[32])
def scaled(x: dd.Tensor, z: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x * z + b, z * z


@dd.trace(dd.f32[32], dd.f32[32], dd.f32[32])
def turned(x: dd.Tensor, z: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x - b, z * z


@dd.trace(dd.f32[32], dd.f32[32], dd.f32[32])
def alone(x: dd.Tensor, z: dd.Tensor, b: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    del b
    return x * 1.0, z * z


@pytest.mark.parametrize(
    ("spec", "now", "shown"),
    [
        (scaled, "add.f32 %f5, %f1, %f3;", "fma by what line"),
        (turned, "sub.f32 %f5, %f3, %f1;", "operands 2 and 1"),
        (alone, "add.f32 %f5, %f1, %f3;", "operand 1 alone"),
    ],
)
def test_an_edit_of_an_operation_names_its_line(spec: dd.Program, now: str, shown: str) -> None:
    text = LOST_FACTOR.replace("add.f32 %f5, %f1, %f3;", now)
    launch = Launch(block="32", args=("x", "z", "b", "out", "out"))
    task = make_task(Source(text, "k.ptx"), spec.module, launch, draw=Draw(rounds=6))
    found = located(judge(task))
    assert found.suspect is not None
    assert text.split("\n")[found.suspect.line - 1] == f"  {now}"
    assert shown in found.suspect.why
