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
