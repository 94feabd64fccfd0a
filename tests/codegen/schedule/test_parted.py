"""Few long rows whose blocks share a row in two kernels: read twice, and right wherever it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule import dispatch
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from tests.codegen.schedule.test_online import FOUND

SM_90A = dd.Options(target="sm_90a")


def over_last(x: dd.Tensor) -> dd.Tensor:
    return dd.log_softmax(x, axis=-1)


def with_mean(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=1, keepdims=True)
    far = x - mean
    return far * dd.rsqrt(dd.mean(far * far, axis=1, keepdims=True) + 1e-5), mean


def at_place(x: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    return dd.log_softmax(x, axis=1) - dd.take_along_axis(x, at, axis=1)


def chosen(p: dd.Program, point: str) -> dd.Options:
    (name,) = compile(p.module, SM_90A, until="lower").loops
    return SM_90A.changed({"kernels.choices": f"{name}: parted({point})"})


POINTS = ("lanes=128, online=1, parts=2, wide={}", "lanes=128, online=2, parts=8, wide={}")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("f", "types", "wide"),
    [
        (FOUND["softmax"][0], (dd.f32[9, 5000],), 4),
        (FOUND["normalised"][0], (dd.f32[9, 4999],), 4),
        (FOUND["softmax"][0], (dd.bf16[8, 9003],), 8),
        (FOUND["normalised"][0], (dd.f64[8, 4097],), 2),
        (over_last, (dd.f32[2, 5, 4098],), 2),
        (with_mean, (dd.bf16[8, 8200],), 8),
        (at_place, (dd.f32[8, 4099], dd.i64[8, 1]), 4),
    ],
)
def test_parts_of_rows_agree(
    f: Callable[..., Any], types: tuple[Any, ...], wide: int, point: str
) -> None:
    p = dd.trace(*types)(f)
    report = dd.check(p, engines=["simt"], options=chosen(p, point.format(wide)), tries=1)
    assert report.agree, [str(x) for x in report.findings]


def rows(seed: int, length: int) -> Array:
    """Return rows in whose parts special values stand."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((16, length)) * 10.0 ** rng.integers(-3, 4, (16, 1))
    at, half = rng.integers(length), length // 2
    x[1], x[2, : 3 * half // 2], x[3, half:] = -np.inf, -np.inf, -np.inf
    x[4, at], x[5, at], x[6, at] = np.inf, -np.inf, np.nan
    x[7], x[8], x[9] = 3.25, 3e38, 1e20
    x[10], x[11, :half] = np.arange(length) / 64, 1e6
    x[12] += 1e4
    return x.astype(np.float32)


@pytest.mark.parametrize("name", ["softmax", "normalised", "masked"])
@pytest.mark.parametrize("length", [2048, 2053])
def test_special_values_are_those_of_whole_rows(name: str, length: int) -> None:
    p = dd.trace(dd.f32[16, length])(FOUND[name][0])
    exe = dd.compile(p, engine="host", options=chosen(p, "lanes=128, online=1, parts=4, wide=4"))
    for seed in range(2):
        x = rows(seed, length)
        assert dd.interpret(p, x).contains(exe(x))


def test_a_row_is_read_twice_and_written_once() -> None:
    p, traffic = dd.trace(dd.f32[8, 4099])(FOUND["softmax"][0]), Traffic()
    x = rows(0, 4099)[:8]
    options = chosen(p, "lanes=128, online=2, parts=8, wide=4")
    y = dd.compile(p, engine=Simt(traffic=traffic), options=options)(x)
    assert np.asarray(y).shape == x.shape
    read = [n for (_, name), n in traffic.read.items() if name == "x"]
    assert read == [x.nbytes, x.nbytes]
    assert traffic.written.total() == x.nbytes + 2 * 4 * 8 * 8


@pytest.mark.parametrize(
    ("shape", "is_parted"),
    [((64, 1 << 18), True), ((512, 1 << 18), False), ((4096, 4096), False), ((64, 2048), False)],
)
def test_the_model_parts_few_long_rows_that_caches_hold(
    shape: tuple[int, int], is_parted: bool
) -> None:
    p = dd.trace(dd.bf16[shape])(FOUND["softmax"][0])
    (loops,) = compile(p.module, SM_90A, until="lower").loops.values()
    (first,) = dispatch.first(loops, SM_90A)
    assert (first.recipe == "parted") is is_parted


def used_again(x: dd.Tensor) -> dd.Tensor:
    y = dd.softmax(x, axis=-1)
    return y / dd.sum(y * y, axis=-1, keepdims=True)


def scaled(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x / dd.sum(dd.abs(x), axis=-1, keepdims=True), axis=-1)


def with_place(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=-1), dd.argmax(x, axis=-1)


@pytest.mark.parametrize("f", [used_again, scaled, with_place])
def test_rows_of_three_folds_are_not_parted(f: Callable[..., Any]) -> None:
    p = dd.trace(dd.f32[8, 1 << 18])(f)
    (loops,) = compile(p.module, SM_90A, until="lower").loops.values()
    assert all(s.recipe != "parted" for s in dispatch.first(loops, SM_90A))
    small = dd.trace(dd.f32[8, 4100])(f)
    options = chosen(small, "lanes=128, online=1, parts=4, wide=4")
    with pytest.raises(DidymaError, match="parted"):
        compile(small.module, options)
