"""Running sums in blocks are those of one loop: exactly for integers, within bars for floats."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.passes.running import block_runs
from didyma.codegen.runtime.registry import engine
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.composites.builder import Builder
from didyma.fuzz.graphs import inputs as random_inputs
from didyma.fuzz.levels import check
from didyma.refimpl.interp.graph import run
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, Module, Node
from didyma.refimpl.ir.loop import Buffer
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.verify.graph import verify
from didyma.tracer.tracing import Program

LONG = 128
OPTIONS = Options().changed({"graph.long_run": LONG})
BLOCK = LONG // 4


def module(op: str, dtype: DType, shape: tuple[int, ...], axis: int, **how: bool) -> Module:
    b = Builder()
    x = b.param("x", TensorType(dtype, shape))
    return b.module("main", [b(op, [x], axis=axis, **how)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("op", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((LONG,), 0),
        ((LONG * BLOCK + 7,), 0),
        ((2, LONG + 1, 3), 1),
        ((2 * LONG + 1,), 0),
        ((0, LONG), 1),
    ],
)
def test_integers(
    op: str, shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool
) -> None:
    m = module(op, DType.I32, shape, axis, exclusive=exclusive, reverse=reverse)
    blocked = block_runs(m, OPTIONS)
    verify(blocked)
    assert len(blocked.entry.nodes) > len(m.entry.nodes)
    x = np.random.default_rng(7).integers(-9, 10, shape, np.int32)
    (want,), (got,) = run(m, [x]), run(blocked, [x])
    assert np.array_equal(want, got)


def test_no_loop_is_long_any_more() -> None:
    runs = module("cumulative_sum", DType.F32, (100_000,), 0, exclusive=False, reverse=False)
    m = block_runs(runs, OPTIONS)
    axes = [(n.types[0].shape, n.attr["axis"]) for n in m.entry.nodes if "cumulative" in n.op]
    sizes = [shape[axis] for shape, axis in axes if isinstance(axis, int)]
    assert sizes
    assert all(isinstance(n, int) and n < LONG for n in sizes)


def test_a_primitive_function_stays() -> None:
    m = module("cumulative_sum", DType.I32, (LONG,), 0, exclusive=False, reverse=False)
    f = replace(m.entry, name="run", attrs=((PRIMITIVE, 1),))
    (x,), (y,) = f.params, f.results
    call = Node((y,), CALL, (x.name,), f.result_types(), (("callee", "run"),))
    m = Module((f, replace(m.entry, nodes=(call,))))
    verify(m)
    assert block_runs(m, OPTIONS) is m


@pytest.mark.parametrize("shape", [(2, LONG - 1), (2, 3), (40, LONG), (4, LONG, 10)])
def test_what_is_short_or_many_stays(shape: tuple[int, ...]) -> None:
    m = module("cumulative_sum", DType.F32, shape, 1, exclusive=False, reverse=False)
    assert block_runs(m, OPTIONS) is m


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.F16, DType.BF16, DType.U8])
def test_every_level_agrees(dtype: DType) -> None:
    m = module("cumulative_sum", dtype, (2, LONG + 5), 1, exclusive=True, reverse=False)
    x = random_inputs(m, {}, [5])
    report = check(m, x, [engine("host")], OPTIONS)
    assert report.agree, report.findings


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"exclusive": True}], ids=str)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8])
@pytest.mark.parametrize(("shape", "axis"), [((2048,), 0), ((3, 1800), 1), ((1443, 2), 0)])
def test_a_line_that_blocks_divide_is_read_twice_and_written_once(
    shape: tuple[int, ...], axis: int, dtype: DType, how: dict[str, bool]
) -> None:
    usual = {"exclusive": False, "reverse": False}
    m, traffic = module("cumulative_sum", dtype, shape, axis, **usual | how), Traffic()
    exe = dd.compile(Program(m), engine=Simt(traffic=traffic), options=OPTIONS)
    exe(np.ones(shape, dtype.numpy))
    size, line = math.prod(shape), math.prod(shape) * dtype.nbytes
    kernels = [k for ks in exe.compiled.kernels.values() for k in ks]
    lines = {(k.name, b.name) for k in kernels for b in k.params if _numel(b) == size}
    read, written = (
        sum(n for place, n in counts.items() if place in lines)
        for counts in (traffic.read, traffic.written)
    )
    assert len(kernels) == 3
    assert (read, written) == (2 * line, line)
    totals = traffic.written.total() - written  # and what comes before each block
    assert totals <= 2 * dtype.compute.nbytes * size // BLOCK


@pytest.mark.parametrize("shape", [(2048,), (3, LONG * 9 + 1)])
@pytest.mark.parametrize("dtype", [DType.BOOL, DType.I8, DType.I32, DType.U2])
def test_a_line_is_widened_where_it_is_read(dtype: DType, shape: tuple[int, ...]) -> None:
    b = Builder()
    x = b("cast", [b.param("x", TensorType(dtype, shape))], dtype=DType.I64)
    axis = len(shape) - 1
    sums = b("cumulative_sum", [x], axis=axis, exclusive=False, reverse=True)
    m = b.module("main", [sums])
    report = check(m, random_inputs(m, {}, [5]), [engine("host")], OPTIONS)
    assert report.agree, report.findings
    made = dd.compile(Program(m), options=OPTIONS).compiled
    kernels = [k for ks in made.kernels.values() for k in ks]
    read = [b for k in kernels for b in k.params if b.name not in k.outputs]
    wide = [b for b in read if _numel(b) >= math.prod(shape) and b.dtype is DType.I64]
    assert not wide or dtype is DType.U2 or len(shape) > 1  # in bytes, or of a length with divisors


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_a_cast_that_rounds_stays(dtype: DType) -> None:
    b = Builder()
    x = b("cast", [b.param("x", TensorType(DType.F64, (2048,)))], dtype=dtype)
    m = b.module("main", [b("cumulative_sum", [x], axis=0, exclusive=False, reverse=False)])
    given = np.zeros(2048)
    given[3:5] = 1e300, -1e300  # infinities, whose sum is NaN
    got = np.asarray(dd.compile(Program(m), options=OPTIONS)(given)).astype(np.float64)
    assert np.array_equal(got[:4], [0, 0, 0, np.inf])
    assert np.isnan(got[4:]).all()


def _numel(b: Buffer) -> int:
    return math.prod(d for d in b.shape if isinstance(d, int))
