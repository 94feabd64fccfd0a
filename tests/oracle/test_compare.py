"""The comparison on outputs that are known to be right or wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.oracle.compare import Comparison, bitwise, compare, payloads
from didyma.oracle.recorder import Recorder
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import pieces, ring
from didyma.refimpl.ops.bars import Bar, exact


def judge(c: Array, e: Array, out: Array) -> bool:
    bar = Bar(np.asarray(c, np.float64), np.asarray(e, np.float64))
    return compare("y", bar, out, TensorType(DType.of(out), out.shape)).agree


@pytest.mark.parametrize(
    ("c", "e", "out", "right"),
    [
        ([1.0], [0.1], [1.05], True),
        ([1.0], [0.1], [1.2], False),
        ([np.nan], [0.0], [np.nan], True),
        ([np.nan], [0.0], [1.0], False),
        ([1.0], [0.1], [np.nan], False),
        ([np.inf], [0.0], [np.inf], True),
        ([np.inf], [0.0], [-np.inf], False),
        ([1.0], [0.1], [np.inf], False),
        ([0.0], [0.0], [0.0], True),
        ([-0.0], [0.0], [0.0], False),
        ([1.0], [np.inf], [7.0], True),
    ],
)
def test_floats_by_rule(c: list[float], e: list[float], out: list[float], right: bool) -> None:
    assert judge(np.array(c), np.array(e), np.array(out, np.float32)) is right


@pytest.mark.parametrize("wrong", [False, True])
def test_parts_give_what_the_whole_does(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    c = np.arange(30.0).reshape(1, 5, 3, 2)
    e = np.where(c == 7, np.inf, 0.5)
    out = (c + 0.25).astype(np.float32)
    out[0, 3] += wrong
    t = TensorType(DType.F32, out.shape)
    whole = compare("y", Bar(c, e), out, t)
    assert whole.agree is not wrong
    monkeypatch.setattr(pieces, "LARGE", 0)
    monkeypatch.setattr(pieces, "PIECE", 7)
    parts = compare("y", Bar(c, e), out, t)
    assert replace(parts, off=0.0) == replace(whole, off=0.0)  # NaN is unlike itself


def test_undecided_elements_are_counted() -> None:
    bar = Bar(np.array([1.0, 2.0]), np.array([np.inf, 0.0]))
    got = compare("y", bar, np.array([5, 2], np.float32), TensorType(DType.F32, (2,)))
    assert (got.agree, got.checked, got.total) == (True, 1, 2)


def test_the_message_names_the_element() -> None:
    x = np.array([[1, 2], [3, 4]], np.int32)
    got = compare(
        "y",
        exact(x, DType.I32),
        x + np.array([[0, 0], [1, 0]], np.int32),
        TensorType(DType.I32, (2, 2)),
    )
    assert "y[1, 0]: got 4, want 3" in got.message


def test_a_wrong_shape_or_dtype_is_wrong() -> None:
    x = np.array([1, 2], np.float32)
    bar = exact(x, DType.F32)
    assert not compare("y", bar, x.reshape(2, 1), TensorType(DType.F32, (2,))).agree
    assert not compare("y", bar, x.astype(np.float64), TensorType(DType.F32, (2,))).agree


def test_bitwise_sees_the_sign_of_zero_and_takes_any_nan() -> None:
    zeros = np.array([0.0, np.nan], np.float32)
    assert bitwise("y", zeros, np.array([0.0, -np.nan], np.float32)).agree
    assert not bitwise("y", zeros, np.array([-0.0, np.nan], np.float32)).agree
    assert not bitwise("y", np.array([1], np.int8), np.array([2], np.int8)).agree


def test_payloads_differ_where_a_term_is_missing_and_unknown_ones_are_not_checked() -> None:
    x = ring.embed(np.array([[1, 2, np.nan], [4, 5, 6]], np.float32))
    right = payloads("y", x, x.copy())
    assert (right.agree, right.checked, right.total, right.in_ring) == (True, 5, 6, True)
    wrong = payloads("y", x, ring.add(x, ring.embed(np.array([[0, 0, 0], [0, 1, 0]], np.float32))))
    assert "y[1, 1]" in wrong.message
    assert "1 of 6 elements" in wrong.message


def test_a_level_counts_payloads_apart_from_values() -> None:
    x = ring.embed(np.array([1, np.inf], np.float32))
    level = Recorder("loop")
    level.compare("f", [Comparison(3, 4, 0.5), payloads("y", x, x)])
    done = level.level()
    assert (done.checked, done.total, done.ring_checked, done.ring_total) == (3, 4, 1, 2)
    level.compare("f", [payloads("y", x, ring.negate(x))])
    assert [(f.level, f.where, f.kind) for f in level.findings] == [("loop", "f", "ring")]
