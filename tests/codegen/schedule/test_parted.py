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
from didyma.refimpl.ir.loop import Fold
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.tracer.types import Spec
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


def fraction(x: dd.Tensor) -> dd.Tensor:
    return x / dd.sum(x, axis=-1, keepdims=True)


def logs(x: dd.Tensor) -> dd.Tensor:
    top = dd.max(x, axis=-1, keepdims=True)
    return dd.log(dd.sum(dd.exp(x - top), axis=-1, keepdims=True)) + top


def spread(x: dd.Tensor) -> dd.Tensor:
    far = x - dd.mean(x, axis=-1, keepdims=True)
    return far / dd.sqrt(dd.mean(dd.abs(far), axis=-1, keepdims=True))


def statistics(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=-1, keepdims=True)
    return mean, dd.mean((x - mean) * (x - mean), axis=-1, keepdims=True)


SHARED = {"softmax": FOUND["softmax"][0], "logarithms": over_last, "norm": with_mean}
APART = {"fraction": fraction, "spread": spread, "again": used_again, "place": with_place}


def kernels(f: Callable[..., Any], shape: tuple[int, ...]) -> list[str]:
    loops = compile(dd.trace(dd.f32[shape])(f).module, SM_90A, until="lower").loops
    return [s.recipe for x in loops.values() for s in dispatch.first(x, SM_90A)]


@pytest.mark.parametrize(
    ("shape", "recipe"),
    [
        ((3, 1 << 18), "parted"), ((4, 1000003), "parted"), ((2, 50257), "cluster"),
        ((7, 1 << 15), "cluster"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("f", SHARED.values(), ids=SHARED)
def test_very_few_long_rows_are_joined(
    f: Callable[..., Any], shape: tuple[int, ...], recipe: str
) -> None:
    assert kernels(f, shape) == [recipe]


@pytest.mark.parametrize(
    ("of", "point"),
    [
        (dd.f32[1, 1 << 18], "lanes=256, online=2, parts=128, wide=4"),
        (dd.f32[4, 1000003], "lanes=256, online=4, parts=128, wide=4"),
        (dd.bf16[4, 1000003], "lanes=256, online=4, parts=128, wide=8"),
        (dd.f32[1, 1 << 23], "lanes=512, online=4, parts=128, wide=4"),
        (dd.bf16[1, 200000], "lanes=256, online=2, parts=64, wide=8"),
    ],
)
def test_parts_of_very_few_rows_have_work_for_all_multiprocessors(of: Spec, point: str) -> None:
    p = dd.trace(of)(FOUND["softmax"][0])
    (loops,) = compile(p.module, SM_90A, until="lower").loops.values()
    (first,) = dispatch.first(loops, SM_90A)
    assert str(first) == f"parted({point})"


@pytest.mark.parametrize("shape", [(1 << 18,), (1, 1 << 18)])
def test_one_row_alone_is_parted(shape: tuple[int, ...]) -> None:
    assert kernels(over_last, shape) == ["parted"]


def test_one_row_whose_own_results_are_stored_is_folded_no_more_often() -> None:
    assert kernels(with_mean, (1, 1 << 18)) == ["parted"]
    (loops,) = compile(
        dd.trace(dd.f32[1, 1 << 18])(with_mean).module, SM_90A, until="lower"
    ).loops.values()
    assert sum(isinstance(s, Fold) for s in stmts(loops.body)) == 2


@pytest.mark.parametrize("f", APART.values(), ids=APART)
def test_folds_that_blocks_do_not_share_stay_apart(f: Callable[..., Any]) -> None:
    found = kernels(f, (2, 1 << 18))
    assert len(found) > 1
    assert "parted" not in found


def test_rows_that_caches_do_not_hold_stay_apart() -> None:
    assert len(kernels(FOUND["softmax"][0], (1, 1 << 26))) > 1


def test_means_of_more_elements_than_are_counted_stay_apart() -> None:
    assert len(kernels(with_mean, (2, (1 << 24) + 1))) > 1
    assert kernels(over_last, (1, 1 << 24)) == ["parted"]


@pytest.mark.parametrize("f", [logs, statistics])
@pytest.mark.parametrize("shape", [(1 << 18,), (1, 1 << 18), (3, 1000003)])
def test_very_few_long_rows_that_are_only_folded_are_parted(
    f: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    assert kernels(f, shape) == ["parted"]


def norm_down(x: dd.Tensor) -> dd.Tensor:
    far = x - dd.mean(x, axis=0, keepdims=True)
    return far * dd.rsqrt(dd.mean(far * far, axis=0, keepdims=True) + 1e-5)


def softmax_down(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=0)


def channels_last(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=(0, 1))
    return mean, dd.mean((x - mean) * (x - mean), axis=(0, 1))


@pytest.mark.parametrize("f", [norm_down, softmax_down])
@pytest.mark.parametrize(
    ("shape", "recipes"),
    [
        ((20000, 64), ["parted", "pointwise"]), ((5000, 3), ["parted", "pointwise"]),
        ((1000, 64), ["rows"]), ((5000, 4096), ["looped"]),
    ],
)  # fmt: skip
def test_few_long_columns_are_folded_by_one_kernel_and_stored_by_another(
    f: Callable[..., Any], shape: tuple[int, ...], recipes: list[str]
) -> None:
    assert kernels(f, shape) == recipes


def logs_down(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    top = dd.max(x, axis=0)
    return top, dd.log(dd.sum(dd.exp(x - top), axis=0)) + top


COLUMNS = (
    "groups=32, lanes=1, online=1, parts=128, wide=1",
    "groups=8, lanes=16, online=2, parts=4, wide=1",
    "groups=16, lanes=8, online=4, parts=32, wide=1",
)


@pytest.mark.parametrize("point", COLUMNS)
@pytest.mark.parametrize(
    ("f", "of"),
    [
        (channels_last, dd.f32[20, 27, 37]), (channels_last, dd.bf16[5, 101, 9]),
        (channels_last, dd.f64[9, 64, 5]), (logs_down, dd.f32[555, 37]),
    ],
)  # fmt: skip
def test_parts_of_columns_agree(f: Callable[..., Any], of: Spec, point: str) -> None:
    p = dd.trace(of)(f)
    report = dd.check(p, engines=["simt"], options=chosen(p, point), tries=2)
    assert report.agree, [str(x) for x in report.findings]


@pytest.mark.parametrize("f", [norm_down, softmax_down])
def test_few_long_columns_are_read_twice_and_written_once(f: Callable[..., Any]) -> None:
    p, traffic = dd.trace(dd.f32[5000, 5])(f), Traffic()
    x = rows(1, 5000)[:5].T.copy()
    y = dd.compile(p, engine=Simt(traffic=traffic), options=SM_90A)(x)
    assert dd.interpret(p, x).contains(y)
    read = [n for (_, name), n in traffic.read.items() if name == "x"]
    assert read == [x.nbytes, x.nbytes]


def over_two(x: dd.Tensor) -> dd.Tensor:
    e = dd.exp(x - dd.max(x, axis=(1, 2), keepdims=True))
    return e / dd.sum(e, axis=(1, 2), keepdims=True)


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (FOUND["softmax"][0], (3, 4096)), (FOUND["masked"][0], (2, 9001)), (with_mean, (3, 5003)),
        (with_mean, (1, 4100)), (over_last, (4099,)), (over_two, (2, 63, 70)), (logs, (2, 4100)),
    ],
)  # fmt: skip
def test_very_few_long_rows_agree(f: Callable[..., Any], shape: tuple[int, ...]) -> None:
    p = dd.trace(dd.f32[shape])(f)
    report = dd.check(p, engines=["simt", "host"], options=SM_90A, tries=2)
    assert report.agree, [str(x) for x in report.findings]


@pytest.mark.parametrize("f", [over_two, over_last])
def test_parts_of_very_few_rows_agree(f: Callable[..., Any]) -> None:
    p = dd.trace(dd.f32[2, 63, 70] if f is over_two else dd.f32[1, 4100])(f)
    options = chosen(p, "lanes=128, online=2, parts=4, wide=2")
    report = dd.check(p, engines=["simt"], options=options, tries=2)
    assert report.agree, [str(x) for x in report.findings]
