"""Branches, loops and scans by tracing: captures, sizes that change, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array

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
            return dd.cond(dd.any(x > 2), lambda: a - z, lambda: z), a

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
        return dd.cond(c, lambda: dd.concat([x, x], axis=0), lambda: x * 2) - 1

    assert same(f, f32(1, 2), np.asarray(np.True_))[0].tolist() == [0, 1, 0, 1]
    assert same(f, f32(1, 2), np.asarray(np.False_))[0].tolist() == [1, 3]
    assert dd.check(f).agree


def test_a_loop_within_a_loop() -> None:
    @dd.trace(dd.f32[3], dd.i64[()])
    def f(x: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
        def more(j: dd.Tensor, z: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            return j + 1, z + x

        def outer(i: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            def inside(j: dd.Tensor, z: dd.Tensor) -> dd.Tensor:
                del z
                return j < i

            _, z = dd.while_loop(inside, more, 0, y)
            return i + 1, z

        def again(i: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
            del y
            return i < k

        _, y = dd.while_loop(again, outer, 0, x * 0)
        return y

    assert same(f, f32(1, 2, 3), np.asarray(np.int64(4)))[0].tolist() == [6, 12, 18]
    assert same(f, f32(1, 2, 3), np.asarray(np.int64(0)))[0].tolist() == [0, 0, 0]


def test_what_is_carried_may_grow() -> None:
    @dd.trace(dd.f32[n, 2], dd.i64[()])
    def f(x: dd.Tensor, k: dd.Tensor) -> dd.Tensor:
        rows = dd.slice(x, [0, 0], [0, 2], [1, 1])

        def below(i: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
            del y
            return i < k

        def grow(i: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            return i + 1, dd.concat([y, x], axis=0)

        _, y = dd.while_loop(below, grow, 0, rows, most=24)
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

    x = np.array([[0, 1, -1], [0, 0, 0], [2, -3, 4]], np.float32)
    i, j, added, values = same(f, x)
    assert (i.tolist(), j.tolist()) == ([0, 2, 2], [1, 0, 2])
    assert float(added) == 3
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


def test_a_value_of_a_branch_that_is_kept() -> None:
    kept: list[dd.Tensor] = []

    def leak(x: dd.Tensor) -> dd.Tensor:
        def branch() -> dd.Tensor:
            kept.append(x * 2)
            return x

        dd.cond(dd.any(x > 0), branch, branch)
        return x + kept[0]

    assert refused(leak) == "foreign-value"


def test_branches_that_do_not_fit() -> None:
    def wrong_condition(x: dd.Tensor) -> dd.Tensor:
        return dd.cond(x, lambda: x, lambda: -x)

    def two_ranks(x: dd.Tensor) -> dd.Tensor:
        return dd.cond(dd.any(x > 0), lambda: x, lambda: dd.sum(x))

    assert refused(wrong_condition) == "G-if"
    assert refused(two_ranks) == "branch-mismatch"


def small(y: dd.Tensor) -> dd.Tensor:
    return dd.all(y < 9)


def twice(y: dd.Tensor) -> dd.Tensor:
    return dd.concat([y, y], axis=0)


def positive(y: dd.Tensor) -> dd.Tensor:
    return y > 0


def total(s: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor]:
    return (s + v,)


def test_bodies_that_do_not_fit() -> None:
    assert refused(lambda x: dd.while_loop(small, twice, x)[0]) == "carried-mismatch"
    assert refused(lambda x: dd.while_loop(small, positive, x)[0]) == "carried-mismatch"
    assert refused(lambda x: dd.scan(total, x, dd.sum(x))[0]) == "scan-length"


def test_functions_that_stay_are_traced_once_for_each_types() -> None:
    seen: list[object] = []

    @dd.noinline
    def layer(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        seen.append(x.shape)
        return x * w, x + dd.astype(dd.sum(dd.nonzero(w)[0]), dd.f32)

    @dd.trace(dd.f32[3], dd.f32[2, 3])
    def f(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, ...]:
        a, b = layer(x, x)
        c, d = dd.cond(dd.sum(x) > 0, lambda: layer(b, a), lambda: layer(a, b))
        return c, d, *layer(y, y)

    assert seen == [(3,), (2, 3)]
    m = f.module
    assert [(g.name, "NoInline" in g.attr) for g in m.functions] == [
        ("layer", True), ("then", False), ("otherwise", False), ("layer_1", True), ("f", False),
    ]  # fmt: skip
    same(f, f32(1, 0, 2), np.array([[1, 2, 0], [0, 0, 5]], np.float32))
    report = dd.check(f, engines=["host", "simt"])
    assert report.agree, report.findings[0]
    compiled = dd.compile(f).compiled
    assert [g.name for g in compiled.program.functions] == ["layer", "layer_1"]


def test_functions_that_stay_may_use_what_is_around_them() -> None:
    @dd.trace(dd.f32[4], dd.f32[4])
    def f(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        z = x + y

        @dd.noinline
        def shifted(v: dd.Tensor) -> dd.Tensor:
            return v + y

        @dd.noinline
        def scaled(v: dd.Tensor) -> dd.Tensor:
            return shifted(v * z)

        def going(i: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
            return i < 3

        def turn(i: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, ...]:
            return i + 1, scaled(v)

        _, found = dd.while_loop(going, turn, 0, scaled(x))
        return found

    same(f, f32(1, 2, 3, 4), f32(0.5, -1, 2, 0))


def test_sizes_of_a_function_that_stays_are_its_own() -> None:
    @dd.noinline
    def places(x: dd.Tensor) -> dd.Tensor:
        return dd.nonzero(x)[0]

    def f(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(places(x))

    with pytest.raises(DidymaError) as caught:
        dd.trace(dd.f32[4])(f)
    assert caught.value.code == "G-unbacked"
