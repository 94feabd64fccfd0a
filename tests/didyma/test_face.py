"""The public interface: the example people see first, and what it says when used wrongly."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.program import Program
from didyma.tensor import Tensor
from refimpl.errors import DidymaError

N = dd.dim("n", 1, 4096)


@pytest.fixture(scope="module")
def head() -> Program:
    n = dd.dim("n", 1, 4096)

    @dd.trace
    def head(x: dd.f32[n, 512], w: dd.f32[512, 64], b: dd.f32[64]) -> dd.f32[n, 64]:
        return dd.softmax(x @ w + b, axis=-1)

    return head


def arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    @dd.trace
    def double(x: dd.f32[N, 2]) -> dd.f32[N, 2]:
        return x * 2

    @dd.trace
    def twice(x: dd.f32[N, 2]) -> dd.f32[N, 2]:
        return double(double(x))

    y = dd.compile(twice)(np.float32([[1, 2]]))
    assert np.asarray(y).tolist() == [[4, 8]]


def test_operators_follow_the_standard() -> None:
    @dd.trace
    def f(a: dd.i32[4], b: dd.i8[4], c: dd.bool[4]) -> tuple[Tensor, ...]:
        return a // b, a % b, -a, abs(a), a & b, ~c, c | (a < b), a << 1, 2 - a, a == b

    a, b = np.int32([7, -7, 5, 0]), np.int8([2, 2, -3, 1])
    c = np.array([True, False, True, False])
    want = [a // b, a % b, -a, abs(a), a & b, ~c, c | (a < b), a << 1, 2 - a, a == b]
    got = dd.compile(f)(a, b, c)
    for g, w in zip(got, want, strict=True):
        assert g.tolist() == w.tolist()


def test_dlpack_comes_in() -> None:
    class Foreign:
        def __init__(self, a: np.ndarray) -> None:
            self.a = a

        def __dlpack__(self, **kw: object) -> object:
            return self.a.__dlpack__(**kw)

        def __dlpack_device__(self) -> object:
            return self.a.__dlpack_device__()

    @dd.trace
    def f(x: dd.f32[3]) -> dd.f32[3]:
        return dd.exp2(x)

    y = dd.compile(f)(Foreign(np.float32([0, 1, 2])))
    assert np.asarray(y).tolist() == [1, 2, 4]


def fail(code: str) -> pytest.RaisesExc[DidymaError]:
    return pytest.RaisesExc(DidymaError, check=lambda e: e.code == code)


def test_wrong_use_is_told_in_codes(head: Program) -> None:
    x, w, b = arrays(2)
    with fail("not-compiled"):
        head(x, w, b)  # type: ignore[arg-type]  # the mistake under test
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


def test_wrong_traces_are_told_in_codes() -> None:
    with fail("unannotated"):

        @dd.trace
        def bare(x):  # type: ignore[no-untyped-def]  # the mistake under test
            return x

    with fail("type-mismatch"):

        @dd.trace
        def wrong(x: dd.f32[2]) -> dd.f32[3]:
            return x

    with fail("dtype-mismatch"):

        @dd.trace
        def mixed(x: dd.i32[2]) -> dd.i32[2]:
            return x + 0.5

    with fail("traced-branch"):

        @dd.trace
        def branch(x: dd.f32[2]) -> dd.f32[2]:
            return x if x > 0 else -x
