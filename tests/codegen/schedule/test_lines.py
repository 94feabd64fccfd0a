"""Folds of columns whose lines begin between wide accesses: several lines are taken as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule import dispatch
from didyma.refimpl.ir.types import Array
from didyma.tracer.types import Spec

SM_90A = dd.Options(target="sm_90a")


def total(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


def largest(x: dd.Tensor) -> dd.Tensor:
    return dd.max(x, axis=0)


def place(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=0)


def weighted(x: dd.Tensor, rows: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * rows[:, None], axis=0)


def products(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * y, axis=0)


def first(f: Callable[..., Any], *types: Spec) -> str:
    """Return the point that the model ranks first for the first function."""
    loops = compile(dd.trace(*types)(f).module, SM_90A, until="lower").loops
    return str(dispatch.first(next(iter(loops.values())), SM_90A)[0])


CASES: tuple[tuple[Callable[..., Any], tuple[Spec, ...], int], ...] = (
    (total, (dd.bf16[4000, 101],), 8),
    (total, (dd.f16[4000, 102],), 4),
    (total, (dd.f64[4002, 33],), 2),
    (total, (dd.i8[4000, 102],), 8),
    (largest, (dd.f32[4004, 102],), 2),
    (products, (dd.f32[4000, 101], dd.f32[4000, 101]), 4),
)
IDS = [f"{f.__name__}-{types[0]}" for f, types, _ in CASES]


@pytest.mark.parametrize(("f", "types", "count"), CASES, ids=IDS)
def test_lines_that_are_taken_as_one_agree(
    f: Callable[..., Any], types: tuple[Spec, ...], count: int
) -> None:
    assert f"lines={count}" in first(f, *types)
    report = dd.check(dd.trace(*types)(f), engines=["simt"], options=SM_90A, tries=2)
    assert report.agree, [str(x) for x in report.findings]


@pytest.mark.parametrize(("f", "types", "count"), CASES, ids=IDS)
def test_an_element_is_loaded_once_and_with_its_neighbours(
    f: Callable[..., Any], types: tuple[Spec, ...], count: int
) -> None:
    del count
    rng, traffic = np.random.default_rng(3), Traffic()
    shapes = ([n for n in t.type.shape if isinstance(n, int)] for t in types)
    drawn = [rng.integers(-9, 9, shape) for shape in shapes]
    xs: list[Array] = [x.astype(t.type.dtype.numpy) for x, t in zip(drawn, types, strict=True)]
    dd.compile(dd.trace(*types)(f), engine=Simt(traffic=traffic), options=SM_90A)(*xs)
    read = sum(n for (_, name), n in traffic.read.items() if name == "x")
    accesses = sum(n for (_, name), n in traffic.accesses.items() if name == "x")
    assert read == xs[0].nbytes
    assert accesses * 16 == read


@pytest.mark.parametrize(
    ("f", "types"),
    [
        (total, (dd.f32[4001, 101],)), (total, (dd.f32[4000, 104],)),
        (total, (dd.f32[dd.dim("n", 1, 5000), 101],)), (place, (dd.f32[4000, 101],)),
        (weighted, (dd.f32[4000, 101], dd.f32[4000])),
    ],
)  # fmt: skip
def test_lines_stay_apart(f: Callable[..., Any], types: tuple[Spec, ...]) -> None:
    """So they do where some would be left, accesses divide each, or terms need their number."""
    assert "lines" not in first(f, *types)
