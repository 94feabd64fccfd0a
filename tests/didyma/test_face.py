"""The public interface: the example people see first, and what it says when used wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from didyma.tracer.tracing import Program

N = dd.dim("n", 1, 4096)


@pytest.fixture(scope="module")
def head() -> Program:
    @dd.trace(dd.f32[N, 512], dd.f32[512, 64], dd.f32[64])
    def head(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x @ w + b, axis=-1)

    return head


def arrays(n: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 512)).astype(np.float32)
    w = rng.standard_normal((512, 64)).astype(np.float32) / 20
    return x, w, rng.standard_normal(64).astype(np.float32)


@pytest.mark.parametrize("n", [1, 5])
def test_the_first_example_runs_and_lies_in_its_bars(head: Program, n: int) -> None:
    x, w, b = arrays(n)
    y = dd.compile(head, engine="host")(x, w, b)
    assert isinstance(y, np.ndarray)
    h = x.astype(np.float64) @ w + b
    e = np.exp(h - h.max(1, keepdims=True))
    bars = dd.interpret(head, x, w, b).bars[0]
    assert (np.abs(y - e / e.sum(1, keepdims=True)) <= bars.e).all()
    assert bars.e.max() < 0.01


def test_every_level_agrees(head: Program) -> None:
    report = dd.check(head, engines=("host", "simt"), sizes={"n": 3})
    assert report.agree, report.findings
    names = [level.name for level in report.levels]
    assert names == ["graph", "passes", "loop", "kernel", "plan", "program", "host", "simt"]


def test_a_traced_function_is_inlined_into_another() -> None:
    @dd.trace(dd.f32[N, 2])
    def double(x: dd.Tensor) -> dd.Tensor:
        return x * 2

    @dd.trace(dd.f32[N, 2])
    def twice(x: dd.Tensor) -> dd.Tensor | Sequence[dd.Tensor]:
        once = double(x)
        assert isinstance(once, dd.Tensor)
        return double(once)

    y = dd.compile(twice)(np.array([[1, 2]], np.float32))
    assert np.asarray(y).tolist() == [[4, 8]]


def test_operators_follow_the_standard() -> None:
    @dd.trace(dd.i32[4], dd.i8[4], dd.bool[4])
    def f(a: dd.Tensor, b: dd.Tensor, c: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return a // b, a % b, -a, abs(a), a & b, ~c, c | (a < b), a << 1, 2 - a, a == b

    a, b = np.array([7, -7, 5, 0], np.int32), np.array([2, 2, -3, 1], np.int8)
    c = np.array([True, False, True, False])
    want = [a // b, a % b, -a, abs(a), a & b, ~c, c | (a < b), a << 1, 2 - a, a == b]
    for g, w in zip(dd.compile(f)(a, b, c), want, strict=True):
        assert g.tolist() == w.tolist()


class Foreign:
    """An array of another library."""

    def __init__(self, a: Array) -> None:
        self.a = a

    def __dlpack__(self, **kw: Any) -> Any:
        return self.a.__dlpack__(**kw)

    def __dlpack_device__(self) -> Any:
        return self.a.__dlpack_device__()


def test_dlpack_comes_in() -> None:
    @dd.trace(dd.f32[3])
    def f(x: dd.Tensor) -> dd.Tensor:
        return dd.exp2(x)

    y = dd.compile(f)(Foreign(np.array([0, 1, 2], np.float32)))
    assert np.asarray(y).tolist() == [1, 2, 4]


def fail(code: str) -> pytest.RaisesExc[DidymaError]:
    return pytest.RaisesExc(DidymaError, check=lambda e: e.code == code)


def test_wrong_use_is_told_in_codes(head: Program) -> None:
    x, w, b = arrays(2)
    with fail("not-compiled"):
        head(x, w, b)
    with fail("unknown-engine"):
        dd.compile(head, engine="abacus")
    with fail("unknown-planner"):
        dd.compile(head, planner="guess")
    run = dd.compile(head)
    with pytest.raises(DidymaError, match=r"512|rank|size"):
        run(x[:, :5], w, b)
    with pytest.raises(DidymaError, match=r"float64|f64"):
        run(x.astype(np.float64), w, b)
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        run(np.zeros((4097, 512), np.float32), w, b)
    with fail("bad-range"):
        dd.dim("n", 5, 2)


def same(x: dd.Tensor) -> dd.Tensor:
    return x


def shifted(x: dd.Tensor) -> dd.Tensor:
    return x + 0.5


def folded(x: dd.Tensor) -> dd.Tensor:
    return x if x > 0 else -x


def test_wrong_traces_are_told_in_codes() -> None:
    with fail("unannotated"):
        dd.trace(dd.f32[2], dd.f32[2])(same)
    with fail("unannotated"):
        dd.trace(same)
    with fail("type-mismatch"):
        same.__annotations__.update(x=dd.f32[2], **{"return": dd.f32[3]})
        dd.trace(same)
    with fail("dtype-mismatch"):
        dd.trace(dd.i32[2])(shifted)
    with fail("traced-branch"):
        dd.trace(dd.f32[2])(folded)
