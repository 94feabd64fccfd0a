"""Results as large as the data says, against NumPy and a plain loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from didyma.composites import selection
from didyma.composites.builder import Builder, Value
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.verify.graph import verify

Body = Callable[[Builder, Sequence[Value]], Sequence[Value]]


def run(body: Body, *args: Array, symbolic: bool = False) -> list[Array]:
    """Results of a function of arrays; with symbolic sizes if asked."""
    b = Builder()
    params: list[Value] = []
    for i, a in enumerate(args):
        shape = tuple(symbol(f"n{i}_{k}") if symbolic else d for k, d in enumerate(a.shape))
        if symbolic:
            b.know([DimVar(f"n{i}_{k}", 0, 20) for k in range(a.ndim)])
        params.append(b.param(f"p{i}", TensorType(DType.of(a), shape)))
    m = b.module("main", body(b, params))
    verify(m)
    return graph.run(m, args)


MASKS: list[Array] = [
    np.array([[1, 0, 2], [0, 0, -3]], np.int32),
    np.zeros((2, 3), np.float32),
    np.array([[np.nan, -0.0], [0.0, 1.0]], np.float32),
    np.zeros((0, 3), np.bool_),
    np.array([True, False, True]),
    np.ones((2, 2, 2), np.uint8),
]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("x", MASKS, ids=[f"{a.dtype}{a.shape}" for a in MASKS])
def test_nonzero(x: Array, symbolic: bool) -> None:
    got = run(lambda b, p: selection.nonzero(b, p[0]), x, symbolic=symbolic)
    assert [a.tolist() for a in got] == [a.tolist() for a in np.nonzero(x)]


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_compress(axis: int | None) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    where = np.array([True, False, True])
    (got,) = run(lambda b, p: [selection.compress(b, p[0], p[1], axis)], x, where)
    assert got.tolist() == np.compress(where, x, axis).tolist()


def distinct(x: Array, by_value: bool) -> list[Array]:
    def body(b: Builder, p: Sequence[Value]) -> list[Value]:
        u = selection.unique(b, p[0], by_value)
        return [u.values, u.indices, u.inverse, u.counts]

    return run(body, x)


VALUES: list[Array] = [
    np.array([3, 1, 3, 2, 1, 3], np.int64),
    np.array([[2.5, -1.0], [-1.0, 0.0]], np.float32),
    np.array([True, False, True]),
    np.array([], np.float32),
    np.array([7, 7, 7], np.uint8),
]


@pytest.mark.parametrize("x", VALUES, ids=[f"{a.dtype}{a.shape}" for a in VALUES])
def test_unique(x: Array) -> None:
    values, first, inverse, counts = distinct(x, by_value=True)
    want = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    assert values.tolist() == want[0].tolist()
    assert first.tolist() == want[1].tolist()
    assert inverse.tolist() == want[2].reshape(-1).tolist()
    assert counts.tolist() == want[3].tolist()
    values, first, inverse, _ = distinct(x, by_value=False)
    assert first.tolist() == sorted(want[1].tolist())
    assert values[inverse].tolist() == x.reshape(-1).tolist()


def test_unique_of_nans() -> None:
    x = np.array([np.nan, 1, np.nan, -0.0, 0.0, np.inf], np.float32)
    values, first, inverse, counts = distinct(x, by_value=True)
    assert first.tolist() == [3, 1, 5, 0, 2]
    assert inverse.tolist() == [3, 1, 4, 0, 0, 2]
    assert counts.tolist() == [2, 1, 1, 1, 1]
    assert np.isnan(values[3:]).all()


def kept(boxes: Array, scores: Array, most: int, overlap: float, least: float) -> list[list[int]]:
    """Greedy suppression, box by box."""
    found: list[list[int]] = []
    for at, column in np.ndindex(scores.shape[:2]):
        taken: list[int] = []
        for i in np.argsort(-scores[at, column], kind="stable"):
            free = all(_overlap(boxes[at, i], boxes[at, j]) <= overlap for j in taken)
            if scores[at, column, i] > least and free and len(taken) < most:
                taken.append(int(i))
        found += [[at, column, i] for i in taken]
    return found


def _overlap(a: Array, b: Array) -> float:
    (a0, a1), (b0, b1) = np.sort(a.reshape(2, 2), 0), np.sort(b.reshape(2, 2), 0)
    shared = _area(np.maximum(np.minimum(a1, b1) - np.maximum(a0, b0), 0))
    return shared / (_area(a1 - a0) + _area(b1 - b0) - shared)


def _area(sides: Array) -> float:
    return float(sides[0]) * float(sides[1])


@pytest.mark.parametrize(
    ("most", "overlap", "least"), [(3, 0.3, 0.2), (20, 0.1, -1.0), (1, 0.5, 2)]
)
def test_suppression(most: int, overlap: float, least: float) -> None:
    rng = np.random.default_rng(3)
    boxes = rng.random((2, 7, 4)).astype(np.float32)
    scores = rng.random((2, 3, 7)).astype(np.float32)

    def body(b: Builder, p: Sequence[Value]) -> list[Value]:
        return [selection.non_max_suppression(b, p[0], p[1], most, overlap, least)]

    (got,) = run(body, boxes, scores)
    assert got.tolist() == kept(boxes, scores, most, overlap, least)


def test_suppression_of_centred_boxes() -> None:
    boxes = np.array([[[1, 1, 2, 2], [1.1, 1, 2, 2], [9, 9, 1, 1]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.1]]], np.float32)

    def body(b: Builder, p: Sequence[Value]) -> list[Value]:
        return [selection.non_max_suppression(b, p[0], p[1], 3, 0.5, centred=True)]

    (got,) = run(body, boxes, scores)
    assert got.tolist() == [[0, 0, 1], [0, 0, 2]]
