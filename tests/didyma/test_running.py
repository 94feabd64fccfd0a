"""Executables and the truth: called by name, shown in brief, compared by the judge's own rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ops.bars import Bar
from didyma.running import Interpreted
from didyma.testing import assert_agree
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says

N = dd.dim("n", 1, 64)


@pytest.fixture(scope="module")
def roots() -> Program:
    @dd.trace(dd.f32[N], dd.f32[N])
    def roots(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return dd.sqrt(x), x - y

    return roots


X, Y = np.array([4, -1, -0.0, 9], np.float32), np.array([1, 1, 2, 9], np.float32)


def test_inputs_go_by_name(roots: Program) -> None:
    run = dd.compile(roots)
    want = [a.tobytes() for a in run(X, Y)]
    assert [a.tobytes() for a in run(y=Y, x=X)] == want
    assert [a.tobytes() for a in run(X, y=Y)] == want
    assert [a.tobytes() for a in dd.interpret(roots, y=Y, x=X).values] == want


@pytest.mark.parametrize(
    ("positional", "named", "said"),
    [
        ((X,), {}, ("input-count", "x, y")),
        ((X, Y, Y), {}, ("input-count", "3")),
        ((X,), {"x": X}, ("input-count", "by position and name")),
        ((), {"x": X}, ("input-count", "no y")),
        ((X, Y), {"z": X}, ("unknown-input", "one of x, y")),
    ],
)
def test_wrong_inputs_are_refused(
    roots: Program, positional: tuple[Any, ...], named: dict[str, Any], said: tuple[str, ...]
) -> None:
    with says(*said):
        dd.compile(roots)(*positional, **named)
    with says(said[0]):
        dd.interpret(roots, *positional, **named)


def test_what_is_no_program_is_refused_with_the_way_to_make_one() -> None:
    def root(x: dd.Tensor) -> dd.Tensor:
        return dd.sqrt(x)

    wrong: Any = root
    for use in (dd.compile, dd.interpret, dd.check):
        with says("not-a-program", "the function root", "dd.trace(root)"):
            use(wrong)
    wrong = "model.onnx"
    with says("not-a-program", "a str", "dd.load(path)"):
        dd.compile(wrong)
    with says("not-a-program", "dd.load(path)"):
        assert_agree(X, wrong, X)


def test_the_truth_contains_what_the_judge_takes(roots: Program) -> None:
    truth = dd.interpret(roots, X, Y)
    root, rest = truth.values
    assert truth.contains((root, rest))
    assert np.isnan(root[1])
    assert np.signbit(root[2])
    assert not truth.contains((np.where(np.isnan(root), 0, root).astype(np.float32), rest))
    assert not truth.contains((abs(root), rest))  # the root of -0.0 is -0.0
    assert not truth.contains((root, rest + np.float32(1)))
    assert not truth.contains((root.astype(np.float64), rest))
    assert not truth.contains((root[:3], rest))
    with says("output-count", "1 arrays", "2: sqrt, subtract"):
        truth.contains(root)


def test_the_reference_is_in_float64_and_outputs_are_measured_by_it(roots: Program) -> None:
    x, y = np.array([2, 3], np.float32), np.array([1, 0.1], np.float32)
    truth = dd.interpret(roots, x, y)
    want = np.sqrt(x.astype(np.float64)), x.astype(np.float64) - y
    for reference, a in zip(truth.reference, want, strict=True):
        assert reference.dtype == np.float64
        assert reference.tolist() == a.tolist()
    doubled = want[0].astype(np.float32), 2 * want[1].astype(np.float32)
    rounding, far = truth.off(doubled)
    assert 0 < rounding < 2**-23
    assert far == pytest.approx(1)
    with says("output-count", "1 arrays"):
        truth.off(doubled[0])


def undecided(*e: float) -> Interpreted:
    c = np.zeros(len(e))
    return Interpreted((c.astype(np.float32),), (Bar(c, np.array(e)),), ("y",), Module(()), ())


def test_the_truth_contains_nothing_where_nothing_is_decided() -> None:
    assert undecided(np.inf, 1).contains(np.array([5, 0.5], np.float32))
    assert not undecided(np.inf, 1).contains(np.array([5, 1.5], np.float32))
    assert not undecided(np.inf, np.inf).contains(np.array([0, 0], np.float32))
    assert not undecided().contains(np.array([], np.float32))
    with pytest.raises(AssertionError, match="y: undecided: none of 2 elements"):
        assert_agree(np.array([0, 0], np.float32), undecided(np.inf, np.inf))
    with pytest.raises(AssertionError, match="nothing was checked"):
        assert_agree(np.array([], np.float32), undecided())


def test_an_assertion_says_where_it_is_worst(roots: Program) -> None:
    truth = dd.interpret(roots, X, Y)
    assert_agree(truth.values, roots, X, y=Y)
    assert_agree(truth.values, truth)
    bad = truth.values[1] + np.array([0, 0.25, 0.5, 0], np.float32)
    with pytest.raises(AssertionError) as caught:
        assert_agree((truth.values[0], bad), truth)
    assert str(caught.value).splitlines() == [
        "subtract: 2 of 4 elements are wrong, 2 agree, 0 are undecided",
        "  worst: subtract[2] = -1.5, want -2.0 ± 0, off by 0.5",
    ]
    with pytest.raises(AssertionError, match=r"subtract: got float64\[4\], want f32\[4\]"):
        assert_agree((truth.values[0], bad.astype(np.float64)), truth)


def test_an_assertion_counts_in_bars() -> None:
    bar = Bar(np.array([1, 1, 1, 1], np.float64), np.array([0.5, 0.5, np.inf, 0.25], np.float64))
    truth = Interpreted((np.ones(4, np.float32),), (bar,), ("y",), Module(()), ())
    with pytest.raises(AssertionError) as caught:
        assert_agree(np.array([1, 3, 9, 2.5], np.float32), truth)
    assert str(caught.value).splitlines() == [
        "y: 2 of 4 elements are wrong, 1 agree, 1 are undecided",
        "  worst: y[3] = 2.5, want 1.0 ± 0.25, off by 1.5: 6 times its bar",
    ]
    with pytest.raises(AssertionError, match=r"worst: y\[1\] = nan, want 1.0 ± 0.5"):
        assert_agree(np.array([1, np.nan, 9, 2.5], np.float32), truth)


def test_large_integers_are_compared_exactly() -> None:
    @dd.trace(dd.i64[2])
    def same(x: dd.Tensor) -> dd.Tensor:
        return x + 0

    x = np.array([2**62 + 1, -1], np.int64)
    with pytest.raises(AssertionError, match=f"= {2**62}, want {2**62 + 1} ± 0, off by 1$"):
        assert_agree(x - np.array([1, 0], np.int64), same, x)


def test_an_executable_is_shown_in_brief(roots: Program) -> None:
    said = repr(dd.compile(roots))
    for words in ("@roots on host", "x: f32[n], y: f32[n]", "sqrt: f32[n]", "n in [1, 64]"):
        assert words in said
    assert "bytes" in said
    assert len(said.splitlines()) == 6


def test_the_truth_is_shown_in_brief(roots: Program) -> None:
    said = repr(dd.interpret(roots, X, Y))
    assert "sqrt: f32[4], exact, 0 of 4 undecided" in said
    assert "[ 2. nan -0.  3.]" in said
    assert "subtract: f32[4]" in said
    assert "y: f32[2], bars up to" in repr(undecided(np.inf, 1))
    assert "nothing is decided, 1 of 1 undecided" in repr(undecided(np.inf))


def test_large_results_are_shown_in_twenty_lines() -> None:
    @dd.trace(dd.f32[9, 9, 9])
    def many(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return tuple(x * k for k in range(12))

    for said in (repr(dd.interpret(many, np.ones((9, 9, 9), np.float32))), repr(dd.compile(many))):
        assert len(said.splitlines()) <= 20
        assert max(map(len, said.splitlines())) <= 100
        assert "more" in said


def test_options_are_shown_by_name() -> None:
    assert (
        repr(dd.Options(kernels=dd.KernelOptions(block=64)))
        == "Options(kernels=KernelOptions(block=64))"
    )
    assert repr(dd.Options()) == "Options()"
    from didyma.codegen.memory.planners import PLANNERS

    assert (
        repr(dd.Options(memory=dd.MemoryOptions(planner=PLANNERS["none"])))
        == "Options(memory=MemoryOptions(planner='none'))"
    )
