"""Sizes that elements tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError

n = dd.dim("n", 0, 9)


@dd.trace(dd.f32[n], dd.u8[1], dd.bool[()])
def parts(x: dd.Tensor, by: dd.Tensor, on: dd.Tensor) -> tuple[dd.Tensor, ...]:
    rows = dd.item(by, least=1, most=6, by=4, name="rows")
    once = dd.item(on, most=1)
    return dd.zeros((rows, 2)) + 1.0, dd.broadcast_to(x[None], (once, n)), dd.ones((rows + once,))


compiled = dd.compile(parts)
X = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize(("by", "on"), [(4, True), (8, False), (24, True)])
def test_a_size_is_what_the_element_says(by: int, on: bool) -> None:
    given = X, np.array([by], np.uint8), np.bool_(on)
    a, b, c = compiled(*given)
    assert (a.shape, b.shape, c.shape) == ((by // 4, 2), (int(on), 3), (by // 4 + int(on),))
    assert (a == 1).all()
    assert (b == X).all()
    for got, want in zip((a, b, c), dd.interpret(parts, *given).values, strict=True):
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("by", [0, 3, 28, 255])
def test_another_value_is_refused(by: int) -> None:
    with pytest.raises(DidymaError) as e:
        compiled(X, np.array([by], np.uint8), np.bool_(True))
    assert (e.value.code, e.value.where) == ("dim-out-of-range", "rows")


def test_every_level_agrees() -> None:
    @dd.trace(dd.f32[n], dd.i64[()])
    def head(x: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
        size = dd.item(dd.clip(k, 0, 5), most=5)
        return dd.cumulative_sum(dd.ones((size,)), axis=0) + dd.sum(x)

    assert dd.check(head, engines=["host", "simt"]).agree


def refused(f: Callable[[dd.Tensor], object]) -> str:
    def traced(x: dd.Tensor) -> dd.Tensor:
        f(x)
        return x

    with pytest.raises(DidymaError) as e:
        dd.trace(dd.f32[2])(traced)
    return e.value.code


def test_misuse_is_refused() -> None:
    assert refused(lambda x: dd.item(x[0], most=3)) == "bad-operand"
    assert refused(lambda x: dd.item(dd.astype(x, dd.i32), most=3)) == "shape-mismatch"
    assert refused(lambda x: dd.item(dd.astype(x[0], dd.i32), most=-1)) == "bad-range"
    assert refused(lambda x: dd.item(dd.astype(x[0], dd.i32), most=3, by=0)) == "bad-range"
    wrong: Any = dd.item
    assert refused(lambda x: wrong(dd.astype(x[0], dd.i32))) == "bad-call"
