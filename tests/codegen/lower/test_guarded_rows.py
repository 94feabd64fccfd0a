"""Rows whose folds read behind a guard, as a padded operand is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import didyma as dd
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType
from tests.codegen.lower.judged import agree, array, primitive

N = dd.dim("n", 0, 9)
APART = dd.Options().changed({"graph.attention": False})


def padded(x: dd.Tensor, d: dd.Tensor) -> dd.Tensor:
    return dd.remainder(x, dd.sign(dd.pad(d, [(0, 1), (0, 0)])))


def largest(x: dd.Tensor, d: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    v = padded(x, d)
    e = dd.exp(v - dd.max(v, axis=1, keepdims=True))
    return e, dd.sum(e, axis=1)


def total(x: dd.Tensor, d: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    """The rows of this one may be empty."""
    v = padded(x, d)
    e = dd.exp(v - dd.sum(v, axis=1, keepdims=True))
    return e, dd.sum(e, axis=1)


def chosen(x: dd.Tensor, d: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    """The fold is needed of some elements of the row alone."""
    v = padded(x, d)
    far = v - dd.max(v, axis=1, keepdims=True)
    some = dd.pad(far[:, 2:9], [(0, 0), (2, 3)])
    return dd.where(x > 0, dd.exp(far), x) + some, dd.sum(dd.exp(far), axis=1)


@pytest.mark.parametrize(("f", "width"), [(largest, 12), (total, N), (chosen, 12)])
def test_a_fold_behind_a_guard_is_used_along_its_row_and_after_it(
    f: Callable[..., Any], width: Any
) -> None:
    p = dd.trace(dd.f32[4, width], dd.f32[3, 1])(f)
    report = dd.check(p, options=APART, engines=["simt"], tries=3)
    assert report.agree, [str(x) for x in report.findings]


PACKED = """module {
  func @main(%x: f32[2, 1], %at: i32[1, 1], %more: f32[1, 1]) -> (%z) {
    %s = sign(%x) : f32[2, 1]
    %y = scatter(%s, %at, %more, axis=0, reduction="add") : f32[2, 1]
    %z = saturating_cast(%y, dtype=i2) : i2[2, 1]
  }
}"""


def test_a_fold_behind_a_guard_begins_with_what_lies_behind_it() -> None:
    m = primitive(parse_module(PACKED))
    xs = [array([[0.5], [-3.0]]), array([[1]], DType.I32), array([[2.0]])]
    agree(m.entry, m, xs, {})
