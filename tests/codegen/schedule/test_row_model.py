"""How many threads the model gives a row, and whether they hold it: by length, dtype and count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule import row_threads
from didyma.refimpl.ir.loop import Barrier, Const, For, LoopKind, PrimFunc
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts
from tests.codegen.row_programs import softmax, softmax_backward

SM_90A = Options(target="sm_90a")
MANY = 1 << 16  # rows


def chosen(f: Callable[..., Any], dtype: DType, *shape: int) -> PrimFunc:
    t = getattr(dd, dtype.value)[shape]
    program: dd.Program = dd.trace(*[t] * (2 if f is softmax_backward else 1))(f)
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


@pytest.mark.parametrize("sizes", [(), (1,), (2,), (8,), (4, 4), (4, 4, 4), (8, 8), (8,) * 40])
def test_what_a_thread_holds_fits_its_registers(sizes: tuple[int, ...]) -> None:
    elements = row_threads.held(sizes)
    assert 1 <= elements <= row_threads.HELD
    assert elements == 1 or row_threads.words(sum(sizes), elements) <= row_threads.KEPT


def test_few_rows_are_spread_over_more_blocks() -> None:
    assert threads(chosen(softmax, DType.BF16, 128, 1024)) == 128
