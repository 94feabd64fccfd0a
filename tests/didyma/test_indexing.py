"""Indexing as NumPy does it: every expression is traced, interpreted and compared with NumPy."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import didyma as dd
from didyma.refimpl.ir.types import Array
from tests.didyma.tracing import Three, fail, interpreted, traced

X = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
ROW = np.array([2, 0, -1])
PAIR = np.array([[1], [0]])
MASK = np.array([True, False, True])
PLANE = X[:, :, 0] % 3 == 0
ALL = X % 2 == 0

BASIC = """
0 | -1 | 1, 2 | 1, 2, 3 | ... | ..., 0 | 0, ... | 0, ..., 1 | -1, :, -2 | 0:0 | np.int64(1)
:, 1:-1 | ::2 | ::-1 | :, ::-1 | :, :, ::-2 | 5: | -100:100 | 2:1 | :, 3:0:-1 | :, 3:0:-2 | :, -1:
:, :-1 | 1:2, ::3, -2::-1 | :, :, -5:5:2 | :, :, -1:-4:-1 | :, 10::-1 | None | :, None | ..., None
None, ..., 0, None | 0, None, 1 | 0, 0, None, 0 | None, None | np.array(1) | ()
"""
ARRAYS = """
ROW | :, [0, 2] | :, :, ROW | 0, ROW | :, 0, ROW | 0, :, ROW | ROW, 0 | ROW, :, 0 | ROW, PAIR
PAIR, ROW | ROW, :, ROW | :, ROW, ROW | None, ROW, : | ROW, None, PAIR | ROW, None, :, PAIR
:, ROW[:2], PAIR | [0, 1], [1, 2], [2, 3] | [[0, 1], [1, 0]] | ..., ROW | ROW, ..., 0 | [0], :, [1]
MASK | :, [True, False, True, False] | PLANE | PLANE, 0 | PLANE, ::2 | ALL | MASK, 0 | MASK, 0, 1
MASK, :, ROW[:2] | :, np.array([], np.int64) | [] | np.uint8([1, 2]) | ROW, ::-1, None | PAIR, PAIR
"""


def keys(table: str) -> list[str]:
    return [k.strip() for line in table.strip().splitlines() for k in line.split("|")]


def key_of(text: str) -> Any:
    found: tuple[object, ...] = eval(f"np.index_exp[{text}]", globals())
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("text", keys(BASIC) + keys(ARRAYS))
def test_an_index_gives_what_numpy_gives(text: str) -> None:
    key = key_of(text)
    (got,) = interpreted(lambda x: x[key], X)
    want = X[key]
    assert got.shape == want.shape
    assert got.tolist() == want.tolist()


def test_the_table_is_long() -> None:
    assert len(keys(BASIC)) + len(keys(ARRAYS)) >= 60


@settings(max_examples=150, deadline=None, database=None)
@given(st.data())
def test_any_index_gives_what_numpy_gives(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    basic = hnp.basic_indices(shape, allow_newaxis=True, max_dims=6)
    key = data.draw(st.one_of(basic, hnp.integer_array_indices(shape)))
    x = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    (got,) = interpreted(lambda x: x[key], x)
    want = np.asarray(x[key])
    assert (got.shape, got.tolist()) == (want.shape, want.tolist())


TENSORS: dict[str, Three] = {
    "x[i]": lambda x, i, m: x[i],
    "x[:, i]": lambda x, i, m: x[:, i],
    "x[i, 0]": lambda x, i, m: x[i, 0],
    "x[i, i]": lambda x, i, m: x[i, i],
    "x[i, :, i]": lambda x, i, m: x[i, :, i],
    "x[0, :, i]": lambda x, i, m: x[0, :, i],
    "x[i, [[0], [1]]]": lambda x, i, m: x[i, [[0], [1]]],
    "x[i[0]]": lambda x, i, m: x[i[0]],
    "x[..., i[0]]": lambda x, i, m: x[..., i[0]],
    "x[m]": lambda x, i, m: x[m],
    "x[m, 1:]": lambda x, i, m: x[m, 1:],
    "x[:, m[0]]": lambda x, i, m: x[:, m[0]],
    "x[:, :3, :3][:, m[:, :3]]": lambda x, i, m: x[:, :3, :3][:, m[:, :3]],
    "x[x > 7]": lambda x, i, m: x[x > 7],
}


@pytest.mark.parametrize("text", TENSORS)
def test_tensors_index_as_arrays_do(text: str) -> None:
    f = TENSORS[text]
    for dtype in (np.int32, np.int64, np.uint8):
        i = np.array([2, 0, 1], dtype)
        (got,) = interpreted(f, X, i, PLANE)
        want = f(X, i, PLANE)
        assert got.shape == want.shape
        assert got.tolist() == want.tolist()


def test_index_tensors_count_from_the_end_once_and_stop_at_the_ends() -> None:
    (got,) = interpreted(lambda x, i: x[i], np.array([10, 20, 30]), np.array([-1, -3, -9, 2, 9]))
    assert got.tolist() == [30, 10, 10, 30, 30]


N = dd.dim("n", 1, 9)
M = dd.dim("m", 4, 9)
SYMBOLIC = """
x[:n-1] | x[1:] | x[x.shape[0]-1] | x[0] | x[-1] | x[n-1] | x[n//2] | x[::-1] | x[::2] | x[::-2]
x[1:-1] | x[-3:] | x[:-3] | x[7:2:-1] | x[-2::-1] | x[:-4:-1] | x[-2:-20:-3] | x[5:] | x[n:] | x[:n]
x[:, None] | x[..., 0] | x[:, -1] | x[x[:, 0] > 4] | x[x > 7] | x[1:] - x[:-1] | x[[0, 0, -1]]
x[n-1:0:-1] | x[:x.shape[0]//2] | x[-n] | x[n-n] | x[0:1] | x[:1][0] | x[-1:] | x[x.shape[0]-n:]
"""


@pytest.mark.parametrize("text", keys(SYMBOLIC))
def test_symbolic_axes_are_indexed_as_numpy_does(text: str) -> None:
    def f(x: Any, n: Any = N) -> Any:
        return eval(text, {"x": x, "n": n})

    program = dd.trace(dd.f32[N, 2])(f)
    for n in (1, 2, 3, 9):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        (got,) = dd.interpret(program, x).values
        want = f(x, n)
        assert got.shape == want.shape
        assert got.tolist() == want.tolist()


def test_a_size_that_is_known_for_the_whole_range_is_an_int() -> None:
    program = traced(lambda x: (x[:3], x[1:4:2], x[-1:], x[3]), dd.f32[M, 2])
    shapes = [t.shape for t in program.module.entry.result_types()]
    assert shapes == [(3, 2), (2, 2), (1, 2), (2,)]


def test_every_level_agrees_on_indices() -> None:
    @dd.trace(dd.f32[M, 4, 5], dd.i64[3], dd.bool[4])
    def program(x: dd.Tensor, i: dd.Tensor, m: dd.Tensor) -> tuple[dd.Tensor, ...]:
        return (
            x[0], x[1:, ::2], x[::-1, 1:-1], x[i], x[:, i, 0], x[i, :, i], x[:, m], x[x > 0],
            x[..., None, -1], x[[0, -1], [1, 2]],
        )  # fmt: skip

    report = dd.check(program, engines=["host", "simt"])
    assert report.agree, report.findings[0]


BAD: dict[str, tuple[str, str]] = {
    "x[4]": ("bad-index", "index 4"),
    "x[-4]": ("bad-index", "index -4"),
    "x[0, 0, 0, 0]": ("bad-index", "at most 3"),
    "x[..., ...]": ("bad-index", "at most one"),
    "x[::0]": ("bad-index", "step of 0"),
    "x[1.5]": ("bad-index", "astype"),
    "x['a']": ("bad-index", "'a'"),
    "x[True]": ("bad-index", "dd.where"),
    "x[np.array([.5])]": ("bad-index", "astype"),
    "x[[1, [2]]]": ("bad-index", "inhomogeneous"),
    "x[x.astype('f32')]": ("bad-index", "astype"),
    "x[:, [9]]": ("bad-index", "index 9"),
    "x[:, [-9]]": ("bad-index", "index -9"),
    "x[:2.5]": ("bad-index", "2.5"),
    "x[::1.5]": ("bad-index", "1.5"),
    "x[:x[0, 0, 0]]": ("bad-index", "dd.take"),
    "x[[True, False]]": ("shape-mismatch", "mask"),
    "x[x[0] > 1]": ("shape-mismatch", "mask"),
    "x[[0, 1], [0, 1, 2]]": ("shape-mismatch", "equal or 1"),
    "x[x[0, 0, 0] > 1]": ("bad-index", "dd.where"),
    "y[5]": ("bad-index", "n in 1..9"),
    "y[[1]]": ("bad-index", "dd.take"),
    "y[n]": ("bad-index", "index n"),
    "y[:n-4]": ("bad-index", "may be negative"),
    "y[::n]": ("bad-index", "step of n"),
    "list(y)": ("bad-size", "dd.scan"),
    "len(y)": ("bad-size", "x.shape[0]"),
    "len(x[0, 0, 0])": ("bad-size", "rank 1"),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_index_is_told_in_codes(text: str) -> None:
    def f(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        result: dd.Tensor = eval(text, {"x": x, "y": y, "n": N, "np": np})
        return result

    code, word = BAD[text]
    with fail(code, word):
        dd.trace(dd.i32[3, 4, 5], dd.f32[N])(f)


def test_rows_of_a_known_axis_are_unpacked() -> None:
    def f(x: dd.Tensor) -> dd.Tensor:
        first, *others = x
        assert len(others) == len(x) - 1
        return first + sum(others)

    x: Array = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert interpreted(f, x)[0].tolist() == x.sum(0).tolist()


@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_constant_of_a_symbolic_size_is_sliced_from_its_end(n: int) -> None:
    size = dd.dim("n", 1, 9)

    @dd.trace(dd.f32[size])
    def ends(x: dd.Tensor) -> list[dd.Tensor]:
        made = [dd.arange(size), dd.zeros(size), dd.full(size, 2.5), dd.eye(size)]
        return [x[-1:], *(a[-1:] for a in made), dd.arange(2, size + 2)[1:]]

    x = np.ones(n, np.float32)
    found = dd.interpret(ends, x).values
    want: list[Array] = [x, np.arange(n), np.zeros(n), np.full(n, 2.5), np.eye(n)]
    for got, full in zip(found, want, strict=False):
        np.testing.assert_array_equal(got, full[-1:])
    np.testing.assert_array_equal(found[-1], np.arange(2, n + 2)[1:])
