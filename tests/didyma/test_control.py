"""Branches, loops and scans by tracing: captures, sizes that change, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import didyma as dd
from refimpl.errors import DidymaError
from refimpl.ir.types import Array

n = dd.dim("n", 0, 6)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def same(program: dd.Program, *inputs: Array) -> list[Array]:
    """Results of the interpreter, which the host engine and the judge confirm."""
    want = list(dd.interpret(program, *inputs).values)
    out = dd.compile(program)(*inputs)
    got = list(out) if isinstance(out, tuple) else [out]
    assert [a.tolist() for a in got] == [a.tolist() for a in want]
    return want


def test_branches_capture_what_is_around_them() -> None:
    @dd.trace(dd.f32[n], dd.f32[n], dd.bool[()])
    def f(x: dd.Tensor, y: dd.Tensor, c: dd.Tensor) -> tuple[dd.Tensor, ...]:
        z = x + y

        def yes(a: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            return a * z, y

        def no(a: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            inner = dd.cond(dd.any(x > 2), lambda: a - z, lambda: z)
            assert isinstance(inner, dd.Tensor)
            return inner, a

        a, b = dd.cond(c, yes, no, x)
        return a, b + 1

    x, y = f32(1, 2), f32(10, 20)
    a, b = same(f, x, y, np.asarray(np.True_))
    assert (a.tolist(), b.tolist()) == ([11, 44], [11, 21])
    a, b = same(f, x, y, np.asarray(np.False_))
    assert (a.tolist(), b.tolist()) == ([11, 22], [2, 3])
    report = dd.check(f, engines=["host", "simt"])
    assert report.agree, report.findings[0]


def test_branches_of_two_sizes() -> None:
    @dd.trace(dd.f32[n], dd.bool[()])
    def f(x: dd.Tensor, c: dd.Tensor) -> dd.Tensor:
        y = dd.cond(c, lambda: dd.concat([x, x], axis=0), lambda: x * 2)
        assert isinstance(y, dd.Tensor)
        return y - 1

    assert same(f, f32(1, 2), np.asarray(np.True_))[0].tolist() == [0, 1, 0, 1]
    assert same(f, f32(1, 2), np.asarray(np.False_))[0].tolist() == [1, 3]
    assert dd.check(f).agree


def test_a_loop_within_a_loop() -> None:
    @dd.trace(dd.f32[3], dd.i64[()])
    def f(x: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
        def outer(i: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            _, z = dd.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + x), 0, y)
            return i + 1, z

        _, y = dd.while_loop(lambda i, y: i < k, outer, 0, x * 0)
        return y

    assert same(f, f32(1, 2, 3), np.asarray(np.int64(4)))[0].tolist() == [6, 12, 18]
    assert same(f, f32(1, 2, 3), np.asarray(np.int64(0)))[0].tolist() == [0, 0, 0]


def test_what_is_carried_may_grow() -> None:
    @dd.trace(dd.f32[n, 2], dd.i64[()])
    def f(x: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
        rows = dd.slice(x, [0, 0], [0, 2], [1, 1])
        _, y = dd.while_loop(
            lambda i, y: i < k,
            lambda i, y: (i + 1, dd.concat([y, x], axis=0)),
            0, rows, most=24,
        )  # fmt: skip
        return dd.sum(y, axis=0)

    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert same(f, x, np.asarray(np.int64(2)))[0].tolist() == [12, 18]
    assert same(f, x, np.asarray(np.int64(0)))[0].tolist() == [0, 0]
    with pytest.raises(DidymaError, match="27") as e:
        dd.compile(f)(x, np.asarray(np.int64(9)))
    assert e.value.code == "dim-out-of-range"


def test_a_scan_with_captures() -> None:
    @dd.trace(dd.f32[n, 3], dd.f32[3, 3])
    def f(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, ...]:
        first = dd.sum(x, axis=0) * 0

        def step(h: dd.Tensor, row: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor, dd.Tensor]:
            new = dd.maximum(h @ w, row) + 1
            return new, new, row * 2

        return dd.scan(step, first, x)

    x, w = np.eye(4, 3, dtype=np.float32), np.eye(3, dtype=np.float32)
    h = np.zeros(3, np.float32)
    _, states, twice = same(f, x, w)
    for row, got in zip(x, states, strict=True):
        h = np.maximum(h, row) + 1
        assert got.tolist() == h.tolist()
    assert twice.tolist() == (2 * x).tolist()
    assert dd.check(f).agree


def test_sizes_that_the_data_tells() -> None:
    @dd.trace(dd.f32[n, 3])
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        i, j = dd.nonzero(x > 0)
        positive = dd.compress(x, dd.any(x > 0, axis=1), axis=0)
        return i, j, dd.sum(positive), dd.unique_values(x)

    x = np.float32([[0, 1, -1], [0, 0, 0], [2, -3, 4]])
    i, j, total, values = same(f, np.asarray(x))
    assert (i.tolist(), j.tolist()) == ([0, 2, 2], [1, 0, 2])
    assert float(total) == 3
    assert values.tolist() == [-3, -1, 0, 1, 2, 4]
    report = dd.check(f, engines=["host", "simt"])
    assert report.agree, report.findings[0]


def test_suppression_of_boxes() -> None:
    @dd.trace(dd.f32[1, 3, 4], dd.f32[1, 1, 3])
    def f(boxes: dd.Tensor, scores: dd.Tensor) -> dd.Tensor:
        return dd.non_max_suppression(boxes, scores, most=2, overlap=0.5, least=0.2)

    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.8, 0.9, 0.3]]], np.float32)
    assert same(f, boxes, scores)[0].tolist() == [[0, 0, 1], [0, 0, 2]]
    assert dd.check(f).agree


def refused(f: Callable[[dd.Tensor], dd.Tensor]) -> str:
    """Code of the error that tracing gives."""
    with pytest.raises(DidymaError) as e:
        dd.trace(dd.f32[3])(f)
    return e.value.code


def first(x: object) -> dd.Tensor:
    """The first of several results, or the only one."""
    y = x[0] if isinstance(x, tuple) else x
    assert isinstance(y, dd.Tensor)
    return y


def test_what_is_refused() -> None:
    kept: list[dd.Tensor] = []

    def leak(x: dd.Tensor) -> dd.Tensor:
        def branch() -> dd.Tensor:
            kept.append(x * 2)
            kept.append(kept[0] + 1)
            return kept[1]

        dd.cond(dd.any(x > 0), lambda y: (kept.append(y * 2), y)[1], lambda y: y, x)
        return x + kept[0]

    assert refused(leak) == "foreign-value"
    assert refused(lambda x: first(dd.cond(x, lambda: x, lambda: -x))) == "G-if"
    assert (
        refused(lambda x: first(dd.cond(dd.any(x > 0), lambda: x, lambda: dd.sum(x))))
        == "branch-mismatch"
    )
    assert (
        refused(
            lambda x: first(dd.while_loop(lambda y: dd.all(y < 9), lambda y: dd.concat([y, y]), x))
        )
        == "carried-mismatch"
    )
    assert (
        refused(lambda x: first(dd.while_loop(lambda y: dd.all(y < 9), lambda y: y > 0, x)))
        == "carried-mismatch"
    )
    assert refused(lambda x: first(dd.scan(lambda s, v: (s + v,), x, dd.sum(x)))) == "scan-length"
