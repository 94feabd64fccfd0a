"""Rows that lie side by side in memory, of which a thread has several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.schedule import dispatch
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.types import Array
from didyma.tracer.types import Spec

SM_90A = dd.Options(target="sm_90a")
N = dd.dim("n", 0, 50)


def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=0)


def norm(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=0)
    far = x - mean
    return far * dd.rsqrt(dd.mean(far * far, axis=0) + 1e-5) * w, mean


def statistics(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=(0, 1))
    return mean, dd.mean((x - mean) * (x - mean), axis=(0, 1))


def batches(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


def shared(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    """Read odd rows beside even ones: their elements are no neighbours that one access has."""
    return dd.softmax(x + y[:, 1:], axis=0)


def logs(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    top = dd.max(x, axis=0)
    return top, dd.log(dd.sum(dd.exp(x - top), axis=0)) + top


def placed(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=0), dd.argmax(x, axis=0)


def chosen(p: dd.Program, point: str) -> dd.Options:
    name, *_ = compile(p.module, SM_90A, until="lower").loops
    return SM_90A.changed({"kernels.choices": f"{name}: {point}"})


ROWS = "rows(each={}, groups=8, keep={}, lanes=4, online=0, wide=1)"
LOOPED = "looped(back=0, each={}, groups=4, lanes=8, online=2, wide=1)"
PARTED = "parted(each={}, groups=8, lanes=16, online=2, parts=4, wide=1)"
NORM = "rows(each={}, groups=8, lanes=4, online=0, wide=1)"

Case = tuple[Callable[..., Any], tuple[Spec, ...], str, int]
CASES: tuple[Case, ...] = (
    (softmax, (dd.bf16[90, 48],), ROWS.replace("keep={}", "keep=1"), 8),
    (softmax, (dd.f16[90, 44],), ROWS.replace("keep={}", "keep=0"), 4),
    (softmax, (dd.f32[70, N * 4],), ROWS.replace("keep={}", "keep=1"), 4),
    (softmax, (dd.bf16[201, 36],), LOOPED, 4),
    (norm, (dd.f32[75, 20], dd.f32[20]), NORM, 4),
    (norm, (dd.f32[300, 22], dd.f32[22]), LOOPED, 2),
    (batches, (dd.f16[3, 99, 24],), LOOPED, 8),
    (statistics, (dd.bf16[5, 101, 24],), PARTED, 8),
    (statistics, (dd.f64[9, 64, 10],), PARTED, 2),
    (logs, (dd.f16[555, 38],), PARTED, 2),
    (shared, (dd.bf16[80, 16], dd.bf16[80, 17]), ROWS.replace("keep={}", "keep=1"), 8),
    (placed, (dd.f32[80, 20],), ROWS.replace("keep={}", "keep=1"), 4),
)
IDS = [f"{f.__name__}-{point.partition('(')[0]}-{each}" for f, _, point, each in CASES]


def given(types: tuple[Spec, ...]) -> list[Array]:
    """Return arrays in whose columns special values stand."""
    rng = np.random.default_rng(7)
    found = list[Array]()
    for t in types:
        shape = tuple(n if isinstance(n, int) else 28 for n in t.type.shape)
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape[-1])
        if len(shape) > 1:
            x[..., 1], x[..., : shape[-2] // 2, 2], x[..., 1, 3] = -np.inf, -np.inf, np.inf
            x[..., 0, 4], x[..., 5] = np.nan, 3.25
        found.append(x.astype(t.type.dtype.numpy))
    return found


@pytest.mark.parametrize(("f", "types", "point", "each"), CASES, ids=IDS)
def test_rows_of_a_thread_agree(
    f: Callable[..., Any], types: tuple[Spec, ...], point: str, each: int
) -> None:
    p = dd.trace(*types)(f)
    options = chosen(p, point.format(each))
    report = dd.check(p, engines=["simt"], options=options, tries=2)
    assert report.agree, [str(x) for x in report.findings]


def either(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.any(x, axis=(0, 2)), dd.logical_or(dd.any(x, axis=(0, 2), keepdims=True), x)


def test_an_axis_of_one_element_is_no_distance_between_rows() -> None:
    p, point = dd.trace(dd.bool_[70, 8, 1])(either), LOOPED.format(2).replace("online=2, ", "")
    report = dd.check(p, engines=["simt"], options=chosen(p, point))
    assert report.agree, [str(x) for x in report.findings]


@pytest.mark.parametrize(("f", "types", "point", "each"), CASES, ids=IDS)
def test_every_bit_is_that_of_threads_with_one_row(
    f: Callable[..., Any], types: tuple[Spec, ...], point: str, each: int
) -> None:
    p, xs = dd.trace(*types)(f), given(types)
    several, one = (
        dd.compile(p, engine="host", options=chosen(p, point.format(n)))(*xs) for n in (each, 1)
    )
    for a, b in zip(outputs(several), outputs(one), strict=True):
        assert a.tobytes() == b.tobytes()


def outputs(found: Any) -> list[Array]:
    return [found] if isinstance(found, np.ndarray) else [*found]


@pytest.mark.parametrize(("f", "types", "point", "each"), CASES, ids=IDS)
def test_a_thread_loads_the_elements_of_its_rows_at_once(
    f: Callable[..., Any], types: tuple[Spec, ...], point: str, each: int
) -> None:
    p, xs, counts = dd.trace(*types)(f), given(types), list[int]()
    for n in (each, 1):
        traffic = Traffic()
        dd.compile(p, engine=Simt(traffic=traffic), options=chosen(p, point.format(n)))(*xs)
        counts.append(sum(k for (_, name), k in traffic.accesses.items() if name == "x"))
    assert counts[0] * each == counts[1]


@pytest.mark.parametrize(
    ("of", "each"),
    [
        (dd.bf16[20000, 64], 4), (dd.f32[20000, 64], 2), (dd.bf16[20000, 66], 2),
        (dd.bf16[20000, 65], None), (dd.f64[20000, 64], 1),
    ],
)  # fmt: skip
def test_the_model_gives_a_thread_eight_bytes_of_long_columns(of: Spec, each: int | None) -> None:
    (loops,) = compile(dd.trace(of)(logs).module, SM_90A, until="lower").loops.values()
    (first,) = dispatch.first(loops, SM_90A)
    assert first.recipe == "parted"
    assert first.table.get("each") == each


def test_a_number_of_rows_that_does_not_divide_them_is_refused() -> None:
    p = dd.trace(dd.bf16[201, 36])(softmax)
    with pytest.raises(DidymaError, match="each of 1, 2, 4"):
        compile(p.module, chosen(p, LOOPED.format(8)))


def plain_norm(x: dd.Tensor) -> dd.Tensor:
    wide = dd.astype(x, dd.f32)
    far = wide - dd.mean(wide, axis=0)
    return dd.astype(far * dd.rsqrt(dd.mean(far * far, axis=0) + 1e-5), dd.bf16)


@pytest.mark.parametrize("f", [softmax, plain_norm])
@pytest.mark.parametrize(
    ("columns", "point"),
    [
        (6000, "back=0, each=4, groups=8, lanes=128, online=8, shelf=0, wide=1"),
        (6001, "back=0, groups=32, lanes=32, online=16, shelf=0, wide=1"),
    ],
)
def test_columns_that_are_read_again_spill_no_registers(
    f: Callable[..., Any], columns: int, point: str
) -> None:
    module = dd.trace(dd.bf16[9000, columns])(f).module
    made = compile(module, SM_90A)
    (loops,) = made.loops.values()
    assert [str(x) for x in dispatch.first(loops, SM_90A)] == [f"looped({point})"]
    assert spills(made.text) == [0]


def spills(text: KernelText) -> list[int]:
    """Return the bytes that each kernel spills."""
    try:
        compiler = NvrtcCompiler()
    except EngineMissing as e:
        pytest.skip(str(e))
    return [r.spills for r in compiler.compile(text).resources]


@pytest.mark.parametrize(("rows", "recipe"), [(512, "rows"), (900, "looped")])
def test_threads_hold_no_more_of_columns_than_they_have_registers_for(
    rows: int, recipe: str
) -> None:
    made = compile(dd.trace(dd.f64[rows, 600])(softmax).module, SM_90A)
    (loops,) = made.loops.values()
    assert [x.recipe for x in dispatch.first(loops, SM_90A)] == [recipe]
    assert spills(made.text) == [0]


def norm_of_large(x: dd.Tensor) -> dd.Tensor:
    far = x - dd.mean(x, axis=0)
    return far * dd.rsqrt(dd.mean(far * far, axis=0) + 1e-5)


@pytest.mark.parametrize(("rows", "side"), [(480, 32), (500, 16), (768, 16)])
def test_threads_that_fold_columns_twice_at_once_have_fewer_elements_where_these_are_large(
    rows: int, side: int
) -> None:
    made = compile(dd.trace(dd.f64[rows, 600])(norm_of_large).module, SM_90A)
    (loops,) = made.loops.values()
    point = f"each=1, groups={side}, lanes={1024 // side}, online=1, wide=1"
    assert [str(x) for x in dispatch.first(loops, SM_90A)] == [f"rows({point})"]
    assert spills(made.text) == [0]
