"""How many threads the model gives a row, and whether they hold it: by length, dtype and count."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule import row_threads
from didyma.codegen.schedule.dispatch import first
from didyma.refimpl.ir.loop import Barrier, Const, For, LoopKind, PrimFunc
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts
from tests.codegen.row_programs import softmax, softmax_backward

SM_90A = Options(target="sm_90a")
F32, BF16 = DType.F32, DType.BF16
MANY = 1 << 16  # rows
HELD_ALONE = "streamed(blocks=128, groups=1, keep=1, lanes=1024, online=0, wide=8)"


def traced(f: Callable[..., Any], dtype: DType, *shape: int) -> dd.Program:
    t = getattr(dd, dtype.value)[shape]
    program: dd.Program = dd.trace(*[t] * (2 if f is softmax_backward else 1))(f)
    return program


def chosen(f: Callable[..., Any], dtype: DType, *shape: int) -> PrimFunc:
    program = traced(f, dtype, *shape)
    (kernels,) = compile(program.module, SM_90A, until="schedule").kernels.values()
    (k,) = kernels
    assert isinstance(k, PrimFunc)
    return k


def threads(k: PrimFunc) -> int:
    loops = [s for s in stmts(k.body) if isinstance(s, For) and s.axis.startswith("threadIdx")]
    count = 1
    for s in loops:
        assert isinstance(s.extent, Const)
        count *= int(s.extent.value)
    return count


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32])
@pytest.mark.parametrize("length", [40, 100, 128, 257, 768, 1000, 1023, 1024])
@pytest.mark.parametrize("f", [softmax, softmax_backward])
def test_short_rows_have_a_warp_each_and_wait_for_no_other(
    f: Callable[..., Any], length: int, dtype: DType
) -> None:
    k = chosen(f, dtype, MANY, length)
    assert dict(k.attrs)["schedule"] == "rows"
    assert not [s for s in stmts(k.body) if isinstance(s, Barrier)]
    assert threads(k) >= 128  # blocks that are started often enough do enough


@pytest.mark.parametrize(
    ("dtype", "length", "held"),
    [
        (DType.BF16, 8192, True),
        (DType.F32, 8192, True),
        (DType.BF16, 50_000, False),
        (DType.F32, 25_088, False),
    ],
)
def test_a_block_holds_a_row_if_two_have_room(dtype: DType, length: int, held: bool) -> None:
    k = chosen(softmax, dtype, 4096, length)
    loops = any(isinstance(s, For) and s.kind is LoopKind.SERIAL for s in stmts(k.body))
    assert (dict(k.attrs)["schedule"] == "rows" and not loops) == held
    assert threads(k) <= (512 if held else 1024)


def row_norm(x: dd.Tensor) -> dd.Tensor:
    h = dd.astype(x, dd.f32)
    return h * dd.rsqrt(dd.mean(h * h, axis=-1, keepdims=True) + 1e-6)


def row_sums(x: dd.Tensor, *, keepdims: bool) -> dd.Tensor:
    return dd.sum(x, axis=1, keepdims=keepdims)


def without_means(x: dd.Tensor) -> dd.Tensor:
    return x - dd.mean(x, axis=0, keepdims=True) - dd.mean(x, axis=1, keepdims=True)


def centred(x: dd.Tensor) -> dd.Tensor:
    h = dd.astype(x, dd.f32)
    h = h - dd.mean(h, axis=-1, keepdims=True)
    return h * dd.rsqrt(dd.mean(h * h, axis=-1, keepdims=True) + 1e-5)


def log_sum(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=-1)


MEANWHILE = "shared(blocks=8, clusters=15"
SHELVED = "lanes=1024, online=4, shelf=12, wide=4)"
AGAIN = "looped(back=1, groups=1, lanes=1024"
HALF = "looped(back=1, groups=1, lanes=512"


@pytest.mark.parametrize(
    ("f", "dtype", "shape", "want"),
    [
        # one pass over what a whole multiprocessor holds
        (centred, F32, (4096, 25_088), "rows(ahead=0, groups=1, lanes=1024, online=1, wide=4)"),
        (centred, F32, (4096, 32_768), "rows(ahead=0, groups=1, lanes=1024, online=1, wide=4)"),
        (row_norm, F32, (4096, 32_768), "rows(ahead=0, groups=1, lanes=1024, wide=4)"),
        (softmax_backward, F32, (4096, 32_768), "looped(back=1, groups=1, lanes=1024, wide=4)"),
        # the next row is copied while one is computed, if that is much, and blocks have many rows
        (softmax, BF16, (8192, 32_768), HELD_ALONE),
        # or announced
        (centred, BF16, (8192, 32_768), "rows(ahead=1, groups=1, lanes=1024, online=1, wide=4)"),
        (row_norm, BF16, (32_768, 4096), "rows(ahead=4, groups=2, lanes=128, wide=4)"),
        (softmax, BF16, (MANY, 256), "rows(ahead=8, groups=16, keep=1, lanes=8, online=0, wide=8)"),
        # narrow exponentials of a warp's row are computed again
        (
            softmax,
            BF16,
            (MANY, 1024),
            "rows(ahead=8, groups=4, keep=0, lanes=32, online=0, wide=8)",
        ),
        # by half the threads where fewer of these have nothing in the last turn
        (
            softmax,
            BF16,
            (MANY, 1040),
            "rows(ahead=8, groups=4, keep=0, lanes=32, online=0, wide=8)",
        ),
        (
            softmax,
            BF16,
            (MANY, 1288),
            "rows(ahead=4, groups=4, keep=0, lanes=64, online=0, wide=8)",
        ),
        (softmax, F32, (MANY, 1024), "rows(ahead=0, groups=4, keep=1, lanes=32, online=0, wide=4)"),
        # but no row of few, or short ones, or of more than the cache keeps
        (row_norm, BF16, (512, 4096), "rows(ahead=0, groups=1, lanes=256, wide=4)"),
        (row_norm, BF16, (MANY, 128), "rows(ahead=0, groups=8, lanes=16, wide=4)"),
        (row_norm, F32, (MANY, 2048), "rows(ahead=0, groups=4, lanes=64, wide=4)"),
        # several blocks hold what one would read three times
        (softmax, F32, (4096, 50_000), "cluster(back=0, blocks=4, lanes=256, online=0, wide=4)"),
        # or two blocks of a multiprocessor keep in shared memory
        (softmax, BF16, (3000, 32_000), f"{HALF}, online=4, shelf=4, wide=8)"),
        (softmax, BF16, (4096, 50_257), f"{HALF}, online=4, shelf=12, wide=8)"),
        (softmax, F32, (4096, 25_001), f"{HALF}, online=4, shelf=12, wide=4)"),
        (centred, BF16, (8192, 50_257), f"{HALF}, online=8, shelf=24, wide=4)"),
        # few rows are folded by one kernel, and used by another
        (softmax, BF16, (64, 1 << 18), "parted(lanes=256, online=4, parts=32, wide=8)"),
        (centred, F32, (16, 1_000_003), "parted(lanes=256, online=4, parts=128, wide=4)"),
        (softmax, F32, (32, 1 << 17), "cluster(back=0, blocks=8, lanes=512, online=0, wide=4)"),
        # rows that nobody holds are read again from the end, but for a part in shared memory
        (centred, F32, (4096, 50_000), f"{AGAIN}, online=4, shelf=12, wide=4)"),
        (softmax, BF16, (1024, 1 << 17), f"{AGAIN}, online=4, shelf=12, wide=8)"),
        # or by clusters that copy the next row meanwhile, with fewer threads that keep much
        (softmax, BF16, (512, 1 << 18), f"{MEANWHILE}, keep=1, lanes=512, wide=8)"),
        (softmax, F32, (2048, 1 << 17), f"{MEANWHILE}, keep=1, lanes=1024, wide=4)"),
        (centred, BF16, (1024, 1 << 18), f"{MEANWHILE}, lanes=1024, wide=4)"),
        # but not rows of which a cluster has few, or that one block nearly keeps
        (softmax, BF16, (900, 150_000), f"{AGAIN}, online=4, shelf=12, wide=8)"),
        (softmax, BF16, (128, 1 << 18), f"{AGAIN}, online=4, shelf=12, wide=8)"),
        # by as few blocks as leave no more than the cache holds
        (softmax, F32, (256, 1 << 20), f"cluster(back=1, blocks=8, {SHELVED}"),
        (softmax, F32, (256, 1 << 19), f"cluster(back=1, blocks=4, {SHELVED}"),
        (centred, F32, (64, 802_816), f"cluster(back=1, blocks=8, {SHELVED}"),
        (log_sum, BF16, (32_768, 50_000), "looped(back=0, groups=1, lanes=128, online=4, wide=8)"),
    ],
)
def test_long_rows_are_shared_as_was_fastest(
    f: Callable[..., Any], dtype: DType, shape: tuple[int, ...], want: str
) -> None:
    (loops,) = compile(traced(f, dtype, *shape).module, SM_90A, until="lower").loops.values()
    assert [str(x) for x in first(loops, SM_90A)] == [want]


@pytest.mark.parametrize("keepdims", [False, True])
def test_an_axis_of_one_element_does_not_say_how_results_lie(keepdims: bool) -> None:
    m = traced(partial(row_sums, keepdims=keepdims), DType.F32, 4096, 4096).module
    (loops,) = compile(m, SM_90A, until="lower").loops.values()
    assert [str(x) for x in first(loops, SM_90A)] == ["row(groups=1, lanes=256, wide=4)"]


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        ((1551, 11_743), "rows(ahead=0, groups=1, lanes=512, wide=4)"),  # columns are folded apart
        ((257_294, 8), "rows(ahead=0, groups=64, lanes=2, wide=4)"),
    ],
)
def test_what_all_columns_share_does_not_say_how_they_lie(
    shape: tuple[int, int], want: str
) -> None:
    found = compile(traced(without_means, DType.F32, *shape).module, SM_90A, until="lower").loops
    assert want in {str(x) for loops in found.values() for x in first(loops, SM_90A)}


@pytest.mark.parametrize("sizes", [(), (1,), (2,), (8,), (4, 4), (4, 4, 4), (8, 8), (8,) * 40])
def test_what_a_thread_holds_fits_its_registers(sizes: tuple[int, ...]) -> None:
    elements = row_threads.held(sizes)
    assert 1 <= elements <= row_threads.HELD
    assert elements == 1 or row_threads.words(sum(sizes), elements) <= row_threads.KEPT


def test_few_rows_are_spread_over_more_blocks() -> None:
    assert threads(chosen(softmax, DType.BF16, 128, 1024)) == 128
