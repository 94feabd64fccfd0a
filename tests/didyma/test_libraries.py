"""Routines of libraries as operations: both forms run, and are judged by their references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.libraries import LibraryOp
from didyma.refimpl.ir.types import Array
from tests.errors.test_codes import says

n = dd.dim("n", 1, 40)


def both(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x @ w, dd.sum(x, axis=0)


def allocating(x: Array, w: Array) -> tuple[Array, Array]:
    return np.asarray(x @ w), np.sum(x, axis=0)


def writing(x: Array, w: Array, *, out: tuple[Array, Array]) -> None:
    np.matmul(x, w, out=out[0])
    np.sum(x, axis=0, out=out[1])


def lazy(x: Array, w: Array, *, out: tuple[Array, Array]) -> None:
    np.matmul(x, w, out=out[0])


def wrong(x: Array, w: Array) -> tuple[Array, Array]:
    return np.asarray(x @ w), np.sum(x[1:], axis=0)


def flat(x: Array, w: Array) -> tuple[Array, Array]:
    return np.asarray(x @ w).reshape(-1), np.sum(x, axis=0)


def program(op: LibraryOp) -> dd.Program:
    @dd.trace(dd.f32[n, 5], dd.f32[5, 3])
    def around(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        y, s = op(x * 2.0, w)
        return dd.exp(y * 0.01), s

    return around


@pytest.fixture
def made() -> Iterator[Callable[..., dd.Program]]:
    ops: list[LibraryOp] = []

    def make(**forms: Any) -> dd.Program:
        ops.append(dd.library("mine", reference=both, **forms))
        return program(ops[-1])

    yield make
    for op in ops:
        op.withdraw()


@pytest.mark.parametrize("form", [{"call": allocating}, {"out": writing}])
def test_each_form_runs_and_agrees(form: Any, made: Callable[..., dd.Program]) -> None:
    p = made(**form)
    report = dd.check(p, tries=2)
    assert report.agree, report.findings
    assert "extern mine" in [level.name for level in report.levels]
    x, w = np.ones((4, 5), np.float32), np.ones((5, 3), np.float32)
    assert dd.interpret(p, x, w).contains(dd.compile(p)(x, w))


@pytest.mark.parametrize("form", [{"call": wrong}, {"out": lazy}])
def test_what_leaves_its_reference_is_named(form: Any, made: Callable[..., dd.Program]) -> None:
    report = dd.check(made(**form), tries=1, sizes={"n": 4})
    assert "extern mine" in {f.level for f in report.findings}


def test_bad_input_is_refused(made: Callable[..., dd.Program]) -> None:
    for forms in ({}, {"call": allocating, "out": writing}):
        with says("bad-call", "want: one of them"):
            made(**forms)
    for name in ("", "a b", "1x", "_x", 3, None):
        with says("bad-call", "a word that begins with a letter"):
            dd.library(name, reference=both, call=allocating)  # type: ignore[arg-type]  # 3
    p = made(call=flat)
    with says("extern-result", "float32[12]", "float32[4, 3]"):
        dd.compile(p)(np.ones((4, 5), np.float32), np.ones((5, 3), np.float32))
    with says("bad-reference", "3", "a function of tensors"):
        dd.library("three", reference=3, call=allocating)  # type: ignore[arg-type]  # as a user may
    with says("registered-twice", "mine"):
        dd.library("mine", reference=both, call=allocating)
    op = LibraryOp("mine", both)

    def counts(x: dd.Tensor) -> dd.Tensor:
        return op(x, 2.0)[0]

    with says("bad-call", "the number 2.0"):
        dd.trace(dd.f32[2, 5])(counts)


@pytest.mark.parametrize("form", ["call", "out"])
def test_a_routine_that_raises_is_named(form: str, made: Callable[..., dd.Program]) -> None:
    def broken(*arrays: Array, **out: object) -> None:
        raise RuntimeError("no licence")

    p = made(**{form: broken})
    with says("failed-part", "extern mine", "RuntimeError: no licence") as e:
        dd.compile(p)(np.ones((4, 5), np.float32), np.ones((5, 3), np.float32))
    assert isinstance(e.value.__cause__, RuntimeError)
    report = dd.check(p, tries=1, engines=["host"])
    assert "failed-part" in next(f.message for f in report.findings if f.level == "extern mine")


@pytest.mark.parametrize("m", [0, 3])
def test_results_without_axes_or_elements_are_written_in_place(m: int) -> None:
    def total(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.sum(x), x + x

    def out(x: Array, *, out: tuple[Array, Array]) -> None:
        np.sum(x, out=out[0])
        np.add(x, x, out=out[1])

    op = dd.library("total", reference=total, out=out)
    k = dd.dim("k", 0, 4)

    @dd.trace(dd.f32[k])
    def program(x: dd.Tensor) -> Sequence[dd.Tensor]:
        return tuple(op(x))

    s, y = dd.compile(program)(np.ones(m, np.float32))
    op.withdraw()
    assert s == m
    assert y.tolist() == [2.0] * m


def test_without_its_routine_a_program_is_run_by_the_reference() -> None:
    op = dd.library("gone", reference=both, call=wrong)
    p = program(op)
    op.withdraw()
    x, w = np.ones((4, 5), np.float32), np.ones((5, 3), np.float32)
    assert dd.interpret(p, x, w).contains(dd.compile(p)(x, w))
